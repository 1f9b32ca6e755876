//! What is filled in and refused before a write, in kube-apiserver's order.

mod limits;
pub(crate) mod namespace;
pub(crate) mod policy;
mod quota;
pub(crate) mod service;
mod service_account;
pub(crate) mod webhook;

use std::sync::Arc;

use serde_json::Value;
use setpoint_kinds::prepare::{self, Lookup};
use setpoint_store::{Entry, KeyRange, Snapshot, Txn};

use crate::auth::escalation;
use crate::error::{ApiError, Result};
use crate::registry::{self, key};
use crate::write::Writer;

/// What admission looks up, in the state that the transaction sees.
struct Cluster<'a> {
    snapshot: &'a Snapshot,
}

/// The plural of the kinds that admission asks for: classes, and what needs no more than an `s`.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if kind.ends_with('s') { kind + "es" } else { kind + "s" }
}

impl Lookup for Cluster<'_> {
    fn get(&self, group: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = key::object(group, &plural(kind), namespace, name);
        self.snapshot.get(&key).map(|entry| registry::value(&entry))
    }

    fn list(&self, group: &str, kind: &str) -> Vec<Value> {
        let range = KeyRange::prefix(key::resource(group, &plural(kind)));
        let entries: Vec<&Arc<Entry>> = self.snapshot.range(&range, None).collect();
        entries.into_iter().map(|entry| registry::value(entry)).collect()
    }
}

/// Admits a new object: before webhooks see it, and again when they changed it.
pub(crate) fn create(writer: &Writer<'_>, snapshot: &Snapshot, object: &mut Value) -> Result<()> {
    let ctx = writer.ctx;
    if ctx.resource.custom.is_some() {
        return Ok(());
    }
    limits::fill(ctx, snapshot, object, None);
    if ctx.resource.is("", "pods") && ctx.server.options().admission.service_account {
        service_account::admit(ctx, snapshot, object)?;
    }
    let cluster = Cluster { snapshot };
    prepare::admit(&ctx.resource.facts, object, &cluster).map_err(ApiError::from)
}

/// Admits a change.
pub(crate) fn update(writer: &Writer<'_>, snapshot: &Snapshot, new: &mut Value, live: &Value) {
    limits::fill(writer.ctx, snapshot, new, Some(live));
    if writer.ctx.info.subresource.is_empty() {
        prepare::admit_update(&writer.ctx.resource.facts, new, live);
    }
}

/// What is given and refused when webhooks have had their say: before the object is prepared and validated.
pub(crate) fn after_webhooks(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    object: &mut Value,
    live: Option<&Value>,
) -> Result<()> {
    let ctx = writer.ctx;
    if ctx.resource.custom.is_some() || live.is_some() && !ctx.info.subresource.is_empty() {
        return Ok(());
    }
    if ctx.resource.is("", "services") && ctx.info.subresource.is_empty() {
        service::allocate(ctx, snapshot, object, live)?;
    }
    escalation::check(ctx, snapshot, object, live)
}

/// What is refused when the object is prepared and validated. Quotas come last: what is charged to them is written.
pub(crate) fn validate(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    txn: &mut Txn,
    object: &Value,
    live: Option<&Value>,
) -> Result<()> {
    policy::authorize(writer.ctx, snapshot, object, live)?;
    limits::check(writer.ctx, snapshot, object, live)?;
    webhook::written::validate(writer, snapshot, object, live)?;
    quota::charge(writer, snapshot, txn, object, live)
}
