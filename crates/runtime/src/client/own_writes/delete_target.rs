//! The object of a deletion, as far as it is known: no cache may show it afterwards.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;

use super::pending::Before;
use super::written::{Written, WrittenMeta};
use crate::client::caches::Declared;
use crate::client::preconditions::Preconditions;
use crate::informer::Uid;
use crate::key::Key;
use crate::revision::{Revision, parse_revision};

/// The object of a deletion, as far as it is known.
#[derive(Clone)]
pub(in crate::client) struct DeleteTarget {
    pub(in crate::client) key: Key,
    pub(in crate::client) uid: Option<Uid>,
    /// One at which it existed.
    pub(in crate::client) revision: Option<Revision>,
    /// Those that it had then.
    labels: Option<BTreeMap<String, String>>,
    /// The objects that the caches had under its key when the deletion was sent.
    pub(in crate::client) before: Vec<Before>,
}

impl DeleteTarget {
    /// The target of a deletion with these preconditions.
    pub(in crate::client) fn required(key: &Key, required: &Preconditions) -> Self {
        let uid = required.uid.as_deref().map(Uid::new);
        let revision = required.resource_version.as_deref().and_then(parse_revision);
        DeleteTarget { key: key.clone(), uid, revision, labels: None, before: Vec::new() }
    }

    /// A state of the object that is required, as somebody read it.
    pub(in crate::client) fn read_as(self, metadata: &ObjectMeta) -> Self {
        let revision = metadata.resource_version.as_deref().and_then(parse_revision);
        DeleteTarget { revision, labels: Some(metadata.labels.clone().unwrap_or_default()), ..self }
    }

    /// The same, with all that the answer says about it.
    pub(in crate::client) fn as_answered(&self, written: Written) -> Self {
        let mut target = self.clone();
        let WrittenMeta { uid, resource_version, labels, .. } = written.metadata;
        if let Some(uid) = [uid, written.details.uid].iter().find(|uid| !uid.is_empty()) {
            target.uid = Some(Uid::new(uid));
        }
        if let Some(revision) = parse_revision(&resource_version) {
            (target.revision, target.labels) = (Some(revision), Some(labels.unwrap_or_default()));
        }
        target
    }

    /// The object that the informer had in its place when the deletion was sent.
    pub(in crate::client) fn cached_in(&self, declared: &Declared) -> Option<&Uid> {
        let before = self.before.iter().find(|before| before.informer == declared.number);
        before.and_then(|before| before.object.as_ref()).map(|(uid, _)| uid)
    }

    /// Whether the informer surely has it, or had it, or is about to.
    pub(in crate::client) fn is_seen_by(&self, declared: &Declared) -> bool {
        match &self.labels {
            Some(labels) => declared.surely_sees(&self.key, labels),
            None => {
                declared.informer.target().labels.is_none()
                    && declared.surely_sees(&self.key, &BTreeMap::new())
            }
        }
    }
}
