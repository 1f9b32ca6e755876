//! Fills the cache of protobuf messages: each is made once, kept with its object, and ready before readers come.
//!
//! The server makes none until a client asks for protobuf. From then on every write makes the message of the object
//! that it wrote. A background task makes the messages of objects that were stored before, so that a reader finds
//! them.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use setpoint_schema::Schema;
use setpoint_schema::protobuf::{self, encode_message, transcode_into};
use setpoint_store::{Entry, Event, KeyRange};

use crate::error::{ApiError, Result};
use crate::protobuf_cache::{Budget, Message, ProtobufCache};
use crate::registry::{self, Resource};
use crate::server::{Inner, Server};
use crate::versions::present;

/// The number of objects that get their messages before other work has its turn.
const SLICE: usize = 32;

/// The messages of a resource's stored objects.
pub(crate) struct Messages<'r> {
    budget: &'r Arc<Budget>,
    resource: &'r Resource,
    /// The schema, looked up for the first message.
    schema: OnceCell<Schema>,
    /// The buffer in which messages are written, one after the other.
    buffer: Cell<Vec<u8>>,
    is_stored_form: bool,
}

impl<'r> Messages<'r> {
    pub(crate) fn new(server: &'r Server, resource: &'r Resource) -> Self {
        Messages::within(&server.0.protobuf_cache, resource)
    }

    fn within(cache: &'r ProtobufCache, resource: &'r Resource) -> Self {
        let is_stored_form = resource.is_stored_form();
        let (schema, buffer) = (OnceCell::new(), Cell::default());
        Messages { budget: &cache.budget, resource, schema, buffer, is_stored_form }
    }

    /// The message of one object.
    pub(crate) fn of(&self, entry: &Entry) -> Result<Arc<Message>> {
        if !self.is_stored_form {
            let shown = present::value(self.resource, registry::value(entry));
            let bytes = encode_message(&shown, self.schema()).map_err(ApiError::internal)?;
            return Ok(Arc::new(self.sealed(&bytes, None)));
        }
        let slot = registry::protobuf(entry);
        if self.budget.has_room(entry.value.len()) {
            return slot.get_or_make(|| self.make(entry));
        }
        // A message that will not be shared is not worth waiting for.
        slot.get().map_or_else(|| self.make(entry), Ok)
    }

    fn make(&self, entry: &Entry) -> Result<Arc<Message>> {
        let mut buffer = self.buffer.take();
        transcode_into(&mut buffer, &entry.value, self.schema()).map_err(ApiError::internal)?;
        let message = self.sealed(&buffer, Some(self.budget));
        self.buffer.set(buffer);
        Ok(Arc::new(message))
    }

    fn sealed(&self, bytes: &[u8], budget: Option<&Arc<Budget>>) -> Message {
        Message::new(&self.resource.api_version(), &self.resource.kind, bytes, budget)
    }

    fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| self.resource.schema())
    }
}

/// A stored object in its envelope.
pub(crate) fn stored(server: &Server, resource: &Resource, entry: &Entry) -> Result<Bytes> {
    Ok(Messages::new(server, resource).of(entry)?.sealed())
}

/// A watch event of a stored object.
pub(crate) fn stored_frame(server: &Server, resource: &Resource, kind: &str, entry: &Entry) -> Option<Bytes> {
    let sealed = stored(server, resource, entry).ok()?;
    Some(protobuf::watch_frame(kind, &sealed).into())
}

/// Notes that a client reads protobuf. The first call starts the background task.
pub(crate) fn wanted(server: &Server) {
    let wanted = &server.0.protobuf_cache.wanted;
    if !wanted.load(Relaxed) && !wanted.swap(true, Relaxed) {
        server.own(fill(Arc::downgrade(&server.0)));
    }
}

/// Whether messages of this resource are kept. It needs a protobuf form, and its stored version must be the one that
/// is served.
fn is_kept(resource: &Resource) -> bool {
    resource.custom.is_none() && resource.is_stored_form()
}

/// Makes the messages of written objects, if a client reads protobuf.
pub(crate) fn written(server: &Server, resource: &Resource, events: &[Arc<Event>]) {
    if !is_kept(resource) || !server.0.protobuf_cache.wanted.load(Relaxed) {
        return;
    }
    let messages = Messages::new(server, resource);
    let own = events.iter().filter(|event| event.key.starts_with(&resource.prefix));
    for entry in own.filter_map(|event| event.new.as_ref()) {
        ready(&messages, entry);
    }
}

/// Makes the message of an object if there is room for it.
fn ready(messages: &Messages<'_>, entry: &Entry) {
    if messages.budget.has_room(entry.value.len()) {
        // A kind may have no protobuf form. Its readers get the error.
        let _ = messages.of(entry);
    }
}

/// Makes the messages of all stored objects, one slice at a time. Ends early with the server.
async fn fill(server: Weak<Inner>) {
    let resources = match server.upgrade() {
        Some(inner) => inner.registry.all(),
        None => return,
    };
    for resource in resources.iter().filter(|resource| is_kept(resource)) {
        let range = KeyRange::prefix(&resource.prefix);
        let mut from = Some(resource.prefix.clone());
        while let Some(next) = from {
            let Some(inner) = server.upgrade() else { return };
            from = fill_slice(&inner, resource, &range, &next);
            drop(inner);
            tokio::task::yield_now().await;
        }
    }
}

/// Makes the messages of one slice of objects, and returns where the next one begins. The snapshot is dropped between
/// slices: the store changes an index in place only if no snapshot holds it.
fn fill_slice(inner: &Inner, resource: &Resource, range: &KeyRange, from: &[u8]) -> Option<Vec<u8>> {
    let messages = Messages::within(&inner.protobuf_cache, resource);
    let snapshot = inner.options.store.snapshot();
    let mut entries = snapshot.range(range, Some(from));
    for entry in entries.by_ref().take(SLICE) {
        ready(&messages, entry);
    }
    entries.next().map(|entry| entry.key.to_vec())
}

#[cfg(test)]
mod tests;
