//! PersistentVolumes and the claims to them: which belongs to which, what becomes of a volume whose claim is gone, and
//! volumes for claims that ask for new ones.
//!
//! Both sides are written in turn, the volume first: who dies between two writes finds in what is stored how to go on.

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
use setpoint::EventType;

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
/// On a claim or volume: nobody asked for this very other one, a controller chose it.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a claim: the node for whose pod the volume is to be made.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a volume: who made it.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a claim: who is to make its volume, under the present name and the old one.
const STORAGE_PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    kind: EventType,
    reason: &'static str,
    message: String,
}

impl Told {
    fn normal(reason: &'static str, message: impl Into<String>) -> Told {
        Told { kind: EventType::Normal, reason, message: message.into() }
    }

    fn warning(reason: &'static str, message: impl Into<String>) -> Told {
        Told { kind: EventType::Warning, reason, message: message.into() }
    }
}

/// An annotation's value.
pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn name_of(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}
