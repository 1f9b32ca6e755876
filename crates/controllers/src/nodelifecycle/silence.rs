//! The status of a silent node.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};

use crate::object::time::whole_seconds;

/// Conditions that only the node itself can know.
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Returns the status of a node that was silent for too long, or `None` if the status is right already.
pub fn unknown(node: &Node, now: Timestamp) -> Option<NodeStatus> {
    let mut status = node.status.clone().unwrap_or_default();
    let conditions = status.conditions.get_or_insert_default();
    for type_ in CONDITIONS {
        match conditions.iter_mut().find(|condition| condition.type_ == type_) {
            None => conditions.push(never_said(node, type_, now)),
            Some(said) if said.status != "Unknown" => {
                said.status = "Unknown".into();
                said.reason = Some("NodeStatusUnknown".into());
                said.message = Some("Kubelet stopped posting node status.".into());
                said.last_transition_time = Some(whole_seconds(now));
            }
            Some(_) => {}
        }
    }
    (Some(&status) != node.status.as_ref()).then_some(status)
}

fn never_said(node: &Node, type_: &str, now: Timestamp) -> NodeCondition {
    NodeCondition {
        type_: type_.into(),
        status: "Unknown".into(),
        reason: Some("NodeStatusNeverUpdated".into()),
        message: Some("Kubelet never posted node status.".into()),
        last_heartbeat_time: node.metadata.creation_timestamp.clone(),
        last_transition_time: Some(whole_seconds(now)),
    }
}
