//! The garbage collector: objects go when all their owners have gone, whatever kind they are.

mod absent;
mod graph;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use absent::AbsentOwners;
pub(crate) use graph::{Graph, Identity, Object, Owner, Uid, Work};
pub(crate) use plan::{Policy, Presence, Verdict, judge};

/// Holds an owner until its blocking dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Holds an owner until its dependents no longer name it.
pub(crate) const ORPHAN: &str = "orphan";
