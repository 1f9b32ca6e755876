//! The custom resource.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A store with replicas.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "seeded.example.org", version = "v1", kind = "Store", namespaced, status = "StoreStatus")]
#[serde(rename_all = "camelCase")]
pub struct StoreSpec {
    /// Number of replicas, and of claims.
    pub replicas: i32,
    /// Size, as the config has it.
    pub size: String,
    /// Settings of the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Labels of the Service.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Whether there is a monitor.
    #[serde(default)]
    pub monitor: bool,
}

/// The observed state of a store.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreStatus {
    /// The generation that the operator has acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Running` once all children are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The number of claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// `Ready`, and the conditions of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// A value that one of the bugs keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
