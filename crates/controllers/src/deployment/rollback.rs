//! Rollback asked for by annotation.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::decision::{Event, Plan, Rollback};
use super::rollout::Rollout;
use super::writes::writes;
use super::{POD_TEMPLATE_HASH, ROLLBACK_TO, history, template};
use crate::object::field::replica_set_spec;

/// The revision asked for: zero means the one before.
pub fn requested(deployment: &Deployment) -> Option<i64> {
    deployment.metadata.annotations.as_ref()?.get(ROLLBACK_TO)?.parse().ok()
}

/// Restores the template of the revision. Always clears the request, so that it is not tried again.
pub fn plan(mut rollout: Rollout<'_>, revision: i64) -> Plan {
    history::sync_revision(&mut rollout);
    history::create_new(&mut rollout);
    let annotations = rollout.deployment.metadata.annotations.clone().unwrap_or_default();
    let (mut rollback, event) = to_revision(&rollout, revision, annotations);
    rollback.annotations.remove(ROLLBACK_TO);
    if let Some(revision) = &rollout.revision {
        rollback.annotations.insert(super::REVISION.into(), revision.clone());
    }
    rollout.events.push(event);
    Plan { rollback: Some(rollback), revision: None, ..writes(rollout) }
}

fn to_revision(
    rollout: &Rollout<'_>,
    revision: i64,
    annotations: BTreeMap<String, String>,
) -> (Rollback, Event) {
    let unchanged = |annotations, event| (Rollback { template: None, annotations }, event);
    let not_found = |message: &str| Event::warning("DeploymentRollbackRevisionNotFound", message.to_owned());
    let revision = if revision == 0 { last_revision(rollout) } else { revision };
    if revision == 0 {
        return unchanged(annotations, not_found("Unable to find last revision."));
    }
    let Some(set) = rollout.sets.iter().find(|set| set.revision() == Some(revision)) else {
        return unchanged(annotations, not_found("Unable to find the revision to rollback to."));
    };
    let found = replica_set_spec(&set.observed).template.clone().unwrap_or_default();
    if template::equal_ignoring_hash(&found, &rollout.spec.template) {
        let name = rollout.name();
        let message =
            format!("The rollback revision contains the same template as current deployment {name:?}");
        return unchanged(annotations, Event::warning("DeploymentRollbackTemplateUnchanged", message));
    }
    let kept = annotations.into_iter().filter(|(key, _)| history::is_reserved(key));
    let taken = set.annotations.iter().filter(|(key, _)| !history::is_reserved(key));
    let annotations = kept.chain(taken.map(|(key, value)| (key.clone(), value.clone()))).collect();
    let message = format!("Rolled back deployment {:?} to revision {revision}", rollout.name());
    let template = Some(without_hash(found));
    (Rollback { template, annotations }, Event::normal("DeploymentRollback", message))
}

fn without_hash(mut template: PodTemplateSpec) -> PodTemplateSpec {
    if let Some(labels) = template.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
        labels.remove(POD_TEMPLATE_HASH);
    }
    template
}

/// The second highest revision, zero if there is none.
fn last_revision(rollout: &Rollout<'_>) -> i64 {
    let mut revisions: Vec<i64> = rollout.sets.iter().filter_map(|set| set.revision()).collect();
    revisions.sort_unstable();
    revisions.iter().rev().nth(1).copied().unwrap_or(0)
}
