//! The custom resource: a host name for a Service.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Gives the cluster IP of a Service a host name.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "dns.example.com",
    version = "v1",
    kind = "HostRecord",
    namespaced,
    status = "HostRecordStatus",
    printcolumn = r#"{"name":"Hostname","type":"string","jsonPath":".spec.hostname"}"#,
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.state"}"#,
    printcolumn = r#"{"name":"Address","type":"string","jsonPath":".status.address"}"#
)]
pub struct HostRecordSpec {
    /// The host name. The pattern keeps a line break, and thus a second record, out of the file.
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub hostname: String,
    /// The Service, in the namespace of the record.
    #[schemars(length(min = 1))]
    pub service: String,
    /// The time at which the name is withdrawn. Without it the name stays.
    pub expires: Option<Time>,
}

impl HostRecord {
    /// Returns the record's line in a hosts file.
    pub fn line(&self, address: &str) -> String {
        format!("{address} {}\n", self.spec.hostname)
    }
}

/// The state of a record.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct HostRecordStatus {
    /// `Waiting`, `Published` or `Expired`.
    pub state: State,
    /// The address that the name leads to. Absent unless the record is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// The three states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum State {
    /// The Service does not exist, or has no cluster IP.
    #[default]
    Waiting,
    /// The folder has the record.
    Published,
    /// The record's time is over.
    Expired,
}
