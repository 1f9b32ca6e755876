//! The mailbox of one handler, shared by the informer that fills it and the subscription that empties it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::mailbox::Mailbox;
use crate::informer::cache::Event;
use crate::informer::metrics::InformerMetrics;
use crate::latch::Latch;

/// Events that are handed over at once without a mailbox, at most: more of them would hold up the informer.
const AT_ONCE: usize = 16;

/// Handles an event where it comes in, instead of waiting in a mailbox for a task to be run. It must be quick, since the
/// watch waits for it, and must not panic. Not every event comes this way, so their order must not matter to it.
pub(crate) type Direct = Box<dyn Fn(&Event) + Send + Sync>;

/// The place where an informer leaves events for one handler.
pub(super) struct SharedMailbox {
    pub(super) mailbox: Mutex<Mailbox>,
    pub(super) direct: Option<Direct>,
    /// How often events are on their way to `direct`.
    pub(super) at_once: AtomicU32,
    pub(super) arrived: Notify,
    pub(super) upstream_synced: AtomicBool,
    pub(super) closed: AtomicBool,
    pub(super) synced: Arc<Latch>,
    pub(super) lag: AtomicU64,
    pub(super) merged: AtomicU64,
    pub(super) metrics: Arc<InformerMetrics>,
}

/// Tells whether a handler has been given everything that was there when it began; cheap to clone.
#[derive(Debug, Clone)]
pub struct SyncHandle(pub(super) Arc<Latch>);

impl SyncHandle {
    /// Whether the handler has finished with the initial additions.
    pub fn has_synced(&self) -> bool {
        self.0.is_set()
    }

    /// Waits for it. False when the subscription ended before.
    ///
    /// Dropping the future ends the wait and changes nothing.
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

impl Drop for SharedMailbox {
    /// Ends every wait for the handler.
    fn drop(&mut self) {
        self.synced.abandon();
    }
}

impl SharedMailbox {
    pub fn new(capacity: usize, direct: Option<Direct>, metrics: Arc<InformerMetrics>) -> Arc<Self> {
        Arc::new(SharedMailbox {
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

    /// Leaves the events in the mailbox. False if that would take longer than to [handle](SharedMailbox::handle) them, which
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

    /// The end of the events that wait.
    pub fn end(&self) -> u64 {
        self.mailbox.lock().expect("no holder of this lock panics").end()
    }

    /// Whether the handler was given all events up to an [end](SharedMailbox::end).
    pub fn is_past(&self, end: u64) -> bool {
        self.mailbox.lock().expect("no holder of this lock panics").is_past(end)
    }

    fn count(&self, mailbox: &Mailbox) {
        self.lag.store(mailbox.len() as u64, Ordering::Relaxed);
        let before = self.merged.swap(mailbox.merged, Ordering::Relaxed);
        if mailbox.merged != before {
            self.metrics.handler_merged.add(mailbox.merged - before);
        }
    }

    pub fn take(&self) -> Option<Event> {
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
