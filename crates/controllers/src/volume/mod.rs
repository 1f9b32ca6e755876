//! PersistentVolumes and their claims: binds them, reclaims volumes whose claim is gone, and provisions new volumes.
//!
//! Binding writes both sides, the volume first. After a crash between the two writes, the stored objects show how to
//! continue.

mod ephemeral;
mod provision;
mod reconcile;
mod bind;
mod claim;
mod release;
mod trigger;
mod fit;
mod class;
#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint::recorder::EventType;

pub(crate) use bind::claim_ref;
pub(crate) use class::{delays_binding, find as find_class, of_claim as class_of_claim};
pub(crate) use ephemeral::register as register_ephemeral;
pub(crate) use fit::{Place, find, reaches, request_of};
pub use provision::PROVISIONER;
pub(crate) use provision::register as register_provisioner;
pub(crate) use reconcile::register as register_binder;
pub(crate) use trigger::claimed;

/// On a claim: its volume was found, and is not looked for again.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation on a claim or volume: the controller chose the other side, and no user asked for it.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a claim: the node for whose pod the volume is to be made.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a volume: who made it.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Annotation on a claim: its provisioner, under the present name and the old one.
const STORAGE_PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

/// The reason and message of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Notice {
    kind: EventType,
    reason: &'static str,
    message: String,
}

impl Notice {
    fn normal(reason: &'static str, message: impl Into<String>) -> Notice {
        Notice { kind: EventType::Normal, reason, message: message.into() }
    }

    fn warning(reason: &'static str, message: impl Into<String>) -> Notice {
        Notice { kind: EventType::Warning, reason, message: message.into() }
    }
}

/// An annotation's value.
pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn name_of(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}
