//! The Node object and its Lease.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use serde_json::{Value, json};
use setpoint_api::clock::{rfc3339_micros, rfc3339_seconds};

use crate::address::pod_cidr;
use crate::node_name::name;
use crate::options::NodeOptions;

/// The namespace of node leases.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Time for which a lease is valid without a renewal.
const LEASE_SECONDS: i64 = 40;
/// Port of a kubelet whose Node names none.
const KUBELET_PORT: u16 = 10250;

/// The Node object for the registration.
pub fn node(index: u32) -> Value {
    let name = name(index);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": std::env::consts::OS,
                "kubernetes.io/arch": architecture(),
                "beta.kubernetes.io/os": std::env::consts::OS,
                "beta.kubernetes.io/arch": architecture(),
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"podCIDR": pod_cidr(index), "podCIDRs": [pod_cidr(index)]},
    })
}

/// Returns the status that a healthy node reports now. `port` is the port of the kubelet's paths, if the node serves
/// them. `before` is the Node's present status.
pub fn status(
    index: u32,
    options: &NodeOptions,
    port: Option<u16>,
    before: Option<&Node>,
    now: Timestamp,
) -> Value {
    let time = rfc3339_seconds(now);
    let resources = json!({
        "cpu": options.capacity.cpu,
        "memory": options.capacity.memory,
        "ephemeral-storage": "100Gi",
        "pods": options.capacity.pods.to_string(),
    });
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        let reported =
            before.and_then(|node| reported(node, kind)).filter(|reported| reported.status == status);
        let since = reported.and_then(|reported| reported.last_transition_time.as_ref());
        json!({
            "type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": time,
            "lastTransitionTime": since.map_or_else(|| time.clone(), |since| rfc3339_seconds(since.0)),
        })
    };
    json!({
        "capacity": resources,
        "allocatable": resources,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "addresses": [
            {"type": "InternalIP", "address": options.address},
            {"type": "Hostname", "address": name(index)},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port.unwrap_or(KUBELET_PORT)}},
        "nodeInfo": {
            "architecture": architecture(),
            "bootID": "", "machineID": "", "systemUUID": "",
            "containerRuntimeVersion": concat!("setpoint://", env!("CARGO_PKG_VERSION")),
            "kernelVersion": std::env::consts::OS,
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.37.0",
            "operatingSystem": std::env::consts::OS,
            "osImage": "Setpoint",
        },
    })
}

/// Whether a Node's Ready condition is true.
pub fn is_ready(node: &Node) -> bool {
    reported(node, "Ready").is_some_and(|ready| ready.status == "True")
}

fn reported<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// Kubernetes names architectures as Go does.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns the node's lease, renewed at `now`.
pub fn lease(index: u32, owner_uid: &str, now: Timestamp) -> Value {
    let name = name(index);
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": owner_uid}],
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": rfc3339_micros(now),
        },
    })
}
