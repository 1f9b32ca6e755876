//! The cache of protobuf messages: a slot beside each stored object, and one budget for all slots.

use std::ops::{Deref, Range};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use setpoint_schema::protobuf;

use crate::error::Result;

/// The state of a server for its readers of protobuf.
pub(crate) struct ProtobufCache {
    pub(crate) wanted: AtomicBool,
    pub(crate) budget: Arc<Budget>,
}

/// The bytes of messages that may be kept, and that are kept.
#[derive(Debug)]
pub(crate) struct Budget {
    most: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn has_room(&self, size: usize) -> bool {
        self.used.load(Relaxed) + size <= self.most
    }

    fn take(&self, size: usize) -> bool {
        let more = |used: usize| (used + size <= self.most).then_some(used + size);
        self.used.fetch_update(Relaxed, Relaxed, more).is_ok()
    }
}

impl ProtobufCache {
    pub(crate) fn new(most: usize) -> Self {
        ProtobufCache {
            wanted: AtomicBool::new(false),
            budget: Arc::new(Budget { most, used: AtomicUsize::new(0) }),
        }
    }

    /// The bytes of all kept messages.
    pub(crate) fn bytes(&self) -> usize {
        self.budget.used.load(Relaxed)
    }
}

/// An object's message, in the envelope of a single object's answer.
#[derive(Debug)]
pub(crate) struct Message {
    sealed: Bytes,
    /// The place of the message in the envelope.
    at: Range<usize>,
    /// The budget that the message takes from; `None` if it is made for a single reader.
    budget: Option<Arc<Budget>>,
}

impl Message {
    /// Seals the message of an object of that kind.
    pub(crate) fn new(api_version: &str, kind: &str, bytes: &[u8], budget: Option<&Arc<Budget>>) -> Self {
        let sealed = Bytes::from(protobuf::seal(api_version, kind, bytes));
        let end = sealed.len() - protobuf::LIST_END.len();
        let budget = budget.filter(|budget| budget.take(sealed.len())).cloned();
        Message { sealed, at: end - bytes.len()..end, budget }
    }

    /// The message with its envelope, which is not copied.
    pub(crate) fn sealed(&self) -> Bytes {
        self.sealed.clone()
    }
}

impl Deref for Message {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.sealed[self.at.clone()]
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.used.fetch_sub(self.sealed.len(), Relaxed);
        }
    }
}

/// The slot that keeps an object's message. An object never changes, so neither does its message.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<Option<Arc<Message>>>);

impl Slot {
    /// The message. The first caller makes it, and callers that come meanwhile wait for it rather than make it again.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Result<Arc<Message>>) -> Result<Arc<Message>> {
        // A panic in `make` leaves the slot as it was.
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(message) = &*slot {
            return Ok(message.clone());
        }
        let message = make()?;
        if message.budget.is_some() {
            *slot = Some(message.clone());
        }
        Ok(message)
    }

    pub(crate) fn get(&self) -> Option<Arc<Message>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
