//! PodDisruptionBudgets: their status says how many pods may be evicted now.
//!
//! The API server refuses evictions by that status, and subtracts what it grants. [`plan`] counts again from the
//! present pods.

mod reconcile;
mod scale;
mod stale;
mod trigger;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use reconcile::register;
