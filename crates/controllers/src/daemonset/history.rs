//! The templates that a DaemonSet had: a ControllerRevision for each, the present one numbered above all others.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde::Deserialize;
use serde_json::{Value, json};
use setpoint::{Client, ClientError, Key, NotFoundExt, Patch};

use super::REVISION_HASH;
use crate::children::adopt::{self, Owner, children_and_orphans};
use crate::controller_revision::{data, name, number, renumber, revision_name, sort};
use crate::deployment::pod_template_hash;
use crate::object::field::{Field, daemon_set_spec};

/// The revision of the present template, and the others.
pub struct History {
    pub current: Arc<ControllerRevision>,
    /// The lowest first.
    pub old: Vec<Arc<ControllerRevision>>,
}

impl History {
    /// The label that the present template's pods have.
    pub fn hash(&self) -> &str {
        hash_of(&self.current.metadata).unwrap_or_default()
    }
}

fn hash_of(meta: &ObjectMeta) -> Option<&str> {
    meta.labels.as_ref()?.get(REVISION_HASH).map(String::as_str)
}

/// The strategic merge patch that brings a template back: what `kubectl rollout undo` sends.
pub fn patch_of(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).expect("a template is made of JSON values");
    template["$patch"] = json!("replace");
    json!({ "spec": { "template": template } })
}

/// Whether the revision keeps this template. Read as a template: spellings of nothing differ from server to server.
pub fn keeps(revision: &ControllerRevision, template: &PodTemplateSpec) -> bool {
    let kept = data(revision).and_then(|data| data.pointer("/spec/template"));
    let kept = kept.and_then(|kept| PodTemplateSpec::deserialize(kept).ok());
    kept.is_some_and(|kept| kept == *template)
}

/// The revision of the present template; a name taken by another one makes the next hash another.
fn candidate(set: &DaemonSet, owner: &Owner<'_>, number: i64) -> ControllerRevision {
    let template = &daemon_set_spec(set).template;
    let collisions = set.status.as_ref().and_then(|status| status.collision_count);
    let hash = pod_template_hash(template, collisions);
    let labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone());
    let mut labels = labels.unwrap_or_default();
    labels.insert(REVISION_HASH.to_owned(), hash.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(revision_name(set.metadata.name.as_deref().unwrap_or_default(), &hash)),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: set.metadata.annotations.clone(),
            owner_references: Some(vec![owner.reference.clone()]),
            ..Default::default()
        },
        data: Field::with(RawExtension(patch_of(template))),
        revision: Field::with(number),
    }
}

/// Finds the DaemonSet's revisions, makes that of the present template if there is none, and makes it the highest.
pub async fn history(
    client: &Client,
    set: &DaemonSet,
    owner: &Owner<'_>,
    pods: &[Arc<Pod>],
) -> Result<History, ClientError> {
    let namespace = owner.key.namespace().unwrap_or_default();
    let found = children_and_orphans::<ControllerRevision>(client, namespace, owner.claimant.uid).await?;
    let mut all = Vec::new();
    for revision in adopt::claim::<DaemonSet, ControllerRevision>(client, owner, found).await? {
        all.push(labelled(client, revision).await?);
    }
    sort(&mut all);
    let template = &daemon_set_spec(set).template;
    let (mut same, old): (Vec<_>, Vec<_>) = all.into_iter().partition(|revision| keeps(revision, template));
    let next = old.last().map_or(0, |last| number(last)).max(0) + 1;
    let current = match same.pop() {
        None => create(client, set, &candidate(set, owner, next)).await?,
        Some(newest) => {
            merge(client, &newest, &same, pods).await?;
            if number(&newest) < next { renumber(client, &newest, next).await? } else { newest }
        }
    };
    Ok(History { current, old })
}

/// A revision from before there were hashes is known by its name.
async fn labelled(
    client: &Client,
    revision: Arc<ControllerRevision>,
) -> Result<Arc<ControllerRevision>, ClientError> {
    if hash_of(&revision.metadata).is_some() {
        return Ok(revision);
    }
    relabel(client, &revision.metadata, name(&revision)).await
}

/// Sets the revision label of an object.
async fn relabel<K: setpoint::Kind>(
    client: &Client,
    meta: &ObjectMeta,
    hash: &str,
) -> Result<Arc<K>, ClientError> {
    let key = Key::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
    let patch = json!({ "metadata": { "uid": meta.uid, "labels": { REVISION_HASH: hash } } });
    client.patch::<K>(key, &Patch::Merge(patch)).await.map(Arc::new)
}

/// Several revisions of one template become one, which all their pods are of.
async fn merge(
    client: &Client,
    newest: &ControllerRevision,
    others: &[Arc<ControllerRevision>],
    pods: &[Arc<Pod>],
) -> Result<(), ClientError> {
    let hash = hash_of(&newest.metadata).unwrap_or_default();
    let merged: BTreeSet<&str> = others.iter().filter_map(|other| hash_of(&other.metadata)).collect();
    let is_merged = |pod: &&Arc<Pod>| hash_of(&pod.metadata).is_some_and(|hash| merged.contains(hash));
    for pod in pods.iter().filter(is_merged) {
        relabel::<Pod>(client, &pod.metadata, hash).await.ignore_not_found()?;
    }
    let others: Vec<&ControllerRevision> = others.iter().map(|other| &**other).collect();
    crate::controller_revision::delete(client, &others).await
}

async fn create(
    client: &Client,
    set: &DaemonSet,
    candidate: &ControllerRevision,
) -> Result<Arc<ControllerRevision>, ClientError> {
    let error = match client.create(candidate).await {
        Ok(created) => return Ok(Arc::new(created)),
        Err(error) if error.is_already_exists() => error,
        Err(error) => return Err(error),
    };
    let namespace = set.metadata.namespace.as_deref();
    let found = client.live().get::<ControllerRevision>(Key::new(namespace, name(candidate))).await?;
    if let Some(found) = found.filter(|found| keeps(found, &daemon_set_spec(set).template)) {
        return Ok(Arc::new(found));
    }
    let count = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let version = set.metadata.resource_version.as_deref().unwrap_or_default();
    // Optimistic lock: if another writer raised the count meanwhile, the hash differs already.
    let patch = Patch::Merge(json!({ "status": { "collisionCount": count + 1 } })).locked(version);
    let key = Key::new(namespace, set.metadata.name.as_deref().unwrap_or_default());
    client.patch_status::<DaemonSet>(key, &patch).await?;
    Err(error)
}

/// Returns old revisions beyond the limit, the lowest first. Revisions that pods still use stay.
pub fn surplus<'a>(set: &DaemonSet, history: &'a History, pods: &[Arc<Pod>]) -> Vec<&'a ControllerRevision> {
    let limit = daemon_set_spec(set).revision_history_limit.unwrap_or(10);
    let excess = history.old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    let live: BTreeSet<&str> = pods.iter().filter_map(|pod| hash_of(&pod.metadata)).collect();
    let old = history.old.iter().map(|revision| &**revision);
    let unused = old.filter(|revision| hash_of(&revision.metadata).is_none_or(|hash| !live.contains(hash)));
    unused.take(excess).collect()
}
