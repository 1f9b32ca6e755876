//! Protobuf on the wire: the envelope and watch frames, by the schema table.

use std::cell::OnceCell;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use serde_json::Value;
use setpoint_api::protobuf;
use setpoint_api::schema::Schema;
use setpoint_store::Entry;

use crate::error::{ApiError, Result};
use crate::registry::{self, Resource};

/// An object in its envelope.
pub(crate) fn encode(value: &Value) -> Result<Vec<u8>> {
    protobuf::encode(value).map_err(|_| ApiError::not_acceptable(&["application/json", "application/yaml"]))
}

/// Messages are kept with the objects that they were made of, up to this many bytes in the whole process. While there is
/// no room they are made for each reader.
const KEPT_MOST: usize = 256 * 1024 * 1024;
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// An object's message, kept as long as the object.
#[derive(Debug)]
pub(crate) struct Kept(Bytes);

impl Kept {
    fn new(message: &Bytes) -> Option<Self> {
        let size = message.len();
        let room =
            KEPT.fetch_update(Relaxed, Relaxed, |kept| (kept + size <= KEPT_MOST).then_some(kept + size));
        room.is_ok().then(|| Kept(message.clone()))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.0.len(), Relaxed);
    }
}

/// The messages of a resource's stored objects.
pub(crate) struct Messages<'r> {
    resource: &'r Resource,
    /// Looked up for the first message that has to be made.
    schema: OnceCell<Schema>,
    is_stored_form: bool,
}

impl<'r> Messages<'r> {
    pub(crate) fn new(resource: &'r Resource) -> Self {
        Messages { resource, schema: OnceCell::new(), is_stored_form: resource.is_stored_form() }
    }

    /// The message of one object: made by its first reader, shared by the others.
    pub(crate) fn of(&self, entry: &Entry) -> Result<Bytes> {
        if !self.is_stored_form {
            return self.make(&crate::form::presented(self.resource, &entry.value));
        }
        let slot = registry::protobuf(entry);
        if let Some(Kept(message)) = slot.get() {
            return Ok(message.clone());
        }
        let message = self.make(&entry.value)?;
        if let Some(kept) = Kept::new(&message) {
            // Another reader may have been first: then its message is the one that is kept.
            slot.get_or_init(|| kept);
        }
        Ok(message)
    }

    fn make(&self, json: &[u8]) -> Result<Bytes> {
        let schema = self.schema.get_or_init(|| self.resource.schema());
        let mut message = protobuf::transcode_message(json, schema).map_err(ApiError::internal)?;
        // What is kept takes no more room than it needs.
        message.shrink_to_fit();
        Ok(Bytes::from(message))
    }
}

/// A stored object in its envelope.
pub(crate) fn stored(entry: &Entry, resource: &Resource) -> Result<Vec<u8>> {
    let message = Messages::new(resource).of(entry)?;
    Ok(protobuf::seal(&resource.api_version(), &resource.kind, &message))
}

/// A watch event of a stored object.
pub(crate) fn stored_frame(kind: &str, entry: &Entry, resource: &Resource) -> Option<Bytes> {
    let message = Messages::new(resource).of(entry).ok()?;
    Some(protobuf::watch_message(kind, &resource.api_version(), &resource.kind, &message).into())
}

/// A watch event: length, then the envelope.
pub(crate) fn watch_frame(kind: &str, object: &Value) -> Result<Vec<u8>> {
    Ok(protobuf::watch_frame(kind, &encode(object)?))
}

/// A body of any built-in kind.
pub(crate) fn decode_any(bytes: &[u8]) -> Result<Value> {
    protobuf::decode(bytes).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// A body that must be of the resource's kind.
pub(crate) fn decode(bytes: &[u8], resource: &Resource) -> Result<Value> {
    let envelope = protobuf::open(bytes).map_err(|error| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {error} ({})",
            resource.kind,
            setpoint_api::schema::excerpt(bytes)
        ))
    })?;
    let (kind, version) = (envelope.kind, envelope.api_version);
    let value = protobuf::decode_as(bytes, &resource.api_version(), &resource.kind).map_err(|error| {
        let kind = if kind.is_empty() { &resource.kind } else { &kind };
        let version = version.rsplit('/').next().filter(|version| !version.is_empty());
        ApiError::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {}: {error}",
            version.unwrap_or(&resource.version),
            resource.kind
        ))
    })?;
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or("");
    let (version, expected) = (text("apiVersion"), resource.api_version());
    if !version.is_empty() && version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if !text("kind").is_empty() && text("kind") != resource.kind {
        return Err(ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: unknown conversion",
            text("kind"),
            resource.version,
            resource.kind
        )));
    }
    Ok(value)
}
