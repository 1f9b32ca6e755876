//! Field managers: `metadata.managedFields` in and out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::fieldset::{FieldSet, FieldsError};
use setpoint_api::clock::rfc3339_seconds;
use setpoint_api::go_format;

/// How a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// It applied them.
    Apply,
    /// It wrote them in any other way.
    Update,
}

impl Operation {
    /// As `managedFields` writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// The identity of a manager. Ordered as Kubernetes orders the JSON text of its own identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerId {
    /// Its name.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// The version it wrote in; none for appliers, which stay the same over versions.
    pub api_version: Option<String>,
    /// The subresource it wrote through; empty for the object itself.
    pub subresource: String,
}

impl Ord for ManagerId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // In JSON text the comma before a subresource precedes the brace that ends the rest.
        fn key(id: &ManagerId) -> (&str, Operation, Option<&str>, bool, &str) {
            let version = id.api_version.as_deref();
            (&id.manager, id.operation, version, id.subresource.is_empty(), &id.subresource)
        }
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for ManagerId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl ManagerId {
    pub(super) fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        ManagerId {
            manager: if manager.is_empty() { "unknown".into() } else { manager.into() },
            operation,
            api_version: (operation == Operation::Update).then(|| api_version.into()),
            subresource: subresource.into(),
        }
    }

    /// As conflict messages name it.
    pub fn describe(&self) -> String {
        let mut text = go_format::quote(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(" with subresource ");
            text.push_str(&go_format::quote(&self.subresource));
        }
        if let Some(version) = &self.api_version {
            text.push_str(" using ");
            text.push_str(version);
        }
        text
    }
}

/// The fields that one manager owns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Owned {
    pub(super) set: FieldSet,
    pub(super) api_version: String,
    /// Seconds since the epoch.
    pub(super) time: Option<i64>,
}

/// All managers of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managers(pub(super) BTreeMap<ManagerId, Owned>);

/// Why `managedFields` does not decode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedFieldsError {
    /// Neither Apply nor Update.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// No version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// No `fieldsType`.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// An unknown `fieldsType`.
    #[error("invalid fieldsType {} in managed fields entry {entry}", go_format::quote(fields_type))]
    FieldsType {
        /// The type.
        fields_type: String,
        /// The index of the entry.
        entry: usize,
    },
    /// The fields do not decode.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
}

fn text<'v>(entry: &'v Value, name: &str) -> &'v str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Reads the manager and the version of an entry.
fn decode_id(entry: &Value, at: usize) -> Result<(ManagerId, &str), ManagedFieldsError> {
    let operation = match text(entry, "operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err(ManagedFieldsError::Operation),
    };
    let api_version = text(entry, "apiVersion");
    if api_version.is_empty() {
        return Err(ManagedFieldsError::ApiVersion);
    }
    match text(entry, "fieldsType") {
        "FieldsV1" => {}
        "" => return Err(ManagedFieldsError::NoFieldsType(at)),
        other => return Err(ManagedFieldsError::FieldsType { fields_type: other.into(), entry: at }),
    }
    let id = ManagerId {
        manager: text(entry, "manager").into(),
        operation,
        api_version: (operation == Operation::Update).then(|| api_version.into()),
        subresource: text(entry, "subresource").into(),
    };
    Ok((id, api_version))
}

/// Reads the fields of one manager without the others. `None` if it owns nothing or any entry is of another version.
pub(super) fn decode_own(entries: &Value, own: &ManagerId, api_version: &str) -> Option<FieldSet> {
    let mut found = None;
    for (at, entry) in entries.as_array()?.iter().enumerate() {
        let (id, version) = decode_id(entry, at).ok()?;
        if version != api_version {
            return None;
        }
        if id == *own {
            found = entry.get("fieldsV1");
        }
    }
    FieldSet::from_fields_v1(found?).ok()
}

/// Whether `metadata.managedFields` can be read.
///
/// # Errors
/// The fault of the first entry that cannot be read.
pub fn check_managers(entries: Option<&Value>) -> Result<(), ManagedFieldsError> {
    Managers::decode(entries).map(|_| ())
}

impl Managers {
    pub(super) fn decode(entries: Option<&Value>) -> Result<Managers, ManagedFieldsError> {
        let mut managers = Managers::default();
        let entries = entries.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (at, entry) in entries.iter().enumerate() {
            let (id, api_version) = decode_id(entry, at)?;
            let set = FieldSet::from_fields_v1(entry.get("fieldsV1").unwrap_or(&Value::Null))?;
            let time = text(entry, "time").parse::<Timestamp>().ok().map(Timestamp::as_second);
            managers.0.insert(id, Owned { set, api_version: api_version.into(), time });
        }
        Ok(managers)
    }

    /// The entries: appliers first, then by time, name, version and subresource. None if nobody owns anything.
    pub(super) fn encode(&self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        let mut entries: Vec<(&ManagerId, &Owned)> = self.0.iter().collect();
        entries.sort_by(|(left, left_owned), (right, right_owned)| {
            left.operation
                .cmp(&right.operation)
                .then_with(|| left_owned.time.unwrap_or(0).cmp(&right_owned.time.unwrap_or(0)))
                .then_with(|| left.manager.cmp(&right.manager))
                .then_with(|| left_owned.api_version.cmp(&right_owned.api_version))
                .then_with(|| left.subresource.cmp(&right.subresource))
        });
        Some(Value::Array(entries.into_iter().map(|(id, owned)| encode_entry(id, owned)).collect()))
    }

    /// Folds the oldest updaters into one entry per version until at most `most` are left.
    pub(super) fn cap_updaters(&mut self, most: usize) {
        let mut updaters: Vec<(i64, ManagerId)> = self
            .0
            .iter()
            .filter(|(id, _)| id.operation == Operation::Update)
            .map(|(id, owned)| (owned.time.unwrap_or(0), id.clone()))
            .collect();
        let mut left = updaters.len();
        if left <= most {
            return;
        }
        updaters.sort();
        let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
        for (_, id) in updaters {
            if left <= most {
                return;
            }
            let Some(owned) = self.0.get(&id).cloned() else { continue };
            let Some(first) = first_of_version.get(&owned.api_version) else {
                first_of_version.insert(owned.api_version, id);
                continue;
            };
            let bucket = ManagerId::new("ancient-changes", Operation::Update, &owned.api_version, "");
            if !self.0.contains_key(&bucket)
                && let Some(oldest) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), oldest);
            }
            self.0.remove(&id);
            if let Some(kept) = self.0.get_mut(&bucket) {
                kept.set = owned.set.union(&kept.set);
                kept.time = owned.time;
            }
            left -= 1;
        }
    }
}

fn encode_entry(id: &ManagerId, owned: &Owned) -> Value {
    let mut entry = Map::new();
    entry.insert("apiVersion".into(), owned.api_version.as_str().into());
    entry.insert("fieldsType".into(), "FieldsV1".into());
    entry.insert("fieldsV1".into(), owned.set.to_fields_v1());
    if !id.manager.is_empty() {
        entry.insert("manager".into(), id.manager.as_str().into());
    }
    entry.insert("operation".into(), id.operation.as_str().into());
    if !id.subresource.is_empty() {
        entry.insert("subresource".into(), id.subresource.as_str().into());
    }
    if let Some(time) = owned.time.and_then(|seconds| Timestamp::from_second(seconds).ok()) {
        entry.insert("time".into(), rfc3339_seconds(time).into());
    }
    Value::Object(entry)
}
