//! An object's metadata, read from its stored bytes once.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use serde::Deserialize;
use serde_json::Value;
use setpoint_store::Entry;

use crate::protobuf_cache::Slot;

/// The metadata of an object that selectors and authorization use.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.labels`.
    #[serde(deserialize_with = "null_is_default")]
    pub labels: BTreeMap<String, String>,
    /// `metadata.deletionTimestamp`.
    pub deletion_timestamp: Option<String>,
    /// Values of fields that a selector has asked for: at most the kind's few selectable ones.
    #[serde(skip)]
    fields: Mutex<Vec<(String, String)>>,
    /// The value that a reader of this kind computed: rules of a role, claims of a Service.
    #[serde(skip)]
    decoded: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// Values derived from a stored object. They are computed on first use and kept with the object.
#[derive(Debug, Default)]
struct Memo {
    meta: OnceLock<Meta>,
    protobuf: Slot,
    views: Mutex<Vec<View>>,
}

/// An object that a conversion webhook converted: at most one for each version of its definition.
#[derive(Debug)]
struct View {
    generation: i64,
    version: String,
    entry: Arc<Entry>,
}

fn memo(entry: &Entry) -> &Memo {
    entry.memo(|_| Memo::default())
}

/// The slot that keeps the object's protobuf message.
pub(crate) fn protobuf(entry: &Entry) -> &Slot {
    &memo(entry).protobuf
}

/// The object at a version, if a webhook converted it for that generation of its definition.
pub(crate) fn kept_view(entry: &Entry, generation: i64, version: &str) -> Option<Arc<Entry>> {
    let views = memo(entry).views.lock().expect("no holder of this lock panics");
    let view = views.iter().find(|view| view.generation == generation && view.version == version);
    view.map(|view| view.entry.clone())
}

/// Keeps the object at a version for as long as the object itself, and drops views of older generations.
pub(crate) fn keep_view(entry: &Entry, generation: i64, version: &str, view: Arc<Entry>) {
    let mut views = memo(entry).views.lock().expect("no holder of this lock panics");
    views.retain(|view| view.generation == generation && view.version != version);
    views.push(View { generation, version: version.to_owned(), entry: view });
}

impl Meta {
    /// The text of a selectable field, read from the object on first use.
    pub(crate) fn field(&self, name: &str, read: impl FnOnce() -> String) -> String {
        let mut known = self.fields.lock().expect("no holder of this lock panics");
        if let Some((_, text)) = known.iter().find(|(field, _)| field == name) {
            return text.clone();
        }
        let text = read();
        known.push((name.to_owned(), text.clone()));
        text
    }
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Deserialize)]
struct OnlyMeta {
    metadata: Meta,
}

/// The metadata of a stored object.
pub fn meta(entry: &Entry) -> &Meta {
    let read = || early(&entry.value).or_else(|| whole(&entry.value)).unwrap_or_default();
    memo(entry).meta.get_or_init(read)
}

/// Reads metadata without the rest of the object. `None` if the object does not begin as the server writes objects.
fn early(stored: &[u8]) -> Option<Meta> {
    const FIELD: &[u8] = b"\"metadata\":";
    if !stored.starts_with(b"{\"kind\":\"") {
        return None;
    }
    let at = memchr::memmem::find(stored.get(..512.min(stored.len()))?, FIELD)? + FIELD.len();
    Meta::deserialize(&mut serde_json::Deserializer::from_slice(&stored[at..])).ok()
}

fn whole(stored: &[u8]) -> Option<Meta> {
    serde_json::from_slice::<OnlyMeta>(stored).map(|object| object.metadata).ok()
}

/// The whole of a stored object.
pub fn value(entry: &Entry) -> Value {
    serde_json::from_slice(&entry.value).unwrap_or_default()
}

/// The value that a user of a kind computes from each stored object. It is computed once and kept with the object;
/// each kind has one such type.
pub(crate) fn decoded<T: Send + Sync + 'static>(entry: &Entry, make: impl FnOnce(&Entry) -> T) -> Option<&T> {
    meta(entry).decoded.get_or_init(|| Box::new(make(entry))).downcast_ref()
}
