//! PodDisruptionBudgets: their status says how many pods may be evicted now.
//!
//! The API server refuses evictions by that status and takes from it what it grants; [`plan`] counts anew from the pods
//! that there are.

mod plan;
mod reconcile;
mod scale;
mod stale;
#[cfg(test)]
mod tests;
mod trigger;

pub(crate) use reconcile::register;
