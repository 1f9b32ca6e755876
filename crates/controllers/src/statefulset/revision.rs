//! The revisions of a StatefulSet: the one its pods are of, and the one they shall be of.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};
use setpoint::{Client, ClientError};

use crate::children::adopt::Owner;
use crate::controller_revision::{self, candidate, data, name, next_number};
use crate::deployment::equal_ignoring_hash;
use crate::object::field::stateful_set_spec;

/// A revision as pods are made of it.
#[derive(Debug, Clone)]
pub struct Version {
    pub name: String,
    pub template: PodTemplateSpec,
}

/// The revisions after the newest one was written.
pub struct Versions {
    pub current: Version,
    pub update: Version,
    pub collision_count: i32,
}

/// The step that makes the newest revision match the present template.
#[derive(Debug)]
pub enum Newest {
    /// The newest revision matches the template already.
    Present(Arc<ControllerRevision>),
    /// An earlier one is of it: it becomes the newest.
    Again(Arc<ControllerRevision>),
    /// The template has no revision yet.
    Missing,
}

/// The template that a revision keeps.
pub fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = data(revision)?.pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// Returns the data of a template's revision: a patch that restores the template, which kubectl can apply.
pub fn patch(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).expect("a template is made of JSON values");
    template["$patch"] = "replace".into();
    json!({ "spec": { "template": template } })
}

/// Finds the present template among sorted revisions.
pub fn newest(set: &StatefulSet, revisions: &[Arc<ControllerRevision>]) -> Newest {
    let wanted = &stateful_set_spec(set).template;
    let same = |revision: &&Arc<ControllerRevision>| {
        template(revision).is_some_and(|template| equal_ignoring_hash(&template, wanted))
    };
    match revisions.iter().rev().find(same) {
        Some(found) if revisions.last().is_some_and(|last| name(last) == name(found)) => {
            Newest::Present(Arc::clone(found))
        }
        Some(found) => Newest::Again(Arc::clone(found)),
        None => Newest::Missing,
    }
}

/// Writes the newest revision and finds the one that is current.
pub async fn sync(
    client: &Client,
    set: &StatefulSet,
    owner: &Owner<'_>,
    revisions: &[Arc<ControllerRevision>],
) -> Result<Versions, ClientError> {
    let spec = stateful_set_spec(set);
    let status = set.status.clone().unwrap_or_default();
    let mut collision_count = status.collision_count.unwrap_or(0);
    let next = next_number(revisions);
    let update = match newest(set, revisions) {
        Newest::Present(revision) => revision,
        Newest::Again(revision) => controller_revision::renumber(client, &revision, next).await?,
        Newest::Missing => {
            let data = patch(&spec.template);
            let hash = |count: i32| controller_revision::hash(&data, Some(count));
            let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
            let revision = candidate(
                &set.metadata,
                &owner.reference,
                labels,
                data.clone(),
                next,
                &hash(collision_count),
            );
            let set_name = set.metadata.name.as_deref().unwrap_or_default();
            let created =
                controller_revision::create(client, set_name, revision, collision_count, hash).await?;
            collision_count = created.1;
            created.0
        }
    };
    let named =
        |revision: &&Arc<ControllerRevision>| Some(name(revision)) == status.current_revision.as_deref();
    let version = |revision: &ControllerRevision| Version {
        name: name(revision).to_owned(),
        template: template(revision).unwrap_or_else(|| spec.template.clone()),
    };
    let current = version(revisions.iter().find(named).unwrap_or(&update));
    Ok(Versions { current, update: version(&update), collision_count })
}
