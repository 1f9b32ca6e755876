//! What a transaction's decision asks to be written.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::entry::{Event, Memo};
use crate::{Millis, Revision};

/// The writes of one transaction. They happen together, at one revision, or not at all.
///
/// A second write to the same key takes the place of the first.
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

/// Details of a put that has just been asked for.
pub struct Put<'a> {
    expires_at: &'a mut Option<Millis>,
    memo: &'a mut Memo,
}

/// A transaction that has happened.
#[derive(Debug)]
pub struct Committed<T> {
    /// What the decision returned.
    pub value: T,
    /// The revision of its writes; of the state that it saw, when it wrote nothing.
    pub revision: Revision,
    /// What it changed, in key order; empty when it wrote nothing.
    pub events: Vec<Arc<Event>>,
}

impl Txn {
    /// Writes `value` under `key`.
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Put<'_> {
        self.put_value(key.into(), Value::Known(value.into()))
    }

    /// Writes under `key` a value that contains its own revision. `make` runs while no other transaction can
    /// commit: it should do no more than put the number in its place.
    pub fn put_with(
        &mut self,
        key: impl Into<Bytes>,
        make: impl FnOnce(Revision) -> Bytes + Send + 'static,
    ) -> Put<'_> {
        self.put_value(key.into(), Value::Made(Box::new(make)))
    }

    /// Deletes `key`. Nothing happens if it is not there.
    pub fn delete(&mut self, key: impl Into<Bytes>) {
        self.ops.insert(key.into(), Op::Delete);
    }

    /// Whether nothing has been asked for.
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
    /// The key is to be deleted once [`Store::expire`](crate::Store::expire) is told this time or a later one.
    pub fn expires_at(self, at: Millis) -> Self {
        *self.expires_at = Some(at);
        self
    }

    /// What [`Entry::memo`](crate::Entry::memo) of the new entry will find, so that nobody has to decode what the
    /// writer had in hand.
    pub fn memo<T: Any + Send + Sync>(self, memo: T) -> Self {
        *self.memo = Memo::filled(Box::new(memo));
        self
    }
}
