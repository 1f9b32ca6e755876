//! What is filled in and refused before a write, in kube-apiserver's order.

pub(crate) mod address;
pub(crate) mod namespace;

use serde_json::Value;
use setpoint_store::{Snapshot, Txn};

use crate::error::Result;
use crate::write::Writer;

/// Admits a new object.
pub(crate) fn create(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    _txn: &mut Txn,
    object: &mut Value,
) -> Result<()> {
    if writer.ask.resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        crate::crd::establish(snapshot, object, writer.now);
    }
    Ok(())
}

/// Admits a change.
pub(crate) fn update(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    _txn: &mut Txn,
    new: &mut Value,
    live: &Value,
) -> Result<()> {
    let definition = writer.ask.resource.is("apiextensions.k8s.io", "customresourcedefinitions");
    if definition && writer.ask.info.subresource.is_empty() && new["spec"] != live["spec"] {
        crate::crd::establish(snapshot, new, writer.now);
    }
    Ok(())
}
