//! Writes without an answer: the server may have acted on them, and nobody knows at which revision.

use kube::core::ApiResource;

use super::expected::Expected;
use super::pending::{EVERYTHING, Pending};
use super::writes::Writes;
use crate::informer::Uid;
use crate::key::Key;

impl Writes {
    /// Notes a write whose answer never came, for each informer that may see it. Only a list that begins from now on shows
    /// what became of it. Without a `key` (a generated name, a collection) every read of the kind waits for that list.
    pub(in crate::client) fn unanswered(&self, resource: &ApiResource, key: Option<&Key>) -> Vec<Pending> {
        let key = key.unwrap_or(&EVERYTHING);
        let seen_by = self.caches.of_kind(resource).into_iter().filter_map(|declared| {
            let epoch = match *key == *EVERYTHING {
                true => 0,
                false => declared.epoch(key.namespace())?,
            };
            // No revision is expected. An earlier write under this key is in the same list.
            let expected = Expected::Seen { uid: Uid::new(""), revision: 0, epoch };
            let relist = Some(declared.informer.relist());
            Some(Pending { relist, ..Pending::new(&declared, key, expected) })
        });
        let unseen: Vec<Pending> = seen_by.collect();
        if !unseen.is_empty() {
            let kind = &resource.kind;
            tracing::debug!(
                kind,
                key = key.as_str(),
                "the server did not answer a write; relisting the kind"
            );
        }
        self.note(unseen)
    }
}
