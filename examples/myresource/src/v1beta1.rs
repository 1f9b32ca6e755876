//! The second version of a MyResource: the memory stands where a container has it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::core::crd::merge_crds;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use setpoint::webhook::{Conversion, Webhooks};

use crate::types::{self, MyResourceStatus, quantity};

/// Runs one image with given resources.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "mygroup.example.com",
    version = "v1beta1",
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
    /// The resources that the container requests.
    pub resources: Requests,
}

/// The requests of the container.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Requests {
    /// The memory.
    #[schemars(schema_with = "quantity")]
    pub memory: Quantity,
}

/// The definition of both versions. The first one stays the stored one, so that no object has to be written again.
pub fn definition() -> CustomResourceDefinition {
    merge_crds(vec![types::MyResource::crd(), MyResource::crd()], "v1alpha1")
        .expect("both versions have one group, kind and scope")
}

/// The conversion webhook.
pub fn webhooks() -> Webhooks {
    Webhooks::new("myresource-system", "myresource-webhooks").convert(conversion())
}

/// The newer version is the hub.
pub fn conversion() -> Conversion<MyResource> {
    Conversion::of_hub().spoke(up, down)
}

fn up(old: types::MyResource) -> Result<MyResource, String> {
    let spec = MyResourceSpec { image: old.spec.image, resources: Requests { memory: old.spec.memory } };
    Ok(MyResource { metadata: old.metadata, spec, status: old.status })
}

fn down(new: MyResource) -> Result<types::MyResource, String> {
    let spec = types::MyResourceSpec { image: new.spec.image, memory: new.spec.resources.memory };
    Ok(types::MyResource { metadata: new.metadata, spec, status: new.status })
}
