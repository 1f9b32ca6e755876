//! The scale subresource shows one field of its parent: `spec.replicas` stands for the parent's replicas path in
//! managedFields, both ways.

use serde_json::Value;

use super::managers::{ManagedFieldsError, Managers, Owned};
use crate::fieldset::{FieldSet, PathElement};

/// The path to the replicas in each version of the parent.
pub trait ReplicasPaths {
    /// The path at that version: none if the version is unknown; empty if that version has no scale.
    fn path(&self, api_version: &str) -> Option<Vec<PathElement>>;
}

/// `.spec.replicas` at every version: the built-in kinds.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpecReplicas;

impl ReplicasPaths for SpecReplicas {
    fn path(&self, _api_version: &str) -> Option<Vec<PathElement>> {
        Some(vec![PathElement::field("spec"), PathElement::field("replicas")])
    }
}

const SCALE_VERSION: &str = "autoscaling/v1";

fn replicas_in_scale() -> FieldSet {
    FieldSet::of_fields([&["spec", "replicas"][..]])
}

/// The managedFields of the Scale object that a parent shows.
///
/// # Errors
/// The parent's entries do not decode.
pub fn entries_of_scale(
    parent: Option<&Value>,
    paths: &dyn ReplicasPaths,
) -> Result<Option<Value>, ManagedFieldsError> {
    let mut managers = Managers::decode(parent)?;
    managers.0.retain(|_, owned| paths.path(&owned.api_version).is_some_and(|path| owned.set.has(&path)));
    for owned in managers.0.values_mut() {
        owned.set = replicas_in_scale();
        owned.api_version = SCALE_VERSION.into();
    }
    Ok(managers.encode())
}

/// The parent's managedFields after a write of its Scale object.
///
/// # Errors
/// Some entries do not decode.
pub fn entries_of_parent(
    parent: Option<&Value>,
    scale: Option<&Value>,
    api_version: &str,
    paths: &dyn ReplicasPaths,
) -> Result<Option<Value>, ManagedFieldsError> {
    let parent = Managers::decode(parent)?;
    let mut scale = Managers::decode(scale)?;
    let mut out = Managers::default();
    for (id, owned) in &parent.0 {
        let Some(path) = paths.path(&owned.api_version) else { continue };
        if path.is_empty() || !owned.set.has(&path) || scale.0.remove(id).is_some() {
            out.0.insert(id.clone(), owned.clone());
            continue;
        }
        let mut taken = FieldSet::new();
        taken.insert(&path);
        let set = owned.set.difference(&taken);
        if !set.is_empty() {
            out.0.insert(id.clone(), Owned { set, ..owned.clone() });
        }
    }
    let own_path = paths.path(api_version).unwrap_or_default();
    let wanted = [PathElement::field("spec"), PathElement::field("replicas")];
    for (id, owned) in scale.0 {
        if !owned.set.has(&wanted) {
            continue;
        }
        let mut set = FieldSet::new();
        set.insert(&own_path);
        // Only the parent's times are known here: a new manager of the scale has none, in Kubernetes neither.
        let time = parent.0.get(&id).and_then(|owned| owned.time);
        out.0.insert(id, Owned { set, api_version: api_version.into(), time });
    }
    Ok(out.encode())
}
