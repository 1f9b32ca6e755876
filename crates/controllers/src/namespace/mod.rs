//! Namespaces: everything in them goes before they do, pods first.

mod condition;
mod plan;

pub(crate) use condition::{Content, conditions};
pub(crate) use plan::{Remaining, Resource, Step, step};

/// Holds a namespace until its content is gone.
pub(crate) const KUBERNETES: &str = "kubernetes";
