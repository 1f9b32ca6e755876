//! OpenAPI: describes the served resources to clients. Documents are made from the schema table and the definitions
//! on request. The server caches none of them.

mod custom;
mod serve;
mod gnostic;
mod v2;
mod v3;
mod paths;
mod model;
mod parameter;

use serde_json::Value;
use setpoint_schema::builtin;

use crate::registry::Resource;
use model::{Flavor, Models};

pub use gnostic::encode as v2_protobuf;
pub(crate) use serve::{answer_v2, answer_v3, index};

/// The version that documents say they describe.
const VERSION: &str = "1.37";

/// The schema that a definition publishes for one version of a custom resource: `schema.openAPIV3Schema`, if it has
/// one.
pub type Published<'a> = &'a dyn Fn(&Resource) -> Option<Value>;

pub use crate::options::Prose;

/// The sources of documents beside the schema table.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The schemas of custom resources.
    pub published: Published<'a>,
    /// Descriptions of built-in types, if the assembler gave them.
    pub prose: Option<Prose>,
}

/// The OpenAPI 3 document of the resources of one group-version.
pub fn v3(resources: &[&Resource], sources: Sources<'_>) -> Value {
    let models = models(Flavor::V3, resources, sources);
    let mut document = v3::document(&paths::paths(resources.iter().copied()), models);
    if resources.iter().all(|resource| resource.custom.is_some()) {
        document["info"] = serde_json::json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
        if let Some(components) = document["components"].as_object_mut() {
            components.remove("securitySchemes");
        }
    }
    document
}

/// The OpenAPI 2 document of all resources, by group-version.
pub fn v2(resources: &[&Resource], sources: Sources<'_>) -> Value {
    let models = models(Flavor::V2, resources, sources);
    let mut all = Vec::new();
    let same = |a: &&Resource, b: &&Resource| a.group == b.group && a.version == b.version;
    for chunk in resources.chunk_by(same) {
        all.extend(paths::paths(chunk.iter().copied()));
    }
    v2::document(&all, models)
}

/// The models that the paths of these resources name, and the models that those contain.
fn models(flavor: Flavor, resources: &[&Resource], sources: Sources<'_>) -> Models {
    let mut models = Models::new(flavor);
    let built_in = || resources.iter().filter(|resource| resource.custom.is_none());
    for kind in ["DeleteOptions", "WatchEvent"] {
        models.in_each(kind, |group, version| {
            built_in().any(|resource| resource.group == group && resource.version == version)
        });
    }
    let deletes = resources.iter().any(|resource| resource.has_verb("delete"));
    let shared = [
        ("APIResourceList", built_in().next().is_some()),
        ("DeleteOptions", deletes),
        ("Status", deletes),
        ("WatchEvent", built_in().any(|resource| resource.has_verb("watch"))),
    ];
    for (kind, _) in shared.into_iter().filter(|(_, is_used)| *is_used) {
        models.kind("", "v1", kind);
    }
    for resource in resources {
        let (group, version) = (&resource.group, &resource.version);
        if resource.custom.is_some() {
            custom::add(&mut models, resource, (sources.published)(resource).as_ref());
        } else {
            models.kind(group, version, &resource.kind);
            models.kind(group, version, &resource.list_kind);
        }
        for sub in &resource.subresources {
            let (group, version) =
                sub.group_version.as_ref().unwrap_or(&(group.clone(), version.clone())).clone();
            if builtin().kind(&group, &version, &sub.kind).is_some() && !sub.kind.ends_with("Options") {
                models.kind(&group, &version, &sub.kind);
            }
        }
    }
    if let Some(prose) = sources.prose {
        models.describe(prose);
    }
    models
}

#[cfg(test)]
mod tests;
