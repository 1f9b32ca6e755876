//! The writes that a transaction's decision asks for.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::entry::{Event, Memo};
use crate::{Millis, Revision};

/// The writes of one transaction. They happen together, at one revision, or not at all.
///
/// A second write to the same key replaces the first.
#[derive(Default)]
pub struct Txn {
    ops: BTreeMap<Bytes, Op>,
}

pub(crate) enum Op {
    Put { value: Value, expires_at: Option<Millis>, memo: Memo },
    Delete,
}

pub(crate) enum Value {
    Known(Bytes),
    Made(Box<dyn FnOnce(Revision) -> Bytes + Send>),
}

/// Optional details of a put.
pub struct Put<'a> {
    expires_at: &'a mut Option<Millis>,
    memo: &'a mut Memo,
}

/// A committed transaction.
#[derive(Debug)]
pub struct Committed<T> {
    /// The return value of the decision.
    pub value: T,
    /// The revision of its writes, or of the state that it read if it wrote nothing.
    pub revision: Revision,
    /// Its changes in key order. Empty if it wrote nothing.
    pub events: Vec<Arc<Event>>,
}

impl Txn {
    /// Writes `value` under `key`.
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Put<'_> {
        self.put_value(key.into(), Value::Known(value.into()))
    }

    /// Writes a value that contains its own revision under `key`. `make` runs while no other transaction can commit,
    /// so it should only put the number in its place.
    pub fn put_with(
        &mut self,
        key: impl Into<Bytes>,
        make: impl FnOnce(Revision) -> Bytes + Send + 'static,
    ) -> Put<'_> {
        self.put_value(key.into(), Value::Made(Box::new(make)))
    }

    /// Deletes `key`. Does nothing if the key does not exist.
    pub fn delete(&mut self, key: impl Into<Bytes>) {
        self.ops.insert(key.into(), Op::Delete);
    }

    /// Whether the transaction has no writes.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    fn put_value(&mut self, key: Bytes, value: Value) -> Put<'_> {
        let slot = self.ops.entry(key).or_insert(Op::Delete);
        *slot = Op::Put { value, expires_at: None, memo: Memo::default() };
        match slot {
            Op::Put { expires_at, memo, .. } => Put { expires_at, memo },
            Op::Delete => unreachable!("it was made a put just now"),
        }
    }

    pub(crate) fn into_ops(self) -> BTreeMap<Bytes, Op> {
        self.ops
    }
}

impl Put<'_> {
    /// Sets the time from which [`Store::expire`](crate::Store::expire) deletes the key.
    pub fn expires_at(self, at: Millis) -> Self {
        *self.expires_at = Some(at);
        self
    }

    /// Presets the result of [`Entry::memo`](crate::Entry::memo) for the new entry, so that no reader has to decode a
    /// value that the writer already had.
    pub fn memo<T: Any + Send + Sync>(self, memo: T) -> Self {
        *self.memo = Memo::filled(Box::new(memo));
        self
    }
}
