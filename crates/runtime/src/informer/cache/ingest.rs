//! Turns the bytes of one object into a cached [`Object`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;

use super::body::{Body, BodyWriter};
use super::field_owners::FieldOwners;
use super::intern::{Interner, hash_bytes};
use super::labels::{Labels, Packed};
use super::metadata::Metadata;
use super::object::{Entry, ManagedFields, Object, ObjectError, StateId, Uid};
use super::scan::{Cursor, Malformed, Text};
use super::training::Training;
use crate::informer::metrics::InformerMetrics;
use crate::key::Key;
use crate::revision::parse_revision_bytes;

/// Changes an object before it is cached.
///
/// It gets the object's JSON without managedFields and gives other JSON, or `None` to keep it as it is. It must
/// leave `metadata` alone: the key, labels and owners were already read. Empty bytes say that it cannot handle the
/// object: informers cache its metadata alone, as if it had panicked.
pub type Transform = Arc<dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync>;

/// A transform that removes the values at dotted paths such as `data` or `spec.template`. Decodes each object. Of one
/// that does not decode, because it is nested more than 127 levels deep or has a text that is no Unicode, nothing is
/// left: what was to be removed may be what must not be kept. It is cached and counted as if the transform had panicked.
///
/// ```
/// let transform = setpoint::informer::remove_paths(["data"]);
/// assert_eq!(transform(br#"{"data":{"k":"v"},"type":"Opaque"}"#).unwrap(), br#"{"type":"Opaque"}"#);
/// assert_eq!(transform(b"not JSON").unwrap(), b"");
/// ```
pub fn remove_paths<const N: usize>(paths: [&'static str; N]) -> Transform {
    Arc::new(move |json| {
        let Ok(mut value) = serde_json::from_slice::<serde_json::Value>(json) else {
            return Some(Vec::new());
        };
        for path in paths {
            let (parent, last) = path.rsplit_once('.').unwrap_or(("", path));
            let parent =
                parent.split('.').filter(|step| !step.is_empty()).try_fold(&mut value, |value, step| {
                    value.as_object_mut().and_then(|fields| fields.get_mut(step))
                });
            if let Some(fields) = parent.and_then(serde_json::Value::as_object_mut) {
                fields.remove(last);
            }
        }
        Some(serde_json::to_vec(&value).unwrap_or_default())
    })
}

/// The parts that a reflector keeps of the objects that it reads.
///
/// ```
/// use setpoint::informer::{ObjectOptions, remove_paths};
/// let options = ObjectOptions::with(|options| options.transform = Some(remove_paths(["data"])));
/// # assert!(options.transform.is_some());
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ObjectOptions {
    /// The field managers whose field sets are kept.
    pub field_owners: FieldOwners,
    /// Changes objects before they are handed on.
    pub transform: Option<Transform>,
}

impl ObjectOptions {
    /// Returns the defaults after `change`. A struct literal does not compile, because fields may be added.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }
}

/// The reader of one kind's objects.
#[derive(Clone, Default)]
pub(crate) struct IngestOptions {
    /// The beginning of objects that lists give without their types: a brace, kind, apiVersion, a comma. Without it
    /// the list's own types tell.
    pub types: Option<Cow<'static, str>>,
    pub field_owners: FieldOwners,
    pub transform: Option<Transform>,
    /// Keep nothing but the metadata of an object, whatever the server sent.
    pub metadata_only: bool,
    /// Counts objects whose metadata is not what Kubernetes defines.
    pub metrics: Option<Arc<InformerMetrics>>,
    /// Gives the dictionary to compress with; without it objects stay raw.
    pub training: Option<Arc<Training>>,
}

/// Reads objects of one kind for one writer.
pub(crate) struct Ingest {
    options: IngestOptions,
    labels: Interner<Packed>,
    owners: Interner<[OwnerReference]>,
    finalizers: Interner<[String]>,
    managed: Interner<[ManagedFields]>,
    writer: BodyWriter,
    scratch: Vec<u8>,
    key: String,
    /// The next object is left as it is.
    hurried: bool,
    /// An object that was left as it is and is still to be packed, and the group of its workload.
    unpacked: Option<(Object, u64)>,
}

impl Ingest {
    pub fn new(options: IngestOptions) -> Self {
        let dictionaries = options.training.as_ref().map(|training| training.dictionaries().clone());
        Ingest {
            writer: BodyWriter::new(dictionaries),
            options,
            labels: Interner::new(),
            owners: Interner::new(),
            finalizers: Interner::new(),
            managed: Interner::new(),
            scratch: Vec::new(),
            key: String::new(),
            hurried: false,
            unpacked: None,
        }
    }

    /// Leaves the next object as it is: somebody waits for it, and it can be [packed](Ingest::pack) after that.
    pub fn hurry(&mut self, hurried: bool) {
        self.hurried = hurried && self.options.training.is_some();
    }

    /// The object that was left as it is, and what to keep instead.
    pub fn pack(&mut self) -> Option<(Object, Object)> {
        let (raw, group) = self.unpacked.take()?;
        let packed = raw.with_body(self.writer.body(&raw.json(), group));
        self.offer(&packed);
        (packed.heap_bytes() < raw.heap_bytes()).then_some((raw, packed))
    }

    /// Gives back what the reading of one object leaves to the next.
    pub fn rest(&mut self) {
        self.scratch = Vec::new();
        self.key = String::new();
        self.writer.rest();
    }

    /// Whether nobody told yet what objects begin with that come without their types.
    pub fn lacks_types(&self) -> bool {
        self.options.types.is_none()
    }

    /// Tells what the objects of a list begin with, by its own kind and apiVersion, both as JSON has them.
    pub fn learn_types(&mut self, list_kind: &str, api_version: &str) {
        // A plain `List` is of anything.
        let kind = list_kind.strip_suffix("List").filter(|kind| !kind.is_empty());
        let types = kind.map(|kind| format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","#));
        self.options.types = types.map(Cow::Owned);
    }

    /// Reads an object that reaches to the end of `json`.
    pub fn object(&mut self, json: &[u8]) -> Result<Object, ObjectError> {
        let metadata = Metadata::find(json)?;
        self.build(json, 0, &metadata)
    }

    /// Builds the object of `metadata`, which was found in `json` with positions counted from `offset` before it.
    pub fn build(
        &mut self,
        json: &[u8],
        offset: usize,
        metadata: &Metadata<'_>,
    ) -> Result<Object, ObjectError> {
        let name = metadata.name.and_then(Text::value).filter(|name| !name.is_empty());
        let name = name.ok_or(ObjectError::Nameless)?;
        let namespace = metadata.namespace.and_then(Text::value);
        let mut ill_typed = metadata.ill_typed;
        let entry = Entry {
            state: StateId::next(),
            key: Key::join_in(&mut self.key, namespace.as_deref(), &name),
            uid: Uid::new(&metadata.uid.and_then(Text::value).unwrap_or_default()),
            revision: metadata.resource_version.and_then(|text| parse_revision_bytes(text.raw)).unwrap_or(0),
            generation: metadata.generation.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or(0),
            deletion: metadata.deletion_timestamp.and_then(Text::value).map(|text| seconds(&text)),
            annotations_hash: metadata.annotations.map_or(0, hash_bytes),
            labels: Labels(self.labels.get(metadata.labels.unwrap_or(b"{}"), || {
                let map = parse::<BTreeMap<String, String>>(metadata.labels, &mut ill_typed);
                Labels::from_map(&map).0
            })),
            owners: self.owners.get(metadata.owner_references.unwrap_or(b"[]"), || {
                parse::<Vec<OwnerReference>>(metadata.owner_references, &mut ill_typed).into()
            }),
            finalizers: self.finalizers.get(metadata.finalizers.unwrap_or(b"[]"), || {
                parse::<Vec<String>>(metadata.finalizers, &mut ill_typed).into()
            }),
            managed: self.managed_fields(metadata.managed_fields),
            body: self.body(json, offset, metadata),
        };
        if let (true, Some(metrics)) = (ill_typed, &self.options.metrics) {
            metrics.ill_typed.add(1);
        }
        let object = Object(Arc::new(entry));
        if std::mem::take(&mut self.hurried) {
            self.unpacked = Some((object.clone(), group(metadata)));
        } else {
            self.offer(&object);
        }
        Ok(object)
    }

    fn offer(&self, object: &Object) {
        if let Some(training) = &self.options.training {
            training.offer(object);
        }
    }

    fn body(&mut self, json: &[u8], offset: usize, metadata: &Metadata<'_>) -> Body {
        let (mut types, mut begin): (&[u8], _) = (b"", 0);
        if let (Some(known), None, None) = (&self.options.types, metadata.api_version, metadata.kind) {
            types = known.as_bytes();
            begin = memchr::memchr(b'{', json).map_or(0, |brace| brace + 1);
        }
        let (before, behind): (_, &[u8]) = match &metadata.managed_fields_cut {
            Some(cut) => (&json[begin..cut.start - offset], &json[cut.end - offset..]),
            None => (&json[begin..], b""),
        };
        let parts = [types, before, behind];
        if self.hurried {
            let whole = parts.concat();
            return Body::Raw(self.transformed(&whole).unwrap_or(whole).into());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.reserve(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| scratch.extend_from_slice(part));
        let transformed = self.transformed(&scratch);
        let body = self.writer.body(transformed.as_deref().unwrap_or(&scratch), group(metadata));
        self.scratch = scratch;
        body
    }

    fn transformed(&self, json: &[u8]) -> Option<Vec<u8>> {
        let reduced = if self.options.metadata_only { metadata_alone(json) } else { None };
        let transform = self.options.transform.as_ref();
        transform.and_then(|transform| transform(reduced.as_deref().unwrap_or(json))).or(reduced)
    }

    fn managed_fields(&mut self, json: Option<&[u8]>) -> Option<Arc<[ManagedFields]>> {
        let kept = self.options.field_owners.own(json?).ok()?;
        if kept.is_empty() {
            return None;
        }
        let mut identity = Vec::new();
        for entry in &kept {
            for part in [&entry.manager, &entry.operation, &entry.subresource, &entry.api_version] {
                identity.extend_from_slice(part.as_bytes());
                identity.push(0);
            }
            identity.extend_from_slice(&entry.fields);
        }
        Some(self.managed.get(&identity, || kept.into()))
    }
}

/// A number that objects of one workload have in common.
fn group(metadata: &Metadata<'_>) -> u64 {
    // Pods of a StatefulSet differ in their labels, those of any owner agree in it.
    let shared = metadata.owner_references.filter(|owners| owners.len() > 2);
    hash_bytes(shared.or(metadata.labels).unwrap_or_default())
}

/// The metadata of an object as its own, or `None` if it is no more already.
fn metadata_alone(json: &[u8]) -> Option<Vec<u8>> {
    let (mut metadata, mut is_partial, mut more) = (None, false, false);
    let read = Cursor::new(json).fields(|cursor, name| {
        match name.raw {
            b"metadata" => metadata = Some(cursor.value()?),
            b"kind" => is_partial = cursor.value()? == br#""PartialObjectMetadata""#,
            b"apiVersion" => {
                cursor.value()?;
            }
            _ if metadata.is_some() => {
                more = true;
                return Ok(false);
            }
            _ => {
                more = true;
                cursor.value()?;
            }
        }
        Ok(true)
    });
    if read.is_ok() && is_partial && !more {
        return None;
    }
    let types = br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;
    Some([types, metadata?, b"}"].concat())
}

impl From<Malformed> for ObjectError {
    fn from(malformed: Malformed) -> Self {
        ObjectError::Malformed { at: malformed.at }
    }
}

fn parse<T: Default + for<'de> Deserialize<'de>>(json: Option<&[u8]>, ill_typed: &mut bool) -> T {
    let parsed = json.map(serde_json::from_slice).transpose();
    *ill_typed |= parsed.is_err();
    parsed.ok().flatten().unwrap_or_default()
}

/// An unreadable time still says that the object is being deleted.
fn seconds(text: &str) -> i64 {
    text.parse::<Timestamp>().map_or(0, Timestamp::as_second)
}

impl Object {
    /// Reads one object, uncompressed and unshared. Informers read theirs themselves; this is for tests and fakes.
    ///
    /// # Errors
    /// When the bytes do not say which object they are.
    pub fn from_json(json: &[u8]) -> Result<Self, ObjectError> {
        Ingest::new(IngestOptions::default()).object(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    /// A pod as servers write it, and one that was transformed: decoding sorts its keys.
    #[test]
    fn an_object_that_is_packed_later_is_packed_as_if_it_had_been_at_once() {
        for transform in [None, Some(remove_paths(["spec.secret"]))] {
            let training = Arc::new(Training::default());
            let mut ingest = Ingest::new(IngestOptions {
                training: Some(Arc::clone(&training)),
                transform: transform.clone(),
                ..IngestOptions::default()
            });
            let filler = "a word of the workload ".repeat(50);
            let owner = r#"{"kind":"ReplicaSet","name":"web","apiVersion":"apps/v1","uid":"o"}"#;
            let mut pod = |name: &str, hurried: bool| {
                let json = format!(
                    r#"{{"metadata":{{"name":"{name}","ownerReferences":[{owner}]}},"spec":{{"x":"{filler}"}}}}"#
                );
                ingest.hurry(hurried);
                let object = ingest.object(json.as_bytes()).unwrap();
                (object, ingest.pack())
            };
            let (first, later) = pod("first", false);
            assert!(later.is_none() && first.raw_bytes() == 0);
            let one_base = training.dictionaries().base_bytes().load(Ordering::Relaxed);
            let (raw, later) = pod("second", true);
            let (old, packed) = later.expect("it was left as it is");
            assert!(old.ptr_eq(&raw) && raw.raw_bytes() > filler.len());
            assert_eq!((packed.json(), packed.raw_bytes()), (raw.json(), 0));
            assert_eq!(
                training.dictionaries().base_bytes().load(Ordering::Relaxed),
                one_base,
                "one workload, one base"
            );
            let (third, later) = pod("third", false);
            assert!(later.is_none() && third.raw_bytes() == 0);
        }
    }

    #[test]
    fn metadata_alone_is_kept_of_whole_objects_where_no_more_was_asked_for() {
        let mut ingest = Ingest::new(IngestOptions { metadata_only: true, ..IngestOptions::default() });
        let partial =
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x"}}"#;
        for json in [
            partial,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}"#,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","managedFields":[]},"spec":{"a":"}"}}"#,
            r#"{"apiVersion":"v1","data":{"metadata":{}},"kind":"ConfigMap","metadata":{"name":"x"}}"#,
            r#"{"metadata":{"name":"x"},"spec":{}}"#,
        ] {
            let object = ingest.object(json.as_bytes()).unwrap();
            assert_eq!(String::from_utf8_lossy(&object.json()), partial, "{json}");
        }
    }
}
