//! The check that a child lives where its owner does.

use serde::Deserialize;

use super::Client;
use super::reconciled::Reconciled;
use super::write::Write;
use crate::error::ClientError;
use crate::informer::Uid;

#[derive(Deserialize)]
struct Body {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    owner_references: Vec<Reference>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

impl Client {
    /// Refuses a child outside of the namespace of the object that it says is its owner: the garbage collector would
    /// delete it, and each of its events would queue a key that does not exist.
    pub(super) fn check_owner(&self, write: &Write<'_>) -> Result<(), ClientError> {
        let Some(reconciled) = self.pins.as_ref().and_then(|pins| pins.reconciled()) else { return Ok(()) };
        let Some(namespace) = reconciled.key.namespace().filter(|_| reconciled.kind.namespaced) else {
            return Ok(());
        };
        if write.namespace == Some(namespace) || !has_owner_references(&write.body) {
            return Ok(());
        }
        let Ok(body) = serde_json::from_slice::<Body>(&write.body) else { return Ok(()) };
        let is_own = |owner: &Reference| {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            owner.kind == reconciled.kind.kind
                && group == reconciled.kind.group
                && owner.name == reconciled.key.name()
                && self.has_uid(reconciled, &owner.uid)
        };
        if !body.metadata.owner_references.iter().any(is_own) {
            return Ok(());
        }
        let (child, owner) = (&write.resource.kind, &reconciled.kind.kind);
        Err(ClientError::BadOwner(match write.namespace {
            Some(other) => format!(
                "the {child} in namespace {other} cannot be owned by the {owner} {}: owners live in the same \
                 namespace or in none",
                reconciled.key
            ),
            None => format!(
                "the {child} lives in no namespace, so the {owner} {} cannot own it: its owners live in none either",
                reconciled.key
            ),
        }))
    }

    /// Whether the cached object of the reconcile has this uid: another one may have its name in another namespace.
    fn has_uid(&self, reconciled: &Reconciled, uid: &str) -> bool {
        let declared = self.core.caches.all();
        let uid = Uid::new(uid);
        let informers = declared.iter().map(|declared| &declared.informer);
        let mut informers = informers.filter(|informer| reconciled.kind.is(&informer.target().resource));
        informers.any(|informer| {
            let cached = informer.store().get(reconciled.key.as_str());
            cached.is_some_and(|cached| *cached.uid() == uid)
        })
    }
}

fn has_owner_references(body: &[u8]) -> bool {
    memchr::memmem::find(body, b"\"ownerReferences\"").is_some()
}
