//! Server-side apply and the managedFields of every other write.
//!
//! [`server_side_apply`] merges a configuration into the live object; [`track_update`] notes who owns what after a
//! create, update or patch. Both are pure: the caller normalises, defaults, admits and stores what they return, and
//! asks [`only_timestamps_differ`] whether there is anything to store.

mod error;
mod last_applied;
pub mod scale;
mod updater;
mod compare;
mod managers;
mod merge;
mod remove;
mod reset;
mod to_set;
mod typed;
mod types;
mod versions;
mod zero;
#[cfg(test)]
mod tests;

pub use error::ApplyError;
pub use managers::{ManagedFieldsError, ManagerId, Operation, check_managers};
pub use reset::{ResetFields, Step};
pub use typed::TypeMismatch;
pub use updater::Conflict;
pub use versions::{ConversionError, OneVersion, Versions};

use std::borrow::Cow;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::fieldset::FieldSet;
use managers::{Managers, Owned};
use setpoint_api::kind::GroupVersionKind;
use setpoint_schema::Schema;
use types::Type;
use updater::{Refused, Updater};

/// More managers that update than these are folded into one.
const MAX_UPDATE_MANAGERS: usize = 10;

/// The fields that no manager ever owns.
static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let names = ["name", "namespace", "creationTimestamp", "selfLink", "uid"];
    let more = ["clusterName", "generation", "managedFields", "resourceVersion"];
    let mut set = FieldSet::of_fields([&["apiVersion"][..], &["kind"], &["metadata"]]);
    for name in names.into_iter().chain(more) {
        set = set.union(&FieldSet::of_fields([&["metadata", name][..]]));
    }
    set
});

/// The writer, the subresource, and the facts of the kind.
#[derive(Clone, Copy)]
pub struct WriteContext<'c> {
    /// The type of the object at the request's version.
    pub schema: &'c Schema,
    /// The kind at the request's version.
    pub kind: &'c GroupVersionKind,
    /// The field manager.
    pub manager: &'c str,
    /// The subresource; empty for the object itself.
    pub subresource: &'c str,
    /// The present moment.
    pub now: Timestamp,
    /// The fields that the server resets on this path.
    pub reset_fields: &'c ResetFields,
    /// The kind's other versions.
    pub versions: &'c dyn Versions,
}

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied<'l> {
    /// The new object, managedFields included. It is not normalised or defaulted yet. The live one if nothing changed.
    pub object: Cow<'l, Value>,
    /// Whether it differs from the live object in anything but timestamps of managedFields.
    pub changed: bool,
}

impl WriteContext<'_> {
    fn id(&self, manager: &str, operation: Operation) -> ManagerId {
        ManagerId::new(manager, operation, &self.kind.api_version(), self.subresource)
    }

    /// Notes a write by update in the managers; none where it cannot be known who owns what.
    #[must_use]
    fn note_update(&self, old: &Value, new: &Value, managers: &mut Managers, manager: &str) -> Option<()> {
        let api_version = self.kind.api_version();
        let updater = self.updater(&api_version);
        let taken = updater.update(old, new, managers)?.difference(&UNOWNED);
        if !taken.is_empty() {
            let time = Some(self.now.as_second());
            let entry = managers.0.entry(self.id(manager, Operation::Update));
            let owned = entry.or_insert_with(|| Owned {
                set: FieldSet::new(),
                api_version: api_version.clone(),
                time,
            });
            owned.set = taken.union(&owned.set);
            owned.time = time;
        }
        managers.cap_updaters(MAX_UPDATE_MANAGERS);
        Some(())
    }

    fn updater<'u>(&'u self, api_version: &'u str) -> Updater<'u> {
        Updater { schema: self.schema, api_version, versions: self.versions, reset: self.reset_fields }
    }
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

fn set_managed_fields(object: &mut Value, entries: Option<Value>) {
    let Value::Object(fields) = object else { return };
    match entries {
        Some(entries) => {
            if let Value::Object(metadata) =
                fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()))
            {
                metadata.insert("managedFields".into(), entries);
            }
        }
        None => {
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                metadata.remove("managedFields");
            }
        }
    }
}

/// Takes note of a create (`live` is none), an update or a patch: sets `metadata.managedFields` of `new`.
///
/// `new` is what is to be stored, normalised and defaulted, before admission. Entries that the request carries are
/// taken over (except through subresources); `[{}]` and, for built-in kinds, `[]` reset them.
pub fn track_update(live: Option<&Value>, new: &mut Value, context: &WriteContext<'_>) {
    let live_entries = live.and_then(managed_fields);
    let managers = if context.subresource.is_empty() {
        requested_managers(managed_fields(new), live_entries, context)
    } else {
        Managers::decode(live_entries).unwrap_or_default()
    };
    set_managed_fields(new, None);
    let mut managers = managers;
    // An existing object that nobody manages stays so until its first apply.
    if live.is_some() && managers.0.is_empty() {
        return;
    }
    let old = match live {
        Some(live) => without_managed_fields(live),
        None => zero::empty_object(context.schema),
    };
    let ty = Type::root(context.schema);
    if typed::check(new, ty, true).is_err() || typed::check(&old, ty, true).is_err() {
        // A write that does not fit its type is refused elsewhere; who owns what must not get lost over it.
        return set_managed_fields(new, live_entries.cloned());
    }
    match context.note_update(&old, new, &mut managers, context.manager) {
        Some(()) => set_managed_fields(new, managers.encode()),
        None => set_managed_fields(new, live_entries.cloned()),
    }
}

/// The managers that an update starts from: the request's own list, or the live object's where the request has
/// none that decodes.
fn requested_managers(
    requested: Option<&Value>,
    live: Option<&Value>,
    context: &WriteContext<'_>,
) -> Managers {
    let is_reset = match requested.and_then(Value::as_array).map(Vec::as_slice) {
        // The metadata of custom objects loses an empty list before anybody looks.
        Some([]) => context.schema.name.is_some(),
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    };
    if is_reset {
        return Managers::default();
    }
    match Managers::decode(requested) {
        Ok(managers) if !managers.0.is_empty() => managers,
        _ => Managers::decode(live).unwrap_or_default(),
    }
}

fn without_managed_fields(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let fields = fields.iter().map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" && metadata.contains_key("managedFields") => {
            let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
            (name.clone(), Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        _ => (name.clone(), value.clone()),
    });
    Value::Object(fields.collect())
}

/// Applies `config` to the live object, or creates it.
///
/// # Errors
/// See [`ApplyError`].
pub fn server_side_apply<'l>(
    live: Option<&'l Value>,
    config: &Value,
    force: bool,
    context: &WriteContext<'_>,
) -> Result<Applied<'l>, ApplyError> {
    check_config(config, context)?;
    let ty = Type::root(context.schema);
    let fits = typed::check(config, ty, false)
        .map_err(|errors| ApplyError::untyped_config(config, context.kind, &errors));
    if let Some(live) = live.filter(|live| fits.is_ok() && is_unchanged(live, config, context)) {
        return Ok(Applied { object: Cow::Borrowed(live), changed: false });
    }
    let stored = Managers::decode(live.and_then(managed_fields)).map_err(ApplyError::ManagedFields)?;
    let mut managers = stored.clone();
    let base = match live {
        Some(live) => without_managed_fields(live),
        None => zero::empty_object(context.schema),
    };
    let live_fits = typed::check(&base, ty, true);
    if let (true, Err(errors)) = (managers.0.is_empty(), &live_fits) {
        return Err(ApplyError::untyped_unmanaged(&base, context.kind, errors));
    }
    fits?;
    live_fits.map_err(|errors| ApplyError::untyped_live(&base, context.kind, &errors))?;
    if managers.0.is_empty() {
        let empty = zero::empty_object(context.schema);
        let noted = context.note_update(&empty, &base, &mut managers, "before-first-apply");
        noted.expect("there is no manager of another version yet");
    }
    let (object, mut managers) = match apply_once(&base, config, &managers, force, context) {
        Err(Refused::Conflicts(conflicts)) if context.manager == last_applied::KUBECTL => {
            let kept = last_applied::remaining_conflicts(&base, conflicts, context);
            if !kept.is_empty() {
                return Err(ApplyError::Conflicts(kept));
            }
            apply_once(&base, config, &managers, true, context).map_err(refused)?
        }
        result => result.map_err(refused)?,
    };
    let own = context.id(context.manager, Operation::Apply);
    if let (Some(owned), true) = (managers.0.get_mut(&own), object.is_some()) {
        owned.time = Some(context.now.as_second());
    }
    let object_changed = object.is_some();
    let mut object = object.unwrap_or(base);
    let annotated = context.manager == last_applied::KUBECTL && last_applied::renew(&mut object, config);
    let changed = live.is_none() || object_changed || annotated || !same_owners(&managers, &stored);
    if let (Some(live), false) = (live, changed) {
        return Ok(Applied { object: Cow::Borrowed(live), changed });
    }
    set_managed_fields(&mut object, managers.encode());
    Ok(Applied { object: Cow::Owned(object), changed })
}

/// Whether the manager owns just what the configuration says and the object has it: most applies are like that, and
/// need not be merged to be seen as such.
fn is_unchanged(live: &Value, config: &Value, context: &WriteContext<'_>) -> bool {
    let ty = Type::root(context.schema);
    if context.manager == last_applied::KUBECTL || !merge::is_unchanged(live, config, ty) {
        return false;
    }
    let own = context.id(context.manager, Operation::Apply);
    let api_version = context.kind.api_version();
    let owned = managed_fields(live).and_then(|entries| managers::decode_own(entries, &own, &api_version));
    owned.is_some_and(|owned| {
        owned == context.reset_fields.filter(to_set::to_set(config, ty)).difference(&UNOWNED)
    })
}

fn same_owners(left: &Managers, right: &Managers) -> bool {
    left.0.len() == right.0.len()
        && left.0.iter().zip(&right.0).all(|((left_id, left), (right_id, right))| {
            left_id == right_id && left.api_version == right.api_version && left.set == right.set
        })
}

type Merged = (Option<Value>, Managers);

fn apply_once(
    base: &Value,
    config: &Value,
    managers: &Managers,
    force: bool,
    context: &WriteContext<'_>,
) -> Result<Merged, Refused> {
    let mut managers = managers.clone();
    let own = context.id(context.manager, Operation::Apply);
    let api_version = context.kind.api_version();
    let object = context.updater(&api_version).apply(base, config, &mut managers, &own, force)?;
    if let Some(owned) = managers.0.get_mut(&own) {
        owned.set = owned.set.difference(&UNOWNED);
    }
    managers.0.retain(|_, owned| !owned.set.is_empty());
    Ok((object, managers))
}

fn refused(refused: Refused) -> ApplyError {
    match refused {
        Refused::Conflicts(conflicts) => ApplyError::Conflicts(conflicts),
        Refused::Conversion(error) => ApplyError::Conversion(error),
    }
}

fn check_config(config: &Value, context: &WriteContext<'_>) -> Result<(), ApplyError> {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = GroupVersionKind::of(config);
    if kind.as_ref() != Some(context.kind) {
        return Err(ApplyError::WrongKind {
            api_version: text("apiVersion").into(),
            kind: text("kind").into(),
        });
    }
    if managed_fields(config).is_some_and(Value::is_array) {
        return Err(ApplyError::ManagedFieldsInConfig);
    }
    Ok(())
}

/// Whether two states of an object are the same but for the times in managedFields: then nothing is written and
/// the object keeps its resourceVersion.
pub fn only_timestamps_differ(live: &Value, new: &Value) -> bool {
    let (Value::Object(live), Value::Object(new)) = (live, new) else { return live == new };
    live.len() == new.len()
        && live.iter().zip(new).all(|((live_name, live), (new_name, new))| {
            live_name == new_name
                && match (live, new) {
                    (Value::Object(live), Value::Object(new)) if live_name == "metadata" => {
                        same_metadata(live, new)
                    }
                    _ => live == new,
                }
        })
}

fn same_metadata(live: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    live.len() == new.len()
        && live.iter().zip(new).all(|((live_name, live), (new_name, new))| {
            live_name == new_name
                && match (live, new) {
                    (Value::Array(live), Value::Array(new)) if live_name == "managedFields" => {
                        live.len() == new.len()
                            && live.iter().zip(new).all(|(live, new)| same_entry(live, new))
                    }
                    _ => live == new,
                }
        })
}

fn same_entry(live: &Value, new: &Value) -> bool {
    let (Value::Object(live), Value::Object(new)) = (live, new) else { return live == new };
    let timeless = |name: &&String| *name != "time";
    live.keys().filter(timeless).eq(new.keys().filter(timeless))
        && live.iter().filter(|(name, _)| *name != "time").all(|(name, value)| new.get(name) == Some(value))
}
