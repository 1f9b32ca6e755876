//! The garbage collector: objects go when all their owners have gone, whatever kind they are.

mod monitor;
mod collector;
mod absent;
mod write;
mod plan;
mod graph;
#[cfg(test)]
mod tests;

use absent::AbsentOwners;
use graph::{Graph, Identity, Object, Owner, Uid, Work};
pub(crate) use monitor::register;
use plan::{Policy, Presence, Verdict, evaluate};

/// Holds an owner until its blocking dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";
/// Holds an owner until its dependents no longer name it.
const ORPHAN: &str = "orphan";
