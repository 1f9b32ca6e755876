//! Built-in admission: fills in fields and refuses writes, in kube-apiserver's order.

pub(crate) mod limits;
pub(crate) mod namespace;
pub(crate) mod quota;
pub(crate) mod service;
mod service_account;
pub(crate) mod webhook;
pub(crate) mod policy;
mod scope;
mod selected;
mod webhook_versions;
mod review;
pub(crate) mod attributes;

use std::sync::Arc;

use serde_json::Value;
use setpoint_api::Random;
use setpoint_kinds::strategy::{self, Lookup};
use setpoint_store::{Entry, KeyRange, Snapshot};

use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::key;
use crate::registry;
pub(crate) use attributes::{Attributes, Operation};

/// The state of the cluster that admission looks up: the snapshot of the transaction.
struct Cluster<'a> {
    snapshot: &'a Snapshot,
}

/// The plural of the kinds that admission looks up: classes, and kinds that only need an `s`.
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

/// Admits a new object. Runs before webhooks see the object, and again after they changed it.
pub(crate) fn create(
    ctx: &RequestContext,
    random: &Random,
    snapshot: &Snapshot,
    object: &mut Value,
) -> Result<()> {
    limits::fill(ctx, snapshot, object, None);
    if ctx.resource.is("", "pods") && ctx.server.options().admission.service_account {
        service_account::admit(ctx, random, snapshot, object)?;
    }
    let cluster = Cluster { snapshot };
    strategy::admit(&ctx.resource.facts, object, &cluster).map_err(ApiError::from)
}

/// Admits a change.
pub(crate) fn update(ctx: &RequestContext, snapshot: &Snapshot, new: &mut Value, live: &Value) {
    limits::fill(ctx, snapshot, new, Some(live));
    if ctx.info.subresource.is_empty() {
        strategy::admit_update(&ctx.resource.facts, new, live);
    }
}
