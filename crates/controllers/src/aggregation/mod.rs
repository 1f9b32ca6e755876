//! Aggregated ClusterRoles: one with an `aggregationRule` has the rules of all that its selectors select, so whoever adds
//! a kind says by a label of a role who may see and change it.

mod reconcile;
mod plan;

pub(crate) use reconcile::register;
