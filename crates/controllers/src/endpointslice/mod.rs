//! EndpointSlices: where a Service's pods are, a hundred to a slice.

mod reconcile;
mod plan;
mod desired;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use desired::{PortKey, port_key, ports};
pub(crate) use plan::Plan;
use plan::plan;
pub(crate) use reconcile::{register, write};

/// Names the Service of a slice.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Names the keeper of a slice.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The name of this controller in slices.
pub(crate) const CONTROLLER: &str = "endpointslice-controller.k8s.io";
