//! The garbage collector: objects go when all their owners have gone, whatever kind they are.

mod absent;
mod collector;
mod graph;
mod monitor;
mod plan;
#[cfg(test)]
mod tests;
mod write;

use absent::AbsentOwners;
use graph::{Graph, Identity, Object, Owner, Uid, Work};
pub(crate) use monitor::register;
use plan::{Policy, Presence, Verdict, judge};

/// Holds an owner until its blocking dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";
/// Holds an owner until its dependents no longer name it.
const ORPHAN: &str = "orphan";
