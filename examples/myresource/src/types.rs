//! The custom resource of the book: an image and the memory that it asks for.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Runs one image with a given amount of memory.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "mygroup.example.com",
    version = "v1alpha1",
    kind = "MyResource",
    namespaced,
    status = "MyResourceStatus",
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".spec.image"}"#,
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.state"}"#
)]
pub struct MyResourceSpec {
    /// The image of the one container.
    #[schemars(length(min = 1))]
    pub image: String,
    /// The memory that the container requests.
    #[schemars(schema_with = "quantity")]
    pub memory: Quantity,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct MyResourceStatus {
    /// `Building` until the Deployment has its replica ready, then `Ready`.
    pub state: State,
}

/// The two states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum State {
    /// The Deployment is not there yet, or not ready.
    #[default]
    Building,
    /// The Deployment has its replica ready.
    Ready,
}

/// A quantity is a number or text of a fixed form, so that a wrong one is refused when it is written.
pub(crate) fn quantity(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    })
}
