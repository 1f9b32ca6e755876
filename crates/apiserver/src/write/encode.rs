//! Brings the object into the form in which it is stored.

use serde_json::Value;
use setpoint_kinds::prepare;

use super::change::{Change, State, Write};
use crate::decision::Decision;

pub(super) fn run(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let (resource, subresource) = (write.resource(), write.ctx().info.subresource.as_str());
    let new = &mut change.new;
    if write.delete.is_none() {
        prepare::stored(&resource.stored_kind(), new);
    }
    if let Some(custom) = &resource.custom {
        custom.to_storage(&resource.version, new);
        if subresource == "status" && new.get("status").is_some_and(Value::is_null) {
            new.as_object_mut().map(|fields| fields.remove("status"));
        }
    }
    if write.delete.is_none() && resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        match change.live {
            None => crate::crd::begin(new),
            Some(_) if subresource.is_empty() => crate::crd::note_stored_version(new),
            Some(_) => {}
        }
    }
    Ok(())
}
