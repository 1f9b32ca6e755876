//! The frames of watch events: JSON lines, or protobuf. The common form is made once for each event, and all its watchers share it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Value, json};
use setpoint_store::{Entry, Event};

use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::negotiate::{Format, Negotiated, Representation};
use crate::registry::Resource;
use crate::versions::present;
use crate::{object, table};

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Added => "ADDED",
            Kind::Modified => "MODIFIED",
            Kind::Deleted => "DELETED",
        }
    }
}

/// JSON lines and protobuf frames of an event, in stored form.
#[derive(Default)]
struct Shared {
    added_frame: OnceLock<Option<Bytes>>,
    modified_frame: OnceLock<Option<Bytes>>,
    deleted_frame: OnceLock<Option<Bytes>>,
    added: OnceLock<Bytes>,
    modified: OnceLock<Bytes>,
    deleted: OnceLock<Bytes>,
}

/// Writes events in the form that one watcher requested.
pub(crate) struct FrameWriter {
    ctx: Arc<RequestContext>,
    resource: Arc<Resource>,
    negotiated: Negotiated,
    /// Whether the stored bytes are the bytes of the answer.
    plain: bool,
    /// Whether the frame of an event is the same for every watcher of this kind.
    plain_protobuf: bool,
    /// Whether the columns were sent: only the first Table of a watch has them.
    columns_sent: bool,
}

impl FrameWriter {
    pub(crate) fn new(ctx: &Arc<RequestContext>) -> Result<Self> {
        let resource = ctx.resource.clone();
        let negotiated = ctx.negotiated;
        if negotiated.format == Format::Yaml {
            return Err(ApiError::not_acceptable(&[
                "application/json",
                "application/vnd.kubernetes.protobuf",
            ]));
        }
        let plain_protobuf = negotiated.format == Format::Protobuf
            && negotiated.representation == Representation::Whole
            && resource.is_stored_form()
            && resource.custom.is_none();
        let plain = negotiated.format == Format::Json
            && negotiated.representation == Representation::Whole
            && resource.is_stored_form()
            && resource.has_all_that_is_stored();
        Ok(FrameWriter { ctx: ctx.clone(), resource, negotiated, plain, plain_protobuf, columns_sent: false })
    }

    pub(crate) fn content_type(&self) -> &'static str {
        match self.negotiated.format {
            Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            _ => "application/json",
        }
    }

    /// The event for a stored object of the initial state.
    pub(crate) fn entry(&mut self, kind: Kind, entry: &Entry) -> Option<Bytes> {
        if self.plain {
            return Some(stored_line(kind, &entry.value));
        }
        if self.plain_protobuf {
            return crate::protobuf_fill::stored_frame(&self.ctx.server, &self.resource, kind.name(), entry);
        }
        self.value(kind.name(), crate::registry::value(entry))
    }

    /// The event for a change.
    pub(crate) fn event(&mut self, kind: Kind, event: &Event) -> Option<Bytes> {
        if self.plain_protobuf {
            let shared: &Shared = event.memo(|_| Shared::default());
            let there = || {
                let entry = event.new.as_ref()?;
                crate::protobuf_fill::stored_frame(&self.ctx.server, &self.resource, kind.name(), entry)
            };
            let frame = match kind {
                Kind::Added => shared.added_frame.get_or_init(there),
                Kind::Modified => shared.modified_frame.get_or_init(there),
                Kind::Deleted => shared.deleted_frame.get_or_init(|| {
                    let gone = present::value(&self.resource, gone(event)?);
                    self.framed(kind.name(), &gone)
                }),
            };
            return frame.clone();
        }
        if !self.plain {
            let value = match kind {
                Kind::Deleted => gone(event)?,
                _ => crate::registry::value(event.new.as_ref()?),
            };
            return self.value(kind.name(), value);
        }
        let shared: &Shared = event.memo(|_| Shared::default());
        let line = match kind {
            Kind::Added => shared.added.get_or_init(|| new_line(kind, event)),
            Kind::Modified => shared.modified.get_or_init(|| new_line(kind, event)),
            Kind::Deleted => shared.deleted.get_or_init(|| gone_line(event)),
        };
        Some(line.clone())
    }

    fn value(&mut self, kind: &str, value: Value) -> Option<Bytes> {
        let value = present::value(&self.resource, value);
        let shown = match self.negotiated.representation {
            Representation::Whole => value,
            Representation::Metadata(version) | Representation::MetadataList(version) => {
                present::partial(&value, version, true)
            }
            Representation::Table(version) => {
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                let metadata = json!({"resourceVersion": object::meta_text(&value, "resourceVersion")});
                table::table(&self.ctx, version, metadata, &[value], columns)
            }
        };
        self.framed(kind, &shown)
    }

    fn framed(&self, kind: &str, shown: &Value) -> Option<Bytes> {
        match self.negotiated.format {
            Format::Protobuf => crate::protobuf::watch_frame(kind, shown).ok().map(Bytes::from),
            _ => {
                let mut line = format!("{{\"type\":\"{kind}\",\"object\":").into_bytes();
                line.extend_from_slice(&object::ordered(shown));
                line.extend_from_slice(b"}\n");
                Some(line.into())
            }
        }
    }

    /// A bookmark.
    pub(crate) fn bookmark(&mut self, revision: u64, ends_initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let shown = match self.negotiated.representation {
            Representation::Metadata(version) | Representation::MetadataList(version) => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata})
            }
            Representation::Table(version) => {
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                let object = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(),
                    "metadata": metadata});
                table::table(&self.ctx, version, metadata_version(revision), &[object], columns)
            }
            Representation::Whole => {
                let empty = setpoint_schema::read_value(json!({}), &self.resource.schema());
                let mut zero = match (empty, self.resource.custom.is_some()) {
                    (Ok(read), false) => read.value,
                    _ => json!({}),
                };
                zero["kind"] = json!(self.resource.kind);
                zero["apiVersion"] = json!(self.resource.api_version());
                zero["metadata"] = metadata;
                zero
            }
        };
        self.framed("BOOKMARK", &shown).unwrap_or_default()
    }

    /// The `ERROR` event that ends the watch.
    pub(crate) fn error(&self, error: &ApiError) -> Bytes {
        self.framed("ERROR", &error.to_value()).unwrap_or_default()
    }
}

fn metadata_version(revision: u64) -> Value {
    json!({"resourceVersion": revision.to_string()})
}

fn stored_line(kind: Kind, stored: &Bytes) -> Bytes {
    let mut line = Vec::with_capacity(stored.len() + 32);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.name().as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(&object::trimmed(stored));
    line.extend_from_slice(b"}\n");
    line.into()
}

fn new_line(kind: Kind, event: &Event) -> Bytes {
    event.new.as_ref().map(|entry| stored_line(kind, &entry.value)).unwrap_or_default()
}

fn gone_line(event: &Event) -> Bytes {
    let Some(value) = gone(event) else { return Bytes::new() };
    stored_line(Kind::Deleted, &object::Encoded::new(&value).at(event.revision))
}

/// The deleted object, with the resource version of its deletion.
fn gone(event: &Event) -> Option<Value> {
    let mut value = crate::registry::value(event.old.as_ref()?);
    object::set_meta_text(&mut value, "resourceVersion", &event.revision.to_string());
    Some(value)
}
