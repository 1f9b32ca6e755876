//! Brings the object into the form in which it is stored.

use super::change::{Change, State, Write};
use super::strategy;
use crate::decision::Decision;

pub(super) fn run(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let (resource, subresource) = (write.resource(), write.ctx().info.subresource.as_str());
    let new = &mut change.new;
    if write.delete.is_none() {
        setpoint_kinds::strategy::stored(&resource.stored_kind(), new);
    }
    strategy::of(resource).encode(resource, subresource, new);
    if write.delete.is_none() && resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        match change.live {
            None => crate::crd::begin(new),
            Some(_) if subresource.is_empty() => crate::crd::note_stored_version(new),
            Some(_) => {}
        }
    }
    Ok(())
}
