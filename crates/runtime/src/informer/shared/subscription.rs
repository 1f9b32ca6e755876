//! One handler's end of an informer.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::core::Core;
use super::mailbox::SubscribeOptions;
use super::shared_mailbox::{Direct, HandlerLag, SharedMailbox, SyncHandle};
use crate::clock::after;
use crate::informer::cache::Event;
use crate::informer::cache::Snapshot;
use crate::key::Key;

/// A resync more often than this is no resync but a poll.
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// One of so many delivered events belongs to a resync that is due, while others wait.
const RESYNC_SHARE: u32 = 4;

/// The events of one informer for one handler, in order. Dropping it ends the subscription.
///
/// The number of waiting events is bounded: see [`SubscribeOptions::capacity`].
pub struct Subscription {
    shared: Arc<SharedMailbox>,
    core: Weak<Core>,
    resync: Option<Resync>,
}

struct Resync {
    period: Duration,
    due: Instant,
    running: Option<Running>,
}

impl Resync {
    pub fn new(options: &SubscribeOptions) -> Option<Self> {
        let period = options.resync?.max(SHORTEST_RESYNC);
        Some(Resync { period, due: after(Instant::now(), period), running: None })
    }
}

/// The resync that is being delivered.
struct Running {
    snapshot: Snapshot,
    /// How far it has got.
    last: Option<Key>,
    /// The end of the events that tell of the snapshot: nothing is delivered again before it was delivered.
    behind: u64,
    /// Events since the last one that was delivered again.
    since: u32,
}

impl Subscription {
    /// Begins a subscription of `core`: the objects that are cached come first, as initial additions.
    pub(super) fn begin(
        core: &Arc<Core>,
        options: &SubscribeOptions,
        direct: Option<Direct>,
    ) -> Subscription {
        let resync = Resync::new(options);
        let mut subscribers = core.subscribers.lock().expect("no holder of this lock panics");
        let mailbox = SharedMailbox::new(options.capacity, direct, core.metrics.clone());
        let present = core.store.snapshot();
        mailbox.deliver(present.iter().map(|object| Event::Add { object: object.clone(), is_initial: true }));
        if core.synced.is_set() {
            mailbox.mark_upstream_synced();
        }
        let subscription = Subscription { shared: mailbox, core: Arc::downgrade(core), resync };
        // Prune dead subscribers here too: an idle kind delivers no events, so a delivery never would.
        subscribers.retain(|mailbox| mailbox.strong_count() > 0);
        subscribers.push(subscription.mailbox());
        subscription
    }

    /// Returns the next event, or `None` once the informer has stopped and everything was delivered. Asking for the next
    /// one tells that the one before is done with.
    ///
    /// Dropping the future loses no event.
    pub async fn recv(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.try_recv() {
                return Some(event);
            }
            if self.shared.closed.load(Ordering::Acquire) {
                return self.shared.take();
            }
            let due = self.resync.as_ref().map(|resync| resync.due);
            tokio::select! {
                biased;
                () = self.shared.arrived.notified() => {}
                () = sleep_until(due) => {}
            }
        }
    }

    /// The next event if one waits.
    pub fn try_recv(&mut self) -> Option<Event> {
        self.begin_resync();
        if self.resync_has_its_turn()
            && let Some(event) = self.next_resync()
        {
            return Some(event);
        }
        let Some(event) = self.shared.take() else { return self.next_resync() };
        if let Some(running) = self.resync.as_mut().and_then(|resync| resync.running.as_mut()) {
            running.since = running.since.saturating_add(1);
        }
        Some(event)
    }

    /// Whether everything that was there when the subscription began has been delivered and done with.
    pub fn has_synced(&self) -> bool {
        self.shared.synced.is_set()
    }

    /// A handle that others can wait on while a task owns the subscription.
    pub fn sync_handle(&self) -> SyncHandle {
        SyncHandle(self.shared.synced.clone())
    }

    /// How far this handler is behind.
    pub fn lag(&self) -> HandlerLag {
        self.shared.lag()
    }

    pub(super) fn mailbox(&self) -> Weak<SharedMailbox> {
        Arc::downgrade(&self.shared)
    }

    /// Begins a resync that is due, however many events wait: a handler that is always behind would never have one.
    fn begin_resync(&mut self) {
        let Some(resync) = self.resync.as_mut().filter(|resync| resync.running.is_none()) else { return };
        let now = Instant::now();
        if now < resync.due {
            return;
        }
        resync.due = after(now, resync.period);
        if let Some(core) = self.core.upgrade().filter(|_| self.shared.synced.is_set()) {
            let (snapshot, behind) = core.begin_resync(&self.shared);
            resync.running = Some(Running { snapshot, last: None, behind, since: 0 });
        }
    }

    /// Whether a resync goes before the events that wait: it must not tell of a state before these do.
    fn resync_has_its_turn(&self) -> bool {
        let running = self.resync.as_ref().and_then(|resync| resync.running.as_ref());
        running
            .is_some_and(|running| running.since >= RESYNC_SHARE - 1 && self.shared.is_past(running.behind))
    }

    /// The next object to deliver again. Only objects that are still cached as they were when the resync began:
    /// the others have had, or will have, an event of their own.
    fn next_resync(&mut self) -> Option<Event> {
        let core = self.core.upgrade()?;
        let resync = self.resync.as_mut()?;
        let running = resync.running.as_mut()?;
        running.since = 0;
        while let Some(object) = running.snapshot.after(running.last.as_ref()).cloned() {
            running.last = Some(object.key().clone());
            if core.store.get(object.key().as_str()).is_some_and(|cached| cached.same_state(&object)) {
                return Some(Event::Update { old: object.clone(), new: object });
            }
        }
        resync.running = None;
        None
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
