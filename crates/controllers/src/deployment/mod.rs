//! Deployments: one ReplicaSet per template, rolled from old to new within surge and unavailability.
//!
//! [`plan`] decides from the observed objects. The reconcile reads, applies the plan's writes, and writes events.

mod reconcile;
mod trigger;
mod plan;
mod recreate;
mod rolling;
mod rollback;
mod writes;
mod scale;
mod history;
mod status;
mod rollout;
mod decision;
mod condition;
mod hash;
mod template;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use decision::Plan;
pub(crate) use hash::pod_template_hash;
#[cfg(test)]
pub(crate) use plan::{Observed, plan};
pub(crate) use reconcile::register;
pub(crate) use template::equal_ignoring_hash;

/// Label that separates the pods of one template from those of another.
pub(crate) const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// The revision of a ReplicaSet among its Deployment's, and the Deployment's present one.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Former revisions of a ReplicaSet that became current again.
pub(crate) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The Deployment's replicas when the ReplicaSet was last scaled.
pub(crate) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Replicas and surge when the ReplicaSet was last scaled.
pub(crate) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Annotation that asks for a rollback. It replaces a field of extensions/v1beta1.
pub(crate) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// kubectl's annotation with the last applied configuration.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
