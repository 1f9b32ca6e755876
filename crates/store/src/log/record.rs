//! Payloads of frames: transactions in a log, entries in a checkpoint.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::varint::{put_bytes, put_number, take_bytes, take_number};
use crate::Revision;
use crate::entry::{Entry, Event, Memo};
use crate::txn::{Op, Value};

const DELETE: u8 = 0;
const PUT: u8 = 1;
const PUT_EXPIRING: u8 = 2;

/// Appends the transactions that `events` came from.
pub(crate) fn put_transactions(out: &mut Vec<u8>, events: &[Arc<Event>]) {
    for transaction in events.chunk_by(|a, b| a.revision == b.revision) {
        put_number(out, transaction[0].revision);
        put_number(out, transaction.len() as u64);
        for event in transaction {
            match &event.new {
                None => {
                    out.push(DELETE);
                    put_bytes(out, &event.key);
                }
                Some(entry) => put_value(out, entry),
            }
        }
    }
}

/// Takes one transaction off the front; `None` when these are not the bytes of one.
pub(crate) fn take_transaction(from: &mut &[u8]) -> Option<(Revision, BTreeMap<Bytes, Op>)> {
    let revision = take_number(from)?;
    let count = take_number(from)?;
    let mut ops = BTreeMap::new();
    for _ in 0..count {
        let (key, op) = take_op(from)?;
        ops.insert(key, op);
    }
    Some((revision, ops))
}

/// Appends an entry with its revisions.
pub(crate) fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    put_number(out, entry.create_revision);
    put_number(out, entry.mod_revision);
    put_value(out, entry);
}

/// Takes an entry with its revisions off the front.
pub(crate) fn take_entry(from: &mut &[u8]) -> Option<Entry> {
    let create_revision = take_number(from)?;
    let mod_revision = take_number(from)?;
    match take_op(from)? {
        (key, Op::Put { value: Value::Known(value), expires_at, memo }) => {
            Some(Entry { key, value, create_revision, mod_revision, expires_at, memo })
        }
        _ => None,
    }
}

fn put_value(out: &mut Vec<u8>, entry: &Entry) {
    out.push(if entry.expires_at.is_some() { PUT_EXPIRING } else { PUT });
    put_bytes(out, &entry.key);
    if let Some(at) = entry.expires_at {
        put_number(out, at);
    }
    put_bytes(out, &entry.value);
}

fn take_op(from: &mut &[u8]) -> Option<(Bytes, Op)> {
    let (&kind, rest) = from.split_first()?;
    *from = rest;
    let key = take_bytes(from)?;
    let expires_at = match kind {
        DELETE => return Some((key, Op::Delete)),
        PUT => None,
        PUT_EXPIRING => Some(take_number(from)?),
        _ => return None,
    };
    let value = Value::Known(take_bytes(from)?);
    Some((key, Op::Put { value, expires_at, memo: Memo::default() }))
}
