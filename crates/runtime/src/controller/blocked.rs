//! Reconciles that block their thread: everything else on that thread waits meanwhile, timers and the lease too.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::key::Key;
use crate::log_target::{LogTarget, log_as};

/// How long one poll may take where the controller has no reconcile timeout.
const LONGEST: Duration = Duration::from_secs(10);
/// How long after the timeout a reconcile is taken to block its thread: one that does not has been dropped by then.
const SLACK: Duration = Duration::from_millis(100);

/// One reconcile, and whether it is being polled.
pub(super) struct Watched {
    pub(super) controller: Arc<str>,
    pub(super) object: Key,
    pub(super) reconcile_id: Arc<str>,
    pub(super) log_target: LogTarget,
    pub(super) timeout: Option<Duration>,
    pub(super) poll: Mutex<Poll>,
}

#[derive(Default)]
pub(super) struct Poll {
    since: Option<Instant>,
    told: bool,
}

impl Watched {
    /// Runs a reconcile and warns if one of its polls outlasts the timeout: while it does, if another thread is there to
    /// notice, or afterwards.
    ///
    /// Dropping the future drops the reconcile.
    pub(super) async fn run<T>(self: &Arc<Self>, reconcile: impl Future<Output = T>) -> T {
        let mut reconcile = pin!(reconcile);
        let mut watchdog = JoinSet::new();
        if let Some(timeout) = self.timeout {
            watchdog.spawn(Arc::clone(self).watch(timeout));
        }
        std::future::poll_fn(|context| {
            self.lock().since = Some(Instant::now());
            let polled = reconcile.as_mut().poll(context);
            let mut poll = self.lock();
            let took = poll.since.take().map(|since| since.elapsed()).unwrap_or_default();
            if took > self.timeout.unwrap_or(LONGEST) {
                self.tell(&mut poll, took);
            }
            polled
        })
        .await
    }

    async fn watch(self: Arc<Self>, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        tokio::time::sleep_until(deadline + SLACK).await;
        let mut poll = self.lock();
        if let Some(since) = poll.since.filter(|since| *since < deadline) {
            self.tell(&mut poll, since.elapsed());
        }
    }

    fn tell(&self, poll: &mut Poll, took: Duration) {
        if std::mem::replace(&mut poll.told, true) {
            return;
        }
        log_as!(self.log_target, warn, controller = %self.controller, object = %self.object,
            reconcile_id = &*self.reconcile_id, ?took,
            "the reconcile blocks its thread: use async calls, or tokio::task::spawn_blocking");
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Poll> {
        self.poll.lock().expect("no holder of this lock panics")
    }
}
