//! Endpoints: what EndpointSlices say, in the older form that some clients still read.

mod reconcile;
mod plan;

use plan::{Plan, plan};
pub(crate) use reconcile::register;

/// Names the keeper of Endpoints.
pub(crate) const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// The name of this controller in Endpoints.
pub(crate) const CONTROLLER: &str = "endpoint-controller";
