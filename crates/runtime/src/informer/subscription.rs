//! One handler's end of an informer.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::event::Event;
use super::mailbox::{Mailbox, SubscribeOptions};
use super::metrics::InformerMetrics;
use super::shared::Core;
use crate::cache::Snapshot;
use crate::clock::after;
use crate::key::Key;
use crate::latch::Latch;

/// A resync more often than this is no resync but a poll.
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// Of so many events that a handler is told while others wait, one belongs to a resync that is due.
const RESYNC_SHARE: u32 = 4;

/// Events that are handed over at once without a mailbox, at most: more of them would hold up the informer.
const AT_ONCE: usize = 16;

/// Handles an event where it comes in, instead of waiting in a mailbox for a task to be run. It must be quick, since the
/// watch waits for it, and must not panic. Not every event comes this way, so their order must not matter to it.
pub(crate) type Direct = Box<dyn Fn(&Event) + Send + Sync>;

/// The events of one informer for one handler, in order. Dropping it ends the subscription.
///
/// What waits is bounded: see [`SubscribeOptions::capacity`].
pub struct Subscription {
    shared: Arc<Postbox>,
    core: Weak<Core>,
    resync: Option<Resync>,
}

/// Where an informer leaves events for one handler.
pub(super) struct Postbox {
    mailbox: Mutex<Mailbox>,
    direct: Option<Direct>,
    /// How often events are on their way to `direct`.
    at_once: AtomicU32,
    arrived: Notify,
    upstream_synced: AtomicBool,
    closed: AtomicBool,
    synced: Arc<Latch>,
    lag: AtomicU64,
    merged: AtomicU64,
    metrics: Arc<InformerMetrics>,
}

pub(super) struct Resync {
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

/// What is being delivered again.
struct Running {
    snapshot: Snapshot,
    /// How far it has got.
    last: Option<Key>,
    /// Where the events end that tell of the snapshot: nothing is delivered again before it was delivered.
    behind: u64,
    /// Events since the last one that was delivered again.
    since: u32,
}

/// Tells whether a handler has been given everything that was there when it began; cheap to clone.
#[derive(Debug, Clone)]
pub struct SyncHandle(Arc<Latch>);

impl SyncHandle {
    /// Whether the handler has finished with the initial additions.
    pub fn has_synced(&self) -> bool {
        self.0.is_set()
    }

    /// Waits for it. False when the subscription ended before.
    pub async fn wait(&self) -> bool {
        self.0.wait().await
    }
}

/// Numbers of one handler, for metrics. Outlives neither the handler nor the informer.
#[derive(Debug, Clone, Default)]
pub struct HandlerLag {
    /// Events that wait.
    pub waiting: u64,
    /// Events that were merged away since the beginning, because too many waited.
    pub merged: u64,
}

impl Drop for Postbox {
    /// Whoever waits for the handler need not wait any more.
    fn drop(&mut self) {
        self.synced.abandon();
    }
}

impl Postbox {
    pub fn new(capacity: usize, direct: Option<Direct>, metrics: Arc<InformerMetrics>) -> Arc<Self> {
        Arc::new(Postbox {
            mailbox: Mutex::new(Mailbox::new(capacity)),
            direct,
            at_once: AtomicU32::new(0),
            arrived: Notify::new(),
            upstream_synced: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            synced: Arc::default(),
            lag: AtomicU64::new(0),
            merged: AtomicU64::new(0),
            metrics,
        })
    }

    /// Leaves the events in the mailbox. False if that would take longer than to [handle](Postbox::handle) them, which
    /// is then left to the caller.
    pub fn hand_over(&self, events: &[Event]) -> bool {
        if self.direct.is_some() && events.len() <= AT_ONCE && self.lag.load(Ordering::Relaxed) == 0 {
            self.at_once.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.deliver(events.iter().cloned());
        true
    }

    /// Handles events that were not left in the mailbox.
    pub fn handle(&self, events: &[Event]) {
        if let Some(direct) = &self.direct {
            events.iter().for_each(direct);
        }
        self.at_once.fetch_sub(1, Ordering::Release);
        // They may have been the last of the first state.
        if !self.synced.is_set() {
            self.arrived.notify_one();
        }
    }

    pub fn deliver(&self, events: impl IntoIterator<Item = Event>) {
        let mut mailbox = self.mailbox.lock().expect("no holder of this lock panics");
        for event in events {
            mailbox.push(event);
        }
        self.count(&mailbox);
        drop(mailbox);
        self.arrived.notify_one();
    }

    /// From now on an empty mailbox means that the handler has seen everything.
    pub fn mark_upstream_synced(&self) {
        self.upstream_synced.store(true, Ordering::Release);
        self.arrived.notify_one();
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.arrived.notify_one();
    }

    pub fn lag(&self) -> HandlerLag {
        HandlerLag { waiting: self.lag.load(Ordering::Relaxed), merged: self.merged.load(Ordering::Relaxed) }
    }

    /// Where the events end that wait.
    pub fn end(&self) -> u64 {
        self.mailbox.lock().expect("no holder of this lock panics").end()
    }

    /// Whether the handler was given all events up to an [end](Postbox::end).
    fn is_past(&self, end: u64) -> bool {
        self.mailbox.lock().expect("no holder of this lock panics").is_past(end)
    }

    fn count(&self, mailbox: &Mailbox) {
        self.lag.store(mailbox.len() as u64, Ordering::Relaxed);
        let before = self.merged.swap(mailbox.merged, Ordering::Relaxed);
        if mailbox.merged != before {
            self.metrics.handler_merged.add(mailbox.merged - before);
        }
    }

    fn take(&self) -> Option<Event> {
        // Read before the mailbox is looked at: whatever was delivered before the mark is then seen below.
        let upstream_synced = self.upstream_synced.load(Ordering::Acquire);
        let mut mailbox = self.mailbox.lock().expect("no holder of this lock panics");
        // The handler asks for more, so it is done with what it got before.
        if upstream_synced && mailbox.initial == 0 && self.at_once.load(Ordering::Acquire) == 0 {
            self.synced.set();
        }
        let event = mailbox.pop();
        self.count(&mailbox);
        event
    }
}

impl Subscription {
    pub(super) fn new(shared: Arc<Postbox>, core: Weak<Core>, resync: Option<Resync>) -> Self {
        Subscription { shared, core, resync }
    }

    /// The next event; `None` once the informer has stopped and everything was delivered. Asking for the next one
    /// tells that the one before is done with. Cancel safe: no event is lost when the future is dropped.
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

    pub(super) fn postbox(&self) -> Weak<Postbox> {
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
