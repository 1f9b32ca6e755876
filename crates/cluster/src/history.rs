//! The history of writes, with writer and version. A failed wait prints it, and a test can assert on it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use kube::Resource;
use serde_json::Value;
use setpoint_apiserver::Origin;
use setpoint_store::{Entry, Event, KeyRange, Store};

use crate::cluster::Cluster;

/// Number of changed fields that a printed change names.
const FIELDS_SHOWN: usize = 6;

/// One change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The store's key: `/registry/GROUP/RESOURCE/NAMESPACE/NAME`.
    pub key: String,
    /// The resourceVersion of the change.
    pub revision: u64,
    /// The kind of change.
    pub kind: ChangeKind,
    /// The field manager with the newest entry, and the subresource that it wrote.
    pub manager: Option<String>,
    /// The changed fields as paths, without bookkeeping (`managedFields`, `resourceVersion`, `generation`). Empty for
    /// a creation and a deletion.
    pub fields: Vec<String>,
    /// The object after the change. For a deletion, the object before it.
    pub object: Value,
    /// The user and program that made the change, and the changes that caused it; none if the server does not remember it, or made it itself.
    pub origin: Option<Arc<Origin>>,
}

/// A kind of change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object was created.
    Created,
    /// The object was updated.
    Updated,
    /// The object was deleted.
    Deleted,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ChangeKind::Created => "created",
            ChangeKind::Updated => "updated",
            ChangeKind::Deleted => "deleted",
        };
        write!(f, "{} {kind} {}", self.revision, self.key)?;
        if let Some(manager) = &self.manager {
            write!(f, " by {manager}")?;
        }
        if !self.fields.is_empty() {
            let shown = self.fields.len().min(FIELDS_SHOWN);
            write!(f, ": {}", self.fields[..shown].join(", "))?;
        }
        match self.fields.len().saturating_sub(FIELDS_SHOWN) {
            0 => {}
            more => write!(f, " and {more} more")?,
        }
        self.origin.as_ref().map_or(Ok(()), |origin| write!(f, " ({origin})"))
    }
}

impl Cluster {
    /// Returns the remembered changes of one object, oldest first, with writer and version. Contains all objects of
    /// the same name, also deleted ones.
    pub fn history<K>(&self, object: &K) -> Vec<Change>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let kind = K::DynamicType::default();
        let group = K::group(&kind);
        let group = if group.is_empty() { "core" } else { &group };
        let mut key = format!("/registry/{group}/{}/", K::plural(&kind));
        if let Some(namespace) = &object.meta().namespace {
            key.push_str(namespace);
            key.push('/');
        }
        key.push_str(object.meta().name.as_deref().unwrap_or_default());
        self.with_origins(changes(self.store(), KeyRange::key(key)))
    }

    /// Returns why an object is as it is: its newest change, the changes that woke the reconcile that made it, what woke the
    /// reconciles that made those, and so on to the changes that no reconcile made: a person's, say. Each change comes
    /// after those that it caused. What the server does not remember any more ends the chain.
    pub fn chain<K>(&self, object: &K) -> Vec<Change>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let all = self.with_origins(changes(self.store(), KeyRange::all()));
        let newest = self.history(object).pop().map(|change| change.revision);
        let mut revisions: VecDeque<u64> = newest.into_iter().collect();
        let mut chain: Vec<Change> = Vec::new();
        while let Some(revision) = revisions.pop_front() {
            if chain.iter().any(|known| known.revision == revision) {
                continue;
            }
            let found = all.iter().filter(|change| change.revision == revision);
            for change in found.cloned() {
                revisions.extend(change.origin.iter().flat_map(|origin| origin.causes.iter()));
                chain.push(change);
            }
        }
        chain
    }

    fn with_origins(&self, mut changes: Vec<Change>) -> Vec<Change> {
        for change in &mut changes {
            change.origin = self.server().origin(change.revision);
        }
        changes
    }
}

/// Returns the remembered changes of keys in `range`, oldest first.
pub fn changes(store: &Store, range: KeyRange) -> Vec<Change> {
    let Ok(mut watch) = store.watch(range, store.floor()) else { return Vec::new() };
    let mut changes = Vec::new();
    while let Ok(Some(batch)) = watch.try_next() {
        changes.extend(batch.events.iter().map(|event| change(event)));
    }
    changes
}

/// Describes one event of a store.
pub fn change(event: &Event) -> Change {
    let kind = match (&event.old, &event.new) {
        (None, _) => ChangeKind::Created,
        (_, None) => ChangeKind::Deleted,
        _ => ChangeKind::Updated,
    };
    let read = |entry: &Option<Arc<Entry>>| -> Option<Value> {
        entry.as_ref().and_then(|entry| serde_json::from_slice(&entry.value).ok())
    };
    let (old, new) = (read(&event.old), read(&event.new));
    let mut fields = Vec::new();
    if let (Some(old), Some(new)) = (&old, &new) {
        differing(old, new, &mut String::new(), &mut fields);
    }
    let manager = newest_manager(old.as_ref(), new.as_ref().or(old.as_ref()).unwrap_or(&Value::Null));
    let object = new.or(old).unwrap_or_default();
    let key = String::from_utf8_lossy(&event.key).into_owned();
    Change { key, revision: event.revision, kind, manager, fields, object, origin: None }
}

/// Collects the paths at which two values differ. A list counts as one value.
fn differing(old: &Value, new: &Value, path: &mut String, found: &mut Vec<String>) {
    const BOOKKEEPING: [&str; 3] =
        [".metadata.managedFields", ".metadata.resourceVersion", ".metadata.generation"];
    if old == new || BOOKKEEPING.contains(&path.as_str()) {
        return;
    }
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else {
        found.push(path.trim_start_matches('.').to_owned());
        return;
    };
    let added = after.keys().filter(|name| !before.contains_key(*name));
    for name in before.keys().chain(added) {
        let length = path.len();
        path.push('.');
        path.push_str(name);
        let value = |from: &serde_json::Map<String, Value>| from.get(name).cloned().unwrap_or_default();
        differing(&value(before), &value(after), path, found);
        path.truncate(length);
    }
}

/// Returns the manager of the latest write: its entry has the newest time. If several entries have the same second,
/// it is the entry that this change added or extended.
fn newest_manager(old: Option<&Value>, new: &Value) -> Option<String> {
    let entries =
        |object: &'_ Value| object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let before = old.map(entries).unwrap_or_default();
    let size = |entry: &Value| entry["fieldsV1"].to_string().len();
    let rank = |entry: &Value| {
        let same = ["manager", "operation", "subresource", "apiVersion"];
        let was = before.iter().find(|old| same.iter().all(|field| old[*field] == entry[*field]));
        let time = entry["time"].as_str().unwrap_or_default().to_owned();
        (time, was.is_none(), was.is_some_and(|was| size(was) < size(entry)))
    };
    let newest = entries(new).into_iter().max_by_key(rank)?;
    let name = newest["manager"].as_str()?;
    match newest["subresource"].as_str() {
        Some(subresource) if !subresource.is_empty() => Some(format!("{name} ({subresource})")),
        _ => Some(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_names_the_fields_that_differ() {
        let old =
            json!({"metadata": {"resourceVersion": "1", "labels": {"a": "1"}}, "spec": {"replicas": 1}});
        let new = json!({"metadata": {"resourceVersion": "2", "labels": {"a": "1", "b": "2"}}, "spec": {"replicas": 2}});
        let mut found = Vec::new();
        differing(&old, &new, &mut String::new(), &mut found);
        assert_eq!(found, ["metadata.labels.b", "spec.replicas"]);
    }
}
