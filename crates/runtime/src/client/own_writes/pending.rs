//! One write of this process, until a cache has shown it.

use std::sync::LazyLock;

use tokio::time::Instant;

use super::expected::Expected;
use crate::client::caches::Declared;
use crate::informer::{SharedInformer, WeakInformer};
use crate::informer::{Snapshot, Uid};
use crate::key::Key;
use crate::revision::Revision;

/// One write that one informer will see. It does not keep the informer: of one that has ended nothing is expected.
#[derive(Clone)]
pub(crate) struct Pending {
    pub(in crate::client) number: usize,
    pub(in crate::client) informer: WeakInformer,
    pub(in crate::client) key: Key,
    pub(in crate::client) expected: Expected,
    /// When it was noted.
    pub(in crate::client) since: Instant,
    /// Somebody waited for it in vain: it is not waited for any more, only looked for.
    pub(in crate::client) overdue: bool,
    /// Fulfilled by the relist with this number, whatever was expected: revisions say nothing of it any more.
    pub(in crate::client) relist: Option<u64>,
}

impl Pending {
    pub(in crate::client) fn new(declared: &Declared, key: &Key, expected: Expected) -> Self {
        let informer = declared.informer.downgrade();
        let since = Instant::now();
        Pending {
            number: declared.number,
            informer,
            key: key.clone(),
            expected,
            since,
            overdue: false,
            relist: None,
        }
    }

    /// All writes that one informer has not seen, as one: its next relist shows them.
    pub(in crate::client) fn of_all(number: usize, informer: &SharedInformer) -> Self {
        Pending {
            number,
            informer: informer.downgrade(),
            key: EVERYTHING.clone(),
            expected: Expected::Seen { uid: Uid::new(""), revision: 0, epoch: 0 },
            since: Instant::now(),
            overdue: false,
            relist: Some(informer.relist()),
        }
    }

    pub(crate) fn fulfilled(&self) -> bool {
        let informer = self.informer.upgrade();
        informer.is_none_or(|informer| self.fulfilled_in(&informer.store().snapshot()))
    }

    pub(in crate::client) fn fulfilled_in(&self, state: &Snapshot) -> bool {
        if self.is_everything() {
            return self.relist.is_some_and(|number| state.relists() >= number);
        }
        // Its namespace is not watched any more: no read is answered from there.
        let Some(progress) = state.progress(self.key.namespace()) else { return true };
        match self.relist {
            Some(number) => progress.relists >= number,
            None => {
                progress.epoch == self.expected.epoch()
                    && self.expected.fulfilled(&progress, state, &self.key)
            }
        }
    }

    /// Whether the server went back to an older state since: the revisions that are expected are those of another past.
    pub(in crate::client) fn is_of_another_epoch(&self, state: &Snapshot) -> bool {
        let progress = state.progress(self.key.namespace());
        self.relist.is_none() && progress.is_some_and(|progress| progress.epoch != self.expected.epoch())
    }

    /// Waits until it is fulfilled, or the server went back; without a deadline of its own.
    pub(in crate::client) async fn seen(&self, informer: &SharedInformer) {
        let store = informer.store();
        loop {
            let changed = store.next_change();
            let state = store.snapshot();
            if self.fulfilled_in(&state) || self.is_of_another_epoch(&state) {
                return;
            }
            changed.await;
        }
    }

    pub(in crate::client) fn is_everything(&self) -> bool {
        self.key == *EVERYTHING
    }

    /// Whether what is true now may cease to be so without another write.
    pub(in crate::client) fn may_come(&self) -> bool {
        self.expected.may_come()
    }

    /// Whether it is the same write, and nothing was expected of it since.
    pub(in crate::client) fn is_same(&self, other: &Pending) -> bool {
        self.expected == other.expected && self.relist == other.relist
    }

    /// Whether it has not come true, or need not stay so.
    pub(in crate::client) fn counts(&self) -> bool {
        self.may_come() || !self.fulfilled()
    }

    pub(in crate::client) fn is_of(&self, key: &Key) -> bool {
        self.key == *key || self.is_everything()
    }

    /// Whether it is in `namespace`, or that is none.
    pub(in crate::client) fn is_within(&self, namespace: Option<&str>) -> bool {
        self.is_everything() || namespace.is_none_or(|namespace| self.key.namespace() == Some(namespace))
    }
}

/// No object has this key, and it sorts before every other.
pub(in crate::client) static EVERYTHING: LazyLock<Key> = LazyLock::new(|| Key::new(None, ""));

/// The state of one cache before a write was sent.
#[derive(Clone)]
pub(in crate::client) struct Before {
    pub(in crate::client) informer: usize,
    /// The revision that the cache had reached.
    pub(in crate::client) revision: Revision,
    /// The object under the key of the write.
    pub(in crate::client) object: Option<(Uid, Revision)>,
}

impl Before {
    /// Whether an answer of this version shows that the server went back: it is older than what the cache had seen, and
    /// not the state that the cache had, which a write that changes nothing answers with.
    pub(in crate::client) fn shows_reset(&self, uid: &Uid, revision: Revision) -> bool {
        revision <= self.revision
            && self.object.as_ref().is_none_or(|(own, at)| own != uid || *at != revision)
    }
}
