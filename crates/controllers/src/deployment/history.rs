//! Revisions: which ReplicaSet holds the Deployment's template, how it is numbered, and which old ones may go.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::rollout::{Rollout, Set};
use super::{
    DESIRED_REPLICAS, LAST_APPLIED, MAX_REPLICAS, POD_TEMPLATE_HASH, REVISION, REVISION_HISTORY, ROLLBACK_TO,
    condition, pod_template_hash,
};
use crate::children::claim::controller_reference;
use crate::object::field::Field;

/// Characters that the history annotation may take.
const HISTORY_LIMIT: usize = 2000;
/// The longest name of an object.
const NAME_LIMIT: usize = 253;

/// Whether an annotation is the controller's or kubectl's own and never travels between Deployment and ReplicaSet.
pub fn is_reserved(key: &str) -> bool {
    [LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO].contains(&key)
}

/// Numbers the new ReplicaSet above all old ones and copies the annotations. Does nothing if there is no new
/// ReplicaSet.
pub fn sync_revision(rollout: &mut Rollout<'_>) {
    let Some(new) = rollout.new else { return };
    if rollout.creating {
        return;
    }
    let wanted = next_revision(rollout);
    let from = rollout.deployment.metadata.annotations.as_ref();
    let set = &mut rollout.sets[new];
    annotate(&mut set.annotations, from, wanted);
    set.min_ready_seconds = rollout.spec.min_ready_seconds.unwrap_or(0);
    rollout.revision = set.annotations.get(REVISION).cloned();
    let progressing = condition::get(&rollout.status, condition::PROGRESSING);
    if condition::progress_deadline(rollout.deployment).is_some() && progressing.is_none() {
        let message = format!("Found new replica set {:?}", rollout.sets[new].name());
        let reason = condition::FOUND_NEW_REPLICA_SET;
        let found = condition::new(condition::PROGRESSING, "True", reason, message, rollout.now);
        condition::set(&mut rollout.status, found);
    }
}

fn next_revision(rollout: &Rollout<'_>) -> i64 {
    let old = rollout.old().into_iter().filter_map(|index| rollout.sets[index].revision());
    old.max().unwrap_or(0).max(0) + 1
}

/// Copies the Deployment's annotations and raises the revision; the one it had goes into the history.
fn annotate(
    annotations: &mut BTreeMap<String, String>,
    from: Option<&BTreeMap<String, String>>,
    wanted: i64,
) {
    for (key, value) in from.into_iter().flatten().filter(|(key, _)| !is_reserved(key)) {
        annotations.insert(key.clone(), value.clone());
    }
    let before = annotations.get(REVISION).cloned();
    // Another writer wrote an unreadable revision. This controller does not repair it.
    let Ok(number) = before.as_deref().filter(|text| !text.is_empty()).map_or(Ok(0), str::parse::<i64>)
    else {
        return;
    };
    if number >= wanted {
        return;
    }
    annotations.insert(REVISION.into(), wanted.to_string());
    if let Some(before) = before {
        let history = annotations.get(REVISION_HISTORY).map(String::as_str).unwrap_or_default();
        if let Some(history) = append_history(history, &before) {
            annotations.insert(REVISION_HISTORY.into(), history);
        }
    }
}

/// Appends a revision, dropping the oldest ones when the annotation would grow too long.
fn append_history(history: &str, revision: &str) -> Option<String> {
    if history.is_empty() || history.starts_with(',') {
        return Some(revision.to_owned());
    }
    let mut kept = history;
    while kept.len() + revision.len() + 1 > HISTORY_LIMIT {
        match kept.split_once(',') {
            Some((_, rest)) => kept = rest,
            None => return (revision.len() <= HISTORY_LIMIT).then(|| revision.to_owned()),
        }
    }
    Some(format!("{kept},{revision}"))
}

/// Adds the ReplicaSet for the Deployment's template to the plan, with the size that the strategy allows.
pub fn create_new(rollout: &mut Rollout<'_>) {
    if rollout.new.is_some() {
        return;
    }
    let revision = next_revision(rollout);
    let mut set = Set::new(Cow::Owned(for_template(rollout)));
    set.replicas = 0;
    annotate(&mut set.annotations, rollout.deployment.metadata.annotations.as_ref(), revision);
    rollout.sets.push(set);
    let new = rollout.sets.len() - 1;
    rollout.new = Some(new);
    rollout.creating = true;
    let replicas = rollout.size_of_new(new);
    let name = rollout.sets[new].name().to_owned();
    rollout.scale_set(new, replicas);
    rollout.revision = Some(revision.to_string());
    if condition::progress_deadline(rollout.deployment).is_some() {
        let message = format!("Created new replica set {name:?}");
        let reason = condition::NEW_REPLICA_SET_CREATED;
        let created = condition::new(condition::PROGRESSING, "True", reason, message, rollout.now);
        condition::set(&mut rollout.status, created);
    }
}

fn for_template(rollout: &Rollout<'_>) -> ReplicaSet {
    let collisions = rollout.status.collision_count;
    let hash = pod_template_hash(&rollout.spec.template, collisions);
    let mut template = rollout.spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(POD_TEMPLATE_HASH.into(), hash.clone());
    let labels = labels.clone();
    let mut selector = rollout.spec.selector.clone();
    selector.match_labels.get_or_insert_default().insert(POD_TEMPLATE_HASH.into(), hash.clone());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(set_name(rollout.name(), &hash)),
            namespace: rollout.deployment.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference(
                "apps/v1",
                "Deployment",
                &rollout.deployment.metadata,
            )]),
            ..Default::default()
        },
        spec: Field::with(ReplicaSetSpec {
            replicas: Some(0),
            min_ready_seconds: rollout.spec.min_ready_seconds.filter(|seconds| *seconds != 0),
            selector,
            template: Some(template),
        }),
        status: None,
    }
}

/// `<deployment>-<hash>`, the Deployment's part cut so that the whole is a name.
fn set_name(deployment: &str, hash: &str) -> String {
    let room = NAME_LIMIT - hash.len() - 1;
    format!("{}-{hash}", &deployment[..deployment.len().min(room)])
}

/// Deletes ReplicaSets beyond the history limit, lowest revisions first, if they are empty and their status is
/// current.
pub fn clean_up(rollout: &mut Rollout<'_>) {
    let Some(limit) = rollout.spec.revision_history_limit.filter(|limit| *limit != i32::MAX) else {
        return;
    };
    let alive = |index: &usize| rollout.sets[*index].observed.metadata.deletion_timestamp.is_none();
    let mut candidates: Vec<usize> = rollout.old().into_iter().filter(alive).collect();
    let excess = candidates.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    // Equal and unreadable revisions keep their order of age.
    candidates.sort_by(|a, b| match (rollout.sets[*a].revision(), rollout.sets[*b].revision()) {
        (Some(a), Some(b)) => a.cmp(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    });
    candidates.truncate(excess);
    candidates.retain(|index| {
        let set = &rollout.sets[*index];
        let observed = set.observed.metadata.generation.unwrap_or(0) <= set.observed_generation();
        set.actual() == 0 && set.replicas == 0 && observed
    });
    rollout.deleted = candidates;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_forgets_its_oldest_revisions_when_it_grows_too_long() {
        assert_eq!(append_history("", "3").as_deref(), Some("3"));
        assert_eq!(append_history("1,3", "5").as_deref(), Some("1,3,5"));
        let long = (0..500).map(|n| (1000 + n).to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(long.len(), 2499);
        let appended = append_history(&long, "2000").unwrap();
        assert!(appended.len() <= HISTORY_LIMIT && appended.ends_with(",1499,2000"), "{}", appended.len());
        assert!(!appended.starts_with("1000,"));
    }

    #[test]
    fn a_long_name_is_cut_so_that_the_hash_fits() {
        assert_eq!(set_name("web", "5d9c"), "web-5d9c");
        let name = set_name(&"d".repeat(253), "5d9c");
        assert_eq!(name.len(), 253);
        assert!(name.ends_with("d-5d9c"));
    }

    #[test]
    fn an_unreadable_revision_stays() {
        let mut annotations = BTreeMap::from([(REVISION.to_owned(), "x".to_owned())]);
        annotate(&mut annotations, None, 4);
        assert_eq!(annotations[REVISION], "x");
    }
}
