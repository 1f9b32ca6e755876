//! The state of a cluster: normalised, so that two runs can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use setpoint_store::{Entry, Event, KeyRange, Snapshot};

use crate::resource::{ObjectName, is_background, of_key};

/// The annotation that a concurrent writer of a plan leaves behind.
pub const BYSTANDER: &str = "prove.setpoint.dev/bystander";
/// The condition that a concurrent writer of a status leaves behind.
pub const CONDITION: &str = "prove.setpoint.dev/Bystander";

/// The namespace of twins.
pub const TWIN: &str = "prove-twin";

mod uids;

/// A state of the cluster, as an author's property sees it.
pub struct View<'a>(&'a Objects);

/// The objects of a state by their keys.
type Objects = BTreeMap<Bytes, Arc<Entry>>;

impl View<'_> {
    /// Returns all objects of a kind. Objects that do not decode are left out.
    pub fn list<K>(&self) -> Vec<K>
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned,
    {
        let group = K::group(&());
        let group = if group.is_empty() { "core" } else { &group };
        let prefix = format!("/registry/{group}/{}/", K::plural(&()));
        let from = self.0.range(Bytes::from(prefix.clone())..);
        let entries = from.take_while(|(key, _)| key.starts_with(prefix.as_bytes()));
        entries.filter_map(|(_, entry)| serde_json::from_slice(&entry.value).ok()).collect()
    }
}

/// Calls `look` with the state after each revision, until it returns `true`. Returns whether it did.
pub fn any_state(before: &Snapshot, events: &[Arc<Event>], look: impl Fn(&View<'_>) -> bool) -> bool {
    let mut objects = objects(before);
    for (index, event) in events.iter().enumerate() {
        match &event.new {
            Some(entry) => objects.insert(event.key.clone(), entry.clone()),
            None => objects.remove(&event.key),
        };
        let whole = events.get(index + 1).is_none_or(|next| next.revision != event.revision);
        if whole && look(&View(&objects)) {
            return true;
        }
    }
    false
}

/// Calls `look` with a state.
pub fn in_state(state: &Snapshot, look: impl Fn(&View<'_>) -> bool) -> bool {
    look(&View(&objects(state)))
}

fn objects(state: &Snapshot) -> Objects {
    let entries = state.range(&KeyRange::prefix("/registry/"), None);
    entries.map(|entry| (entry.key.clone(), entry.clone())).collect()
}

/// The normalised objects of some resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The objects, without what differs from run to run. Generated names are replaced.
    pub objects: BTreeMap<ObjectName, Value>,
    /// The uid of each object.
    pub uids: BTreeMap<ObjectName, String>,
}

/// The choice of what a state contains.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The resources.
    pub resources: BTreeSet<String>,
    /// Resources whose status the operator writes. Other status is the work of built-in controllers.
    pub statuses: BTreeSet<String>,
}

impl State {
    /// Reads and normalises the objects of a scope.
    pub fn of(snapshot: &Snapshot, scope: &Scope) -> State {
        let mut read: Vec<(ObjectName, Value)> = Vec::new();
        for entry in snapshot.range(&KeyRange::prefix("/registry/"), None) {
            let Some(name) = of_key(&entry.key) else { continue };
            if !scope.resources.contains(&name.resource) {
                continue;
            }
            let object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
            read.push((name, object));
        }
        State::normalised(read, scope)
    }

    fn normalised(read: Vec<(ObjectName, Value)>, scope: &Scope) -> State {
        let known: BTreeMap<String, String> = read
            .iter()
            .filter_map(|(name, object)| {
                Some((object["metadata"]["uid"].as_str()?.to_owned(), name.resource.clone()))
            })
            .collect();
        let mut state = State::default();
        let mut generated: BTreeMap<(ObjectName, String), Vec<(Value, String)>> = BTreeMap::new();
        for (name, mut object) in read {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let prefix = object["metadata"]["generateName"].as_str().map(str::to_owned);
            // A name with a uid is as good as a generated one: `pvc-`UID.
            let prefix = prefix.or_else(|| uids::without(&name.name));
            if !scope.statuses.contains(&name.resource) {
                object.as_object_mut().map(|fields| fields.remove("status"));
            }
            normalise(&mut object, &known);
            match prefix {
                None => {
                    state.uids.insert(name.clone(), uid);
                    state.objects.insert(name, object);
                }
                Some(prefix) => {
                    object["metadata"].as_object_mut().map(|fields| fields.remove("name"));
                    let drawn = name.name.clone();
                    let collection = ObjectName { name: String::new(), ..name };
                    generated.entry((collection, prefix)).or_default().push((object, drawn));
                }
            }
        }
        let mut names = BTreeMap::new();
        for ((collection, prefix), mut objects) in generated {
            objects.sort_by_cached_key(|(object, _)| object.to_string());
            for (number, (object, drawn)) in objects.into_iter().enumerate() {
                let name = format!("{prefix}*{}", number + 1);
                names.insert(drawn, name.clone());
                state.objects.insert(ObjectName { name, ..collection.clone() }, object);
            }
        }
        if !names.is_empty() {
            state.objects.values_mut().for_each(|object| rename(object, &names));
        }
        state
    }
}

/// Hashes the normalised objects that changed after `since`: what a restarted operator begins with.
pub fn hash(snapshot: &Snapshot, since: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    let none = BTreeMap::new();
    for entry in snapshot.range(&KeyRange::prefix("/registry/"), None) {
        let Some(name) = of_key(&entry.key) else { continue };
        if is_background(&name.resource) {
            continue;
        }
        name.hash(&mut hasher);
        if entry.mod_revision > since {
            let mut object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
            normalise(&mut object, &none);
            object.to_string().hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Fields of metadata that differ from run to run.
const VOLATILE: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"];
/// Annotations of built-in controllers and of this crate.
const FOREIGN: [&str; 7] = [
    BYSTANDER,
    // The time of the last change, unless the write that carried it failed: kube-controller-manager drops it, too.
    "endpoints.kubernetes.io/last-change-trigger-time",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/selected-node",
];
/// Fields that the server or a built-in controller allocates.
const ALLOCATED: [&str; 9] = [
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "healthCheckNodePort",
    "podIP",
    "podIPs",
    "volumeName",
    "nodeName",
    "containerID",
];

fn normalise(object: &mut Value, known: &BTreeMap<String, String>) {
    let generation = object["metadata"]["generation"].clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in VOLATILE {
            metadata.remove(field);
        }
        without_foreign(metadata);
        owners(metadata, known);
    }
    if let Some(observed) = object.pointer_mut("/status/observedGeneration") {
        *observed = if *observed == generation { "current".into() } else { "behind".into() };
    }
    if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        for condition in conditions.iter_mut() {
            if let Some(observed) = condition.get_mut("observedGeneration") {
                *observed = if *observed == generation { "current".into() } else { "behind".into() };
            }
        }
        conditions.retain(|condition| condition["type"] != CONDITION);
        conditions.sort_by_cached_key(|condition| condition["type"].to_string());
    }
    texts(object);
}

/// Removes the annotations of others, and the map if it is then empty.
fn without_foreign(metadata: &mut Map<String, Value>) {
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    for name in FOREIGN {
        annotations.remove(name);
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Replaces the uids of owners by whether the owner is there.
fn owners(metadata: &mut Map<String, Value>, known: &BTreeMap<String, String>) {
    let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        let there = owner["uid"].as_str().is_some_and(|uid| known.contains_key(uid));
        owner["uid"] = if there { "there".into() } else { "elsewhere".into() };
    }
}

/// Replaces times, and values that the server chose.
fn texts(value: &mut Value) {
    match value {
        Value::String(text) if is_time(text) => *value = "<time>".into(),
        Value::String(text) => {
            if let Some(other) = uids::without(text) {
                *text = other;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(texts),
        Value::Object(fields) => {
            for (name, field) in fields {
                if ALLOCATED.contains(&name.as_str()) && *field != "None" {
                    *field = "<allocated>".into();
                } else if name == "resourceVersion" {
                    // A reference to another object may name its version.
                    *field = "<version>".into();
                } else {
                    texts(field);
                }
            }
        }
        _ => {}
    }
}

/// Replaces generated names wherever an object mentions one.
fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(name) = names.get(text) {
                text.clone_from(name);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, names)),
        _ => {}
    }
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && bytes[13] == b':' && bytes.ends_with(b"Z")
}

/// A field in which two states differ. Without a path the whole object is there or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The object.
    pub object: ObjectName,
    /// The path of the field, with dots.
    pub path: String,
}

/// A difference between two states.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The field.
    pub place: Place,
    /// The value in the undisturbed run.
    pub expected: Option<Value>,
    /// The value in this run.
    pub found: Option<Value>,
}

/// Returns all differences between two states, but not those below a masked place.
pub fn differences(expected: &State, found: &State, masks: &BTreeSet<Place>) -> Vec<Difference> {
    let mut differences = Vec::new();
    let names: BTreeSet<&ObjectName> = expected.objects.keys().chain(found.objects.keys()).collect();
    for name in names {
        let (before, after) = (expected.objects.get(name), found.objects.get(name));
        compare(name, &mut String::new(), before, after, masks, &mut differences);
    }
    differences
}

fn compare(
    name: &ObjectName,
    path: &mut String,
    expected: Option<&Value>,
    found: Option<&Value>,
    masks: &BTreeSet<Place>,
    differences: &mut Vec<Difference>,
) {
    if expected == found {
        return;
    }
    let place = Place { object: name.clone(), path: path.trim_start_matches('.').to_owned() };
    if masks.contains(&place) {
        return;
    }
    if let (Some(Value::Object(before)), Some(Value::Object(after))) = (expected, found) {
        for field in before.keys().chain(after.keys().filter(|field| !before.contains_key(*field))) {
            let length = path.len();
            path.push('.');
            path.push_str(field);
            compare(name, path, before.get(field), after.get(field), masks, differences);
            path.truncate(length);
        }
        return;
    }
    differences.push(Difference { place, expected: expected.cloned(), found: found.cloned() });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(objects: &[Value]) -> State {
        let scope = Scope { statuses: BTreeSet::from(["stores".to_owned()]), ..Scope::default() };
        let name = |object: &Value| ObjectName {
            resource: "stores".into(),
            namespace: "default".into(),
            name: object["metadata"]["name"].as_str().unwrap().into(),
        };
        State::normalised(objects.iter().map(|object| (name(object), object.clone())).collect(), &scope)
    }

    #[test]
    fn what_differs_from_run_to_run_is_no_difference() {
        let one = state(&[
            json!({"metadata": {"name": "a", "uid": "1", "generation": 2}, "status": {"observedGeneration": 2}}),
            json!({"metadata": {"name": "p-x", "generateName": "p-", "ownerReferences": [{"name": "a", "uid": "1"}]}}),
        ]);
        let two = state(&[
            json!({"metadata": {"name": "a", "uid": "2", "generation": 3}, "status": {"observedGeneration": 3}}),
            json!({"metadata": {"name": "p-y", "generateName": "p-", "ownerReferences": [{"name": "a", "uid": "2"}]}}),
        ]);
        assert_eq!(differences(&one, &two, &BTreeSet::new()), []);
    }

    #[test]
    fn uids_in_texts_and_names_are_no_difference() {
        let volume = |uid: &str| {
            state(&[
                json!({"metadata": {"name": format!("pvc-{uid}"), "labels": {"of": uid}}, "spec": {"uid": uid}}),
            ])
        };
        let one = volume("4b6aa72c-41a4-4d60-bd0d-eaa823c01310");
        let two = volume("e3f9c2c4-f5cf-4dee-9f7b-8b54670a0342");
        assert_eq!(differences(&one, &two, &BTreeSet::new()), []);
        assert!(one.objects.keys().all(|name| name.name == "pvc-<uid>*1"), "{one:?}");
    }

    #[test]
    fn a_difference_names_its_field_unless_it_is_masked() {
        let one = state(&[
            json!({"metadata": {"name": "a", "generation": 2}, "status": {"observedGeneration": 2}}),
        ]);
        let two = state(&[
            json!({"metadata": {"name": "a", "generation": 3}, "status": {"observedGeneration": 2}}),
        ]);
        let found = differences(&one, &two, &BTreeSet::new());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place.path, "status.observedGeneration");
        assert_eq!(found[0].found, Some("behind".into()));
        assert_eq!(differences(&one, &two, &BTreeSet::from([found[0].place.clone()])), []);
    }

    #[test]
    fn an_owner_that_is_gone_is_a_difference() {
        let owned =
            |uid: &str| json!({"metadata": {"name": "b", "ownerReferences": [{"name": "a", "uid": uid}]}});
        let owner = json!({"metadata": {"name": "a", "uid": "1"}});
        let found =
            differences(&state(&[owner.clone(), owned("1")]), &state(&[owner, owned("0")]), &BTreeSet::new());
        assert_eq!(found[0].place.path, "metadata.ownerReferences");
    }
}
