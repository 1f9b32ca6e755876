//! State of one informer: its cache, its handlers and its tasks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use tokio::task::{AbortHandle, JoinSet};

use super::relist::Relists;
use super::shared_mailbox::SharedMailbox;
use crate::informer::cache::{Delta, Event, Scope, Snapshot, Store, Training};
use crate::informer::metrics::InformerMetrics;
use crate::informer::watch::Target;
use crate::latch::Latch;

/// The state that an informer's tasks and its handles share.
pub(crate) struct Core {
    pub(super) target: Target,
    /// The same of whole objects: somebody asked for them before the informer of their metadata was started.
    pub(super) whole: OnceLock<Box<Target>>,
    pub store: Store,
    pub metrics: Arc<InformerMetrics>,
    pub training: Arc<Training>,
    pub relists: Relists,
    /// Held while a change is applied and delivered, so that a late handler gets each change exactly once.
    pub(super) subscribers: Mutex<Vec<Weak<SharedMailbox>>>,
    pub(super) synced: Latch,
    /// The set of namespaces is not known yet, so nothing is complete.
    awaits_namespaces: AtomicBool,
    /// None once the informer has ended.
    pub(super) tasks: Mutex<Option<JoinSet<()>>>,
}

impl Core {
    pub fn new(target: Target, store: Store) -> Self {
        Core {
            target,
            whole: OnceLock::new(),
            training: Arc::new(Training::new(store.base_bytes().clone())),
            store,
            metrics: Arc::default(),
            relists: Relists::default(),
            subscribers: Mutex::default(),
            synced: Latch::default(),
            awaits_namespaces: AtomicBool::new(false),
            tasks: Mutex::new(Some(JoinSet::new())),
        }
    }

    /// The objects that are watched; whole ones once they were asked for in time.
    pub fn target(&self) -> &Target {
        self.whole.get().map_or(&self.target, |whole| whole)
    }

    /// Runs `task` for as long as the informer lives; `None` when it has ended.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
        let mut tasks = self.tasks.lock().expect("no holder of this lock panics");
        let tasks = tasks.as_mut()?;
        // Handlers that were removed meanwhile leave their ended tasks behind.
        while tasks.try_join_next().is_some() {}
        Some(tasks.spawn(task))
    }

    /// Applies changes to the cache, then tells the handlers. Tells whether one of them was a full state.
    pub fn process(&self, scope: &Scope, deltas: impl IntoIterator<Item = Delta>) -> bool {
        let mut subscribers = self.subscribers.lock().expect("no holder of this lock panics");
        let mut events = Vec::new();
        let mut replaced = false;
        let deltas = deltas.into_iter().inspect(|delta| replaced |= matches!(delta, Delta::Replaced { .. }));
        self.store.apply_all(scope, deltas, &mut events);
        let at_once = deliver(&mut subscribers, &events);
        drop(subscribers);
        at_once.iter().for_each(|mailbox| mailbox.handle(&events));
        replaced
    }

    /// Forgets a namespace, with a deletion for each of its objects.
    pub fn forget(&self, scope: &Scope) {
        let mut subscribers = self.subscribers.lock().expect("no holder of this lock panics");
        let events = self.store.remove_scope(scope);
        let at_once = deliver(&mut subscribers, &events);
        drop(subscribers);
        at_once.iter().for_each(|mailbox| mailbox.handle(&events));
    }

    /// Whether nobody holds the subscribers.
    #[cfg(test)]
    pub(super) fn is_free(&self) -> bool {
        self.subscribers.try_lock().is_ok()
    }

    /// Nothing is complete before the namespaces are known.
    pub fn await_namespaces(&self) {
        self.awaits_namespaces.store(true, Ordering::Release);
    }

    /// The namespaces that exist now are all declared.
    pub fn namespaces_known(&self) {
        self.awaits_namespaces.store(false, Ordering::Release);
        self.mark_synced_if_complete();
    }

    /// Tells everyone, once, when every scope has had its first full state.
    pub fn mark_synced_if_complete(&self) {
        if self.awaits_namespaces.load(Ordering::Acquire) || !self.store.all_scopes_synced() {
            return;
        }
        let subscribers = self.subscribers.lock().expect("no holder of this lock panics");
        if !self.synced.set() {
            return;
        }
        self.training.synced();
        for mailbox in subscribers.iter().filter_map(Weak::upgrade) {
            mailbox.mark_upstream_synced();
        }
    }

    /// The cached state, and the end of the events in `mailbox` that tell of it. Nothing comes between the two.
    pub(super) fn begin_resync(&self, mailbox: &SharedMailbox) -> (Snapshot, u64) {
        let _subscribers = self.subscribers.lock().expect("no holder of this lock panics");
        (self.store.snapshot(), mailbox.end())
    }
}

/// Leaves the events with the handlers. Those that it gives back are to handle them at once, which runs code of others:
/// not while the subscribers are locked, or it could neither subscribe nor be slow without holding up everyone.
#[must_use]
fn deliver(subscribers: &mut Vec<Weak<SharedMailbox>>, events: &[Event]) -> Vec<Arc<SharedMailbox>> {
    let mut at_once = Vec::new();
    if events.is_empty() {
        return at_once;
    }
    subscribers.retain(|mailbox| {
        let Some(mailbox) = mailbox.upgrade() else { return false };
        if !mailbox.hand_over(events) {
            at_once.push(mailbox);
        }
        true
    });
    at_once
}
