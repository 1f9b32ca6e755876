//! Who wrote what at which version: what a failed wait shows, and what a test can assert on.

use std::fmt;

use serde_json::Value;
use setpoint_store::{Event, KeyRange, Store};

/// One change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The store's key: `/registry/GROUP/RESOURCE/NAMESPACE/NAME`.
    pub key: String,
    /// The resourceVersion that the change made.
    pub revision: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// The field manager whose entry is newest, with the subresource that it wrote.
    pub manager: Option<String>,
    /// The object after the change; before it, for a deletion.
    pub object: Value,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It appeared.
    Created,
    /// It changed.
    Updated,
    /// It went.
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
        match &self.manager {
            Some(manager) => write!(f, " by {manager}"),
            None => Ok(()),
        }
    }
}

/// The changes that the store still remembers of keys in `range`, oldest first.
pub fn changes(store: &Store, range: KeyRange) -> Vec<Change> {
    let Ok(mut watch) = store.watch(range, store.floor()) else { return Vec::new() };
    let mut changes = Vec::new();
    while let Ok(Some(batch)) = watch.try_next() {
        changes.extend(batch.events.iter().map(|event| change(event)));
    }
    changes
}

fn change(event: &Event) -> Change {
    let kind = match (&event.old, &event.new) {
        (None, _) => ChangeKind::Created,
        (_, None) => ChangeKind::Deleted,
        _ => ChangeKind::Updated,
    };
    let entry = event.new.as_ref().or(event.old.as_ref());
    let object: Value = entry.and_then(|entry| serde_json::from_slice(&entry.value).ok()).unwrap_or_default();
    let manager = newest_manager(&object);
    let key = String::from_utf8_lossy(&event.key).into_owned();
    Change { key, revision: event.revision, kind, manager, object }
}

fn newest_manager(object: &Value) -> Option<String> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let newest = entries.iter().max_by_key(|entry| entry["time"].as_str().unwrap_or_default())?;
    let name = newest["manager"].as_str()?;
    match newest["subresource"].as_str() {
        Some(subresource) if !subresource.is_empty() => Some(format!("{name} ({subresource})")),
        _ => Some(name.to_owned()),
    }
}
