//! The custom resource: markdown files and how they are shown.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The image that shows the files where `spec.viewerImage` is empty.
pub const DEFAULT_VIEWER_IMAGE: &str = "peaceiris/mdbook:latest";

/// Shows markdown files as a book.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "view.zoetrope.github.io",
    version = "v1",
    kind = "MarkdownView",
    namespaced,
    status = "MarkdownViewStatus",
    printcolumn = r#"{"name":"Replicas","type":"integer","jsonPath":".spec.replicas"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.state"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MarkdownViewSpec {
    /// File name to content. `SUMMARY.md` is the table of contents.
    #[schemars(extend("minProperties" = 1), extend("x-kubernetes-validations" = [{
        "rule": "'SUMMARY.md' in self",
        "message": "markdowns must have SUMMARY.md.",
    }]))]
    pub markdowns: BTreeMap<String, String>,
    /// How many viewers.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: i32,
    /// The image of the viewer.
    #[serde(default = "default_viewer_image")]
    pub viewer_image: String,
}

fn one() -> i32 {
    1
}

fn default_viewer_image() -> String {
    DEFAULT_VIEWER_IMAGE.into()
}

/// The observed state of the children.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct MarkdownViewStatus {
    /// The summary that `kubectl get` shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Available and Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// From bad to good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum State {
    /// No viewer answers.
    NotReady,
    /// Some viewers answer.
    Available,
    /// Every viewer answers.
    Healthy,
}
