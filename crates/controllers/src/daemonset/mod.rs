//! DaemonSets: one pod on every node that should have one.
//!
//! [`Observed`] orders the observed pods by node. [`manage`] creates missing pods and deletes surplus and ended ones.
//! [`rolling`] replaces pods of old templates. [`status`] counts. The reconcile reads, keeps the history of
//! templates, and carries out the plans.

mod reconcile;
mod history;
mod rolling;
mod manage;
mod backoff;
mod status;
mod observed;
mod template;
mod trigger;
mod placement;
#[cfg(test)]
mod tests;

pub(crate) use reconcile::register;

/// Label of the revision that a pod or ControllerRevision is of.
const REVISION_HASH: &str = "controller-revision-hash";
/// Label of pods with the generation of the template, which was before there were revisions.
const TEMPLATE_GENERATION: &str = "pod-template-generation";
/// Annotation of the DaemonSet with the same.
const TEMPLATE_GENERATION_OF_SET: &str = "deprecated.daemonset.template.generation";
