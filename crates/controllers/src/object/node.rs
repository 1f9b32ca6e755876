//! Questions about a node.

use k8s_openapi::api::core::v1::{Node, NodeCondition};

/// A condition by type.
pub fn condition<'a>(node: &'a Node, type_: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

/// Whether the node's Ready condition is true.
pub fn is_ready(node: &Node) -> bool {
    condition(node, "Ready").is_some_and(|condition| condition.status == "True")
}
