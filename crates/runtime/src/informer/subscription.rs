//! One handler's end of an informer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::event::Event;
use super::mailbox::{Mailbox, SubscribeOptions};
use crate::cache::{Snapshot, Store};
use crate::key::Key;
use crate::latch::Latch;

/// A resync more often than this is no resync but a poll.
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// Events that are handed over at once without a mailbox, at most: more of them would hold up the informer.
const AT_ONCE: usize = 16;

/// Handles an event where it comes in, instead of waiting in a mailbox for a task to be run. It must be quick, must not
/// panic and must not call the informer. Not every event comes this way, so their order must not matter to it.
pub(crate) type Direct = Box<dyn Fn(&Event) + Send + Sync>;

/// The events of one informer for one handler, in order. Dropping it ends the subscription.
///
/// What waits is bounded: see [`SubscribeOptions::capacity`].
pub struct Subscription {
    shared: Arc<Postbox>,
    store: Store,
    resync: Option<Resync>,
}

/// Where an informer leaves events for one handler.
pub(super) struct Postbox {
    mailbox: Mutex<Mailbox>,
    direct: Option<Direct>,
    arrived: Notify,
    upstream_synced: AtomicBool,
    closed: AtomicBool,
    synced: Arc<Latch>,
    lag: AtomicU64,
    merged: AtomicU64,
}

struct Resync {
    period: Duration,
    due: Instant,
    /// What is being delivered again, and how far it has got.
    running: Option<(Snapshot, Option<Key>)>,
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
    pub fn new(capacity: usize, direct: Option<Direct>) -> Arc<Self> {
        Arc::new(Postbox {
            mailbox: Mutex::new(Mailbox::new(capacity)),
            direct,
            arrived: Notify::new(),
            upstream_synced: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            synced: Arc::default(),
            lag: AtomicU64::new(0),
            merged: AtomicU64::new(0),
        })
    }

    /// Has the events handled at once if that is quick, or leaves them in the mailbox.
    pub fn hand_over(&self, events: &[Event]) {
        match &self.direct {
            Some(direct) if events.len() <= AT_ONCE && self.lag.load(Ordering::Relaxed) == 0 => {
                events.iter().for_each(direct);
            }
            _ => self.deliver(events.iter().cloned()),
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

    fn count(&self, mailbox: &Mailbox) {
        self.lag.store(mailbox.len() as u64, Ordering::Relaxed);
        self.merged.store(mailbox.merged, Ordering::Relaxed);
    }

    fn take(&self) -> Option<Event> {
        // Read before the mailbox is looked at: whatever was delivered before the mark is then seen below.
        let upstream_synced = self.upstream_synced.load(Ordering::Acquire);
        let mut mailbox = self.mailbox.lock().expect("no holder of this lock panics");
        // The handler asks for more, so it is done with what it got before.
        if upstream_synced && mailbox.initial == 0 {
            self.synced.set();
        }
        let event = mailbox.pop();
        self.count(&mailbox);
        event
    }
}

impl Subscription {
    pub(super) fn new(shared: Arc<Postbox>, store: Store, options: &SubscribeOptions) -> Self {
        let resync = options.resync.map(|period| {
            let period = period.max(SHORTEST_RESYNC);
            Resync { period, due: Instant::now() + period, running: None }
        });
        Subscription { shared, store, resync }
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
        self.shared.take().or_else(|| self.next_resync())
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

    /// The next object to deliver again. Only objects that are still cached as they were when the resync began:
    /// the others have had, or will have, an event of their own.
    fn next_resync(&mut self) -> Option<Event> {
        let resync = self.resync.as_mut()?;
        if resync.running.is_none() && Instant::now() >= resync.due {
            resync.due = Instant::now() + resync.period;
            resync.running = self.shared.synced.is_set().then(|| (self.store.snapshot(), None));
        }
        let (snapshot, last) = resync.running.as_mut()?;
        while let Some(object) = snapshot.after(last.as_ref()).cloned() {
            *last = Some(object.key().clone());
            if self.store.get(object.key().as_str()).is_some_and(|cached| cached.same_state(&object)) {
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
