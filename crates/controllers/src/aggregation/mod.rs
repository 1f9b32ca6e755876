//! Aggregated ClusterRoles: a role with an `aggregationRule` has the rules of all roles that its selectors select.
//! The author of a new kind therefore labels a role to say who may see and change the kind.

mod reconcile;
mod plan;

pub(crate) use reconcile::register;
