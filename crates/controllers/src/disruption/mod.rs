//! PodDisruptionBudgets: their status says how many pods may be evicted now.
//!
//! The API server refuses evictions by that status and takes from it what it grants; [`plan`] counts anew from the pods
//! that there are.

mod reconcile;
mod scale;
mod stale;
mod trigger;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use reconcile::register;
