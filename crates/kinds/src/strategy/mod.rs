//! Strategies: kube-apiserver's changes to an object between decoding and validation. They reset the fields that
//! clients may not write, fill in those that the server keeps, and count the generation.

mod delete;
mod kinds;
mod equal;
mod pod;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use delete::grace_period;
pub use equal::semantically_equal;
pub(crate) use pod::qos_class;

use crate::access::{at, copy, object, remove, set};
use crate::defaults;
use crate::facts::{Facts, Generation};
use setpoint_api::kind::GroupVersionKind;

/// The context of a write, beside the object.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// The time of the write.
    pub now: Timestamp,
    /// The writer, in the form of a TokenReview's `userInfo`; `null` if unknown.
    pub user: &'a Value,
}

/// Before a create is validated. The server has set name, namespace, uid and creationTimestamp already.
pub fn create(facts: &Facts, object: &mut Value, context: &Context<'_>) {
    remove(object, "metadata.selfLink");
    match facts.generation {
        Generation::None | Generation::SpecFromZero => {}
        _ => set(object, "metadata.generation", json!(1)),
    }
    // A node registers itself with its status.
    if facts.status && facts.key() != ("", "Node") {
        remove(object, "status");
    }
    kinds::create(facts, object, context);
    if facts.status && !facts.custom {
        fill_status(object);
    }
}

/// Before an update is validated. `old` is the stored object.
pub fn update(facts: &Facts, object: &mut Value, old: &Value, context: &Context<'_>) {
    copy(object, old, "metadata.generation");
    if facts.status {
        copy(object, old, "status");
    }
    kinds::update(facts, object, old, context);
    count_generation(facts, object, old);
    keep_metadata(object, old);
}

/// Before a write to `/status` is validated: nothing but the status, and some metadata, may change.
pub fn update_status(facts: &Facts, object: &mut Value, old: &Value, context: &Context<'_>) {
    copy(object, old, "metadata.generation");
    keep_all_but(object, old, &["metadata", "status"]);
    if facts.custom {
        reset_metadata(object, old);
    }
    kinds::update_status(facts, object, old, context);
    keep_metadata(object, old);
}

/// Before a write to another subresource that takes the whole object: `finalize` of namespaces, `approval` of
/// certificate requests, `ephemeralcontainers` and `resize` of pods. Returns whether the subresource is known.
pub fn update_subresource(
    facts: &Facts,
    subresource: &str,
    object: &mut Value,
    old: &Value,
    context: &Context<'_>,
) -> bool {
    match (facts.kind, subresource) {
        (_, "status") => {
            update_status(facts, object, old, context);
            return true;
        }
        ("Namespace", "finalize") => keep_all_but(object, old, &["metadata", "spec"]),
        ("CertificateSigningRequest", "approval") => kinds::approve(object, old, context),
        ("Pod", "ephemeralcontainers") => pod::ephemeral_containers(object, old),
        ("Pod", "resize") => pod::resize(object, old),
        _ => return false,
    }
    copy(object, old, "metadata.generation");
    if facts.kind == "Pod" {
        count_generation(facts, object, old);
    }
    keep_metadata(object, old);
    true
}

/// Fills in the defaults that an object shows once it is read back. The real server does so on every read.
/// After validation, before the object is stored.
pub fn stored(kind: &GroupVersionKind, object: &mut Value) {
    defaults::apply(kind, object);
    defaults::forget_empty(kind, object);
    match (&*kind.group, &*kind.kind) {
        ("batch", "Job") => kinds::job_labels(object),
        ("", "ConfigMap") => no_null_bytes(object, "binaryData"),
        ("", "Secret") => no_null_bytes(object, "data"),
        ("", "Service") if at(object, "spec.type") == "ExternalName" => {
            remove(object, "spec.internalTrafficPolicy");
        }
        _ => {}
    }
}

/// Bytes that are null come back from storage as none.
fn no_null_bytes(object: &mut Value, field: &str) {
    for value in
        object.get_mut(field).and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut())
    {
        if value.is_null() {
            *value = Value::String(String::new());
        }
    }
}

/// Restores the metadata that an update can never change.
fn keep_metadata(object: &mut Value, old: &Value) {
    remove(object, "metadata.selfLink");
    if at(object, "metadata.uid").as_str().unwrap_or_default().is_empty() {
        copy(object, old, "metadata.uid");
    }
    for field in ["metadata.creationTimestamp", "metadata.deletionTimestamp"] {
        if !at(old, field).is_null() {
            copy(object, old, field);
        }
    }
    if at(object, "metadata.deletionGracePeriodSeconds").is_null() {
        copy(object, old, "metadata.deletionGracePeriodSeconds");
    }
}

/// Everything but these top-level fields is as it was.
fn keep_all_but(object: &mut Value, old: &Value, mine: &[&str]) {
    let (Some(fields), Some(old)) = (object.as_object_mut(), old.as_object()) else { return };
    let keep = |name: &str| mine.contains(&name) || matches!(name, "apiVersion" | "kind");
    fields.retain(|name, _| keep(name));
    for (name, value) in old {
        if !keep(name) {
            fields.insert(name.clone(), value.clone());
        }
    }
}

/// Metadata is as it was, but for what the server keeps itself.
fn reset_metadata(object: &mut Value, old: &Value) {
    let managed = remove(object, "metadata.managedFields");
    let version = remove(object, "metadata.resourceVersion");
    let uid = remove(object, "metadata.uid");
    copy(object, old, "metadata");
    for (field, value) in [("managedFields", managed), ("resourceVersion", version), ("uid", uid)] {
        match value {
            Some(value) => set(object, &format!("metadata.{field}"), value),
            None => {
                remove(object, &format!("metadata.{field}"));
            }
        }
    }
}

fn count_generation(facts: &Facts, object: &mut Value, old: &Value) {
    let same = |path: &str| semantically_equal(at(object, path), at(old, path));
    let changed = match facts.generation {
        Generation::None | Generation::Once => false,
        Generation::Field(field) => !same(field),
        Generation::SpecFromZero => !same("spec"),
        Generation::SpecOrAnnotations => !same("spec") || !same("metadata.annotations"),
        Generation::AllOrLabels => !same("metadata.labels") || !equal::same_but_metadata(object, old),
        Generation::AllButStatus | Generation::AllButMetadata => !equal::same_custom(object, old),
    };
    if changed {
        let generation = at(old, "metadata.generation").as_i64().unwrap_or_default() + 1;
        set(object, "metadata.generation", json!(generation));
    }
}

/// The status that an object without one shows.
fn fill_status(object: &mut Value) {
    if let Some(kind) = GroupVersionKind::of(object) {
        defaults::status(&kind, object);
    }
}

/// The map of labels of an object, made if absent.
fn labels(value: &mut Value) -> &mut serde_json::Map<String, Value> {
    object(value, "metadata.labels")
}
