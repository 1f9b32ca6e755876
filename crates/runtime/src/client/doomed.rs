//! What is known of an object that is deleted, so that no cache shows it afterwards.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;

use super::caches::Declared;
use super::pending::Before;
use super::preconditions::Preconditions;
use super::written::{Written, WrittenMeta};
use crate::informer::Uid;
use crate::key::Key;
use crate::revision::{Revision, parse_revision};

/// What is known of an object that is deleted.
#[derive(Clone)]
pub(super) struct Doomed {
    pub(super) key: Key,
    pub(super) uid: Option<Uid>,
    /// One at which it existed.
    pub(super) revision: Option<Revision>,
    /// Those that it had then.
    labels: Option<BTreeMap<String, String>>,
    /// What the caches had under its key when the deletion was sent, by their number.
    pub(super) before: Vec<Before>,
}

impl Doomed {
    /// Of what the server deletes only if it is this object, in this state.
    pub(super) fn required(key: &Key, required: &Preconditions) -> Self {
        let uid = required.uid.as_deref().map(Uid::new);
        let revision = required.resource_version.as_deref().and_then(parse_revision);
        Doomed { key: key.clone(), uid, revision, labels: None, before: Vec::new() }
    }

    /// A state of the object that is required, as somebody read it.
    pub(super) fn read_as(self, metadata: &ObjectMeta) -> Self {
        let revision = metadata.resource_version.as_deref().and_then(parse_revision);
        Doomed { revision, labels: Some(metadata.labels.clone().unwrap_or_default()), ..self }
    }

    /// With what the server said of it.
    pub(super) fn as_answered(&self, written: Written) -> Self {
        let mut doomed = self.clone();
        let WrittenMeta { uid, resource_version, labels, .. } = written.metadata;
        if let Some(uid) = [uid, written.details.uid].iter().find(|uid| !uid.is_empty()) {
            doomed.uid = Some(Uid::new(uid));
        }
        if let Some(revision) = parse_revision(&resource_version) {
            (doomed.revision, doomed.labels) = (Some(revision), Some(labels.unwrap_or_default()));
        }
        doomed
    }

    /// What the informer had in its place when the deletion was sent.
    pub(super) fn cached_in(&self, declared: &Declared) -> Option<&Uid> {
        let before = self.before.iter().find(|before| before.informer == declared.number);
        before.and_then(|before| before.object.as_ref()).map(|(uid, _)| uid)
    }

    /// Whether the informer surely has it, or had it, or is about to.
    pub(super) fn is_seen_by(&self, declared: &Declared) -> bool {
        match &self.labels {
            Some(labels) => declared.surely_sees(&self.key, labels),
            None => {
                declared.informer.target().labels.is_none()
                    && declared.surely_sees(&self.key, &BTreeMap::new())
            }
        }
    }
}
