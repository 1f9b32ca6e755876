//! One cached object: its metadata decoded, the rest as bytes.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::de::DeserializeOwned;

use super::body::{Body, Packer};
use super::labels::Labels;
use super::scan::{self, Cursor};
use crate::key::Key;
use crate::redact::why_undecodable;
use crate::revision::Revision;

/// An object as the cache keeps it: metadata decoded, everything else as JSON bytes, perhaps compressed.
///
/// Cheap to clone and immutable. Accessors on the metadata cost nothing; [`Object::decode`], [`Object::json`],
/// [`Object::annotations`] and [`Object::path`] expand the bytes.
///
/// ```
/// use setpoint::Object;
/// let json = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"default",
///     "resourceVersion":"7","labels":{"app":"web"}},"spec":{"nodeName":"node-1"}}"#;
/// let object = Object::from_json(json)?;
/// assert_eq!(object.key().as_str(), "default/web-0");
/// assert_eq!(object.labels().get("app"), Some("web"));
/// assert_eq!(object.path("spec.nodeName").as_deref(), Some("node-1"));
/// # Ok::<(), setpoint::informer::ObjectError>(())
/// ```
#[derive(Clone)]
pub struct Object(pub(super) Arc<Entry>);

pub(super) struct Entry {
    pub state: StateId,
    pub key: Key,
    pub uid: Uid,
    /// Zero when the resourceVersion is no number; then it is read from the body.
    pub revision: Revision,
    pub generation: i64,
    /// Seconds since the epoch.
    pub deletion: Option<i64>,
    pub annotations_hash: u64,
    pub labels: Labels,
    pub owners: Arc<[OwnerReference]>,
    pub finalizers: Arc<[String]>,
    pub managed: Option<Arc<[ManagedFields]>>,
    pub body: Body,
}

/// Tells states of objects apart in this process. One state in two forms, raw and small, has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StateId(u64);

impl StateId {
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        StateId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The fields that one field manager owns of an object, without the time of its last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedFields {
    /// The field manager.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// The subresource the manager wrote through, or nothing.
    pub subresource: String,
    /// The version the field set is written in.
    pub api_version: String,
    /// The field set (`fieldsV1`) as JSON.
    pub fields: Box<[u8]>,
}

/// An object's uid: 16 bytes where it is a UUID in the usual form, else the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(UidForm);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum UidForm {
    Uuid([u8; 16]),
    Text(Arc<str>),
}

/// A JSON text that cannot be cached at all, because it does not say which object it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// No JSON object, or cut off.
    #[error("the object is no JSON: malformed at byte {at}")]
    Malformed {
        /// The place where reading stopped.
        at: usize,
    },
    /// `metadata.name` is missing, empty or no string.
    #[error("the object has no metadata.name")]
    Nameless,
}

/// An object that does not decode as the type that was asked for. It concerns this object alone.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{key} (resourceVersion {revision}) does not decode as {wanted}: {message}")]
pub struct DecodeError {
    /// The object's key.
    pub key: Key,
    /// Its revision.
    pub revision: Revision,
    /// The Rust type that was asked for.
    pub wanted: &'static str,
    /// The decoder's message, without the values it met: they may be secret.
    pub message: Arc<str>,
}

impl Object {
    /// `namespace/name`.
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.0.key.name()
    }

    /// `metadata.namespace`, if it has one.
    pub fn namespace(&self) -> Option<&str> {
        self.0.key.namespace()
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &Uid {
        &self.0.uid
    }

    /// `metadata.resourceVersion` as a number; zero when it is none.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// `metadata.resourceVersion` as the server wrote it.
    pub fn resource_version(&self) -> String {
        match self.0.revision {
            0 => self.path("metadata.resourceVersion").unwrap_or_default(),
            revision => revision.to_string(),
        }
    }

    /// `metadata.generation`; zero for kinds without one.
    pub fn generation(&self) -> i64 {
        self.0.generation
    }

    /// `metadata.deletionTimestamp`.
    pub fn deletion_timestamp(&self) -> Option<Timestamp> {
        self.0.deletion.and_then(|second| Timestamp::from_second(second).ok())
    }

    /// Whether the object is being deleted and waits for its finalizers or its grace period.
    pub fn is_terminating(&self) -> bool {
        self.0.deletion.is_some()
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> &Labels {
        &self.0.labels
    }

    /// `metadata.ownerReferences`.
    pub fn owner_references(&self) -> &[OwnerReference] {
        &self.0.owners
    }

    /// The owner that manages this object, if there is one.
    pub fn controller_owner(&self) -> Option<&OwnerReference> {
        self.0.owners.iter().find(|owner| owner.controller == Some(true))
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> &[String] {
        &self.0.finalizers
    }

    /// A number that differs when the annotations differ, without expanding the object.
    pub fn annotations_hash(&self) -> u64 {
        self.0.annotations_hash
    }

    /// `metadata.annotations`; expands the object.
    pub fn annotations(&self) -> std::collections::BTreeMap<String, String> {
        let json = self.json();
        let annotations = scan::find_path(&json, "metadata.annotations");
        annotations.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default()
    }

    /// One annotation; expands the object.
    pub fn annotation(&self, name: &str) -> Option<String> {
        let json = self.json();
        let annotations = scan::find_path(&json, "metadata.annotations")?;
        let mut value = None;
        let visited = Cursor::new(annotations).fields(|cursor, key| {
            let text = cursor.text()?;
            if key.value().as_deref() == Some(name) {
                value = text.value().map(Cow::into_owned);
            }
            Ok(value.is_none())
        });
        visited.ok().and(value)
    }

    /// The fields that the field managers of this process own, as far as the informer was told to keep them.
    pub fn managed_fields(&self) -> &[ManagedFields] {
        self.0.managed.as_deref().unwrap_or_default()
    }

    /// The object's JSON without managedFields, expanded if it is compressed.
    pub fn json(&self) -> Cow<'_, [u8]> {
        self.0.body.expand()
    }

    /// The string, number or boolean at a dotted path such as `spec.nodeName`, as text; expands the object.
    /// `None` when the path is absent, null, an object or an array.
    pub fn path(&self, path: &str) -> Option<String> {
        let json = self.json();
        let value = scan::find_path(&json, path)?;
        match value.first()? {
            b'"' => Cursor::new(value).text().ok()?.value().map(Cow::into_owned),
            b'{' | b'[' => None,
            _ => std::str::from_utf8(value).ok().filter(|text| *text != "null").map(str::to_owned),
        }
    }

    /// Decodes the object. Each call decodes anew: [`crate::informer::Lister`] keeps what was decoded lately.
    ///
    /// # Errors
    /// When the object is no `K`.
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, DecodeError> {
        self.decode_sized().map(|(value, _)| value)
    }

    /// Decodes, and tells how long the JSON was.
    pub(super) fn decode_sized<K: DeserializeOwned>(&self) -> Result<(K, usize), DecodeError> {
        let json = self.json();
        let decoded = serde_json::from_slice(&json).map_err(|error| DecodeError {
            key: self.0.key.clone(),
            revision: self.0.revision,
            wanted: std::any::type_name::<K>(),
            message: match json.is_empty() {
                true => {
                    "only its metadata is cached: the transform panicked on it, or left nothing of it".into()
                }
                false => why_undecodable::<K>(&json, &error).into(),
            },
        });
        decoded.map(|value| (value, json.len()))
    }

    /// Bytes this object holds in memory; what it shares with others of its workload is not counted.
    pub fn heap_bytes(&self) -> usize {
        size_of::<Entry>() + 16 + self.0.key.as_str().len() + 16 + self.0.body.stored_bytes()
    }

    /// Bytes of the body as it is kept.
    #[cfg(test)]
    pub(super) fn stored_bytes(&self) -> usize {
        self.0.body.stored_bytes()
    }

    /// Raw bytes that it brought into memory: its own, or those of the base that was made of it.
    pub(super) fn raw_bytes(&self) -> usize {
        self.0.body.raw_bytes()
    }

    /// How long the longest text is that it takes to read it.
    pub(super) fn longest_text(&self) -> usize {
        self.0.body.longest_text()
    }

    /// The same object compressed, or `None` when that gains nothing.
    pub(super) fn packed_with(&self, packer: &mut Packer) -> Option<Object> {
        self.0.body.packed_with(packer).map(|body| self.with_body(body))
    }

    /// The same object with its JSON kept in another form.
    pub(super) fn with_body(&self, body: Body) -> Object {
        let entry = &*self.0;
        Object(Arc::new(Entry {
            key: entry.key.clone(),
            uid: entry.uid.clone(),
            labels: entry.labels.clone(),
            owners: entry.owners.clone(),
            finalizers: entry.finalizers.clone(),
            managed: entry.managed.clone(),
            body,
            ..*entry
        }))
    }

    /// Whether both are the same object in the same state.
    pub fn same_state(&self, other: &Object) -> bool {
        self.same_reading(other)
            || (self.0.revision != 0 && self.0.revision == other.0.revision && self.0.uid == other.0.uid)
    }

    /// Whether both came of one word of the server's.
    pub(crate) fn same_reading(&self, other: &Object) -> bool {
        self.0.state == other.0.state
    }

    /// Whether both hold the same; expands them.
    pub(super) fn same_content(&self, other: &Object) -> bool {
        self.managed_fields() == other.managed_fields() && self.json() == other.json()
    }

    /// Whether both are one and the same value in memory.
    pub fn ptr_eq(&self, other: &Object) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Object {
    /// Never shows the content: it may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({} uid={} revision={})", self.0.key, self.0.uid, self.0.revision)
    }
}

impl Uid {
    /// Reads a uid.
    pub fn new(uid: &str) -> Self {
        match parse_uuid(uid.as_bytes()) {
            Some(bytes) => Uid(UidForm::Uuid(bytes)),
            None => Uid(UidForm::Text(uid.into())),
        }
    }

    /// Whether the object had no uid.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, UidForm::Text(text) if text.is_empty())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match &self.0 {
            UidForm::Text(text) => return f.write_str(text),
            UidForm::Uuid(bytes) => bytes,
        };
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Only the form that [`Uid`]'s Display writes back unchanged: lower case, dashes in place.
fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 36 || [8, 13, 18, 23].iter().any(|&dash| text[dash] != b'-') {
        return None;
    }
    let mut digits = text.iter().filter(|&&byte| byte != b'-').map(|byte| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    });
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        *byte = (digits.next()?? << 4) | digits.next()??;
    }
    digits.next().is_none().then_some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_do_not_tell_what_an_object_holds() {
        let json = br#"{"metadata":{"name":"x"},"data":"hunter\"2"}"#;
        let error =
            Object::from_json(json).unwrap().decode::<k8s_openapi::api::core::v1::Secret>().unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("invalid type: string") && !text.contains("hunter") && !text.contains('2'),
            "{text}"
        );
    }

    #[test]
    fn a_uid_is_written_back_as_it_was_read() {
        for text in [
            "6b1f7a9e-0c2d-4e5f-8a7b-9c0d1e2f3a4b",
            "6B1F7A9E-0c2d-4e5f-8a7b-9c0d1e2f3a4b",
            "6b1f7a9e-0c2d-4e5f-8a7b-9c0d1e2f3a4-",
            "",
            "mirror-pod",
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
    }
}
