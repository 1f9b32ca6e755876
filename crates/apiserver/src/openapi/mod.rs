//! OpenAPI: what is served, described for clients. Documents are made from the schema table and the definitions
//! when somebody asks; nothing of them is kept.

mod custom;
mod gnostic;
mod model;
mod parameter;
mod paths;
mod serve;
mod v2;
mod v3;

use serde_json::Value;
use setpoint_api::schema::builtin;

use crate::registry::Resource;
use model::{Flavor, Models};

pub use gnostic::encode as v2_protobuf;
pub(crate) use serve::{answer_v2, answer_v3, index};

/// The version that documents say they describe.
const VERSION: &str = "1.37";

/// What a definition publishes for one version of a custom resource: `schema.openAPIV3Schema`, where it has one.
pub type Published<'a> = &'a dyn Fn(&Resource) -> Option<Value>;

/// The OpenAPI 3 document of one group-version, of its resources.
pub fn v3(resources: &[&Resource], published: Published<'_>) -> Value {
    let models = models(Flavor::V3, resources, published);
    v3::document(&paths::paths(resources.iter().copied()), models)
}

/// The OpenAPI 2 document of everything: of all resources, by group-version.
pub fn v2(resources: &[&Resource], published: Published<'_>) -> Value {
    let models = models(Flavor::V2, resources, published);
    let mut all = Vec::new();
    let same = |a: &&Resource, b: &&Resource| a.group == b.group && a.version == b.version;
    for chunk in resources.chunk_by(same) {
        all.extend(paths::paths(chunk.iter().copied()));
    }
    v2::document(&all, models)
}

/// The models that the paths of these resources name, with all that those contain.
fn models(flavor: Flavor, resources: &[&Resource], published: Published<'_>) -> Models {
    let mut models = Models::new(flavor);
    let any_builtin = resources.iter().any(|resource| resource.custom.is_none());
    let shared: &[&str] = if any_builtin {
        &["APIResourceList", "DeleteOptions", "Status", "WatchEvent"]
    } else {
        &["DeleteOptions", "Status"]
    };
    for kind in shared {
        models.kind("", "v1", kind);
    }
    for resource in resources {
        let (group, version) = (&resource.group, &resource.version);
        if resource.custom.is_some() {
            custom::add(&mut models, resource, published(resource).as_ref());
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
    models
}

#[cfg(test)]
mod tests;
