//! Namespaces: everything in them goes before they do, pods first.

mod reconcile;
mod condition;
mod plan;

use condition::{Content, conditions};
use plan::{Remaining, Step, step};
pub(crate) use reconcile::register;

/// Holds a namespace until its content is gone.
const KUBERNETES: &str = "kubernetes";
