//! EndpointSlices of Endpoints that somebody else than a controller writes: those of Services without a selector.

mod reconcile;
mod plan;
#[cfg(test)]
mod tests;

use plan::{Mirrored, plan};
pub(crate) use reconcile::register;

/// The name of this controller in slices.
const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
