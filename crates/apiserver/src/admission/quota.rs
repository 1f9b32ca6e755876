//! ResourceQuota: what is written fits into the quotas of its namespace, and is charged to them in the same
//! transaction, so that writers at the same time never use more together than there is.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use setpoint_kinds::admission::Plugin;
use setpoint_kinds::quota::{self, QuotaError, Tracked, Write};
use setpoint_kinds::resources;
use setpoint_store::{Entry, KeyRange, Snapshot, Txn};

use super::plugins;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::key;
use crate::registry;
use crate::{managed, object};

const PLURAL: &str = "resourcequotas";

/// Charges what the object uses, or refuses it.
pub(crate) fn charge(
    ctx: &RequestContext,
    now: Timestamp,
    snapshot: &Snapshot,
    txn: &mut Txn,
    object: &Value,
    live: Option<&Value>,
) -> Result<()> {
    if !plugins::is_on(ctx, Plugin::ResourceQuota) {
        return Ok(());
    }
    let resource = &ctx.resource;
    let Some(tracked) = Tracked::of(&resource.group, &resource.plural).filter(|_| resource.namespaced) else {
        return Ok(());
    };
    let subresource = ctx.info.subresource.as_str();
    let write = Write { tracked: &tracked, subresource, object, old: live, now };
    if !write.counts() {
        return Ok(());
    }
    let near = key::object("", PLURAL, &ctx.info.namespace, "");
    let stored: Vec<&Arc<Entry>> = snapshot.range(&KeyRange::prefix(near), None).collect();
    let quotas: Vec<Value> = stored.iter().map(|entry| registry::value(entry)).collect();
    let refused = |error: QuotaError| {
        ApiError::forbidden(&resource.group_resource(), object::name(object), &error.to_string())
    };
    for (place, used) in quota::charge(&write, &quotas).map_err(refused)? {
        let mut charged = quotas[place].clone();
        charged["status"]["used"] = resources::to_json(&used);
        let kind = managed::builtin_kind("", "ResourceQuota");
        managed::by_server(&kind, (PLURAL, "status"), now, Some(&quotas[place]), &mut charged);
        let encoded = object::Encoded::new(&charged);
        txn.put_with(stored[place].key.clone(), move |revision| encoded.at(revision));
    }
    Ok(())
}
