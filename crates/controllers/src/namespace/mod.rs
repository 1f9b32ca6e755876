//! Namespaces: everything in them goes before they do, pods first.

mod condition;
mod plan;
mod reconcile;

use condition::{Content, conditions};
use plan::{Remaining, Step, step};
pub(crate) use reconcile::register;

/// Holds a namespace until its content is gone.
const KUBERNETES: &str = "kubernetes";
