//! The running controller: sources feed the queue, workers empty it.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use setpoint_api::{Clock, Random};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::arrivals::{Added, Arrivals};
use super::blocked::Watched;
use super::context::{Context, Inner, woken_by};
use super::outcome::{Outcome, carry_out, classify};
use super::reconcile::DynReconciler;
use super::report::{Reporter, Run};
use super::source::Source;
use crate::client::{Client, HeldInformer, OwnKind, Pending, Pins, Reconciled, Sender};
use crate::error::{ClientError, Error};
use crate::informer::{SharedInformer, missing};
use crate::key::Key;
use crate::leader_clock::LeaderClock;
use crate::log_target::log_as;
use crate::manager::TakenName;
use crate::metrics::Metrics;
use crate::predicate::Predicate;
use crate::queue::{Item, Reasons, WorkQueue};
use crate::recorder::Recorder;

/// How many requests' unseen writes a controller remembers before the map is swept of those that were seen; then again each
/// time that it has doubled.
const UNSEEN_SWEEP: usize = 4096;

/// A controller, ready to run.
pub(crate) struct Work {
    pub(super) name: Arc<str>,
    pub(super) queue: WorkQueue<Key>,
    pub(super) sources: Vec<Source>,
    pub(super) predicates: Vec<Predicate>,
    pub(super) informers: Vec<SharedInformer>,
    /// Held, so that they live as long as this controller.
    #[expect(dead_code, reason = "held for its drop")]
    pub(super) reads: Vec<HeldInformer>,
    /// Sources that are added while it runs.
    pub(super) arrivals: Arc<Arrivals>,
    /// Ends this controller alone.
    pub(super) stop: CancellationToken,
    /// Held, so that no other controller takes the name.
    #[expect(dead_code, reason = "held for its drop")]
    pub(super) taken: TakenName,
    pub(super) reconciler: Arc<dyn DynReconciler>,
    pub(super) client: Client,
    pub(super) recorder: Recorder,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) reporter: Reporter,
    /// The metrics in which its queue is published.
    pub(super) published: Metrics,
    /// Asked before every run, if only the leader runs it.
    pub(super) leader: Option<LeaderClock>,
    /// The manager's, also where every process runs it: its reconciler may have a client that needs the lease.
    pub(super) lease: Option<LeaderClock>,
    pub(super) concurrency: usize,
    pub(super) reconcile_timeout: Option<Duration>,
    pub(super) cache_sync_timeout: Duration,
    /// The manager's: how long running reconciles may take to finish.
    pub(super) grace_period: Duration,
    pub(super) resync: Option<Duration>,
    pub(super) read_your_writes: bool,
    /// The number of the informer of its own kind.
    pub(super) primary: Option<usize>,
    pub(super) own_kind: Option<Arc<OwnKind>>,
    pub(super) unseen: Mutex<HashMap<Key, Vec<Pending>>>,
}

/// The workers of a controller. One stands by at first, and another is started when none does, up to the concurrency:
/// most controllers never need all of theirs, and a process may have hundreds of controllers.
#[derive(Default)]
struct WorkerPool {
    idle: AtomicUsize,
    all_busy: Notify,
}

/// Also where it never ran, or was aborted.
impl Drop for Work {
    fn drop(&mut self) {
        self.end();
    }
}

impl Work {
    /// Runs until `stopping`, then lets the running reconciles finish. Dropping the future aborts them.
    pub(crate) async fn run(self, stopping: CancellationToken) -> Result<(), Error> {
        let work = Arc::new(self);
        let ended = Arc::clone(&work).run_workers(stopping).await;
        work.end();
        ended
    }

    /// Nobody is let in any more, and nothing is told of the queue.
    fn end(&self) {
        self.arrivals.close();
        self.queue.shut_down();
        self.published.queue_ended(&self.name);
    }

    async fn run_workers(self: Arc<Self>, stopping: CancellationToken) -> Result<(), Error> {
        let work = self;
        let stopping = stopping.child_token();
        let mut sources = JoinSet::new();
        let mut synced = Vec::new();
        for source in &work.sources {
            let begun = source.begin(&work.queue, &work.predicates, work.resync);
            sources.spawn(begun.task);
            synced.extend(begun.synced);
        }
        let ready = async {
            for informer in &work.informers {
                informer.wait_synced().await;
            }
            for handle in &synced {
                handle.wait().await;
            }
        };
        tokio::select! {
            biased;
            () = stopping.cancelled() => return Ok(()),
            () = work.stop.cancelled() => return Ok(()),
            ready = tokio::time::timeout(work.cache_sync_timeout, ready) => {
                if ready.is_err() {
                    return Err(work.sync_error());
                }
            }
        }
        log_as!(work.reporter.log_target, info, controller = %work.name, workers = work.concurrency, "starting workers");
        work.reporter.metrics.max_concurrent.set(i64::try_from(work.concurrency).unwrap_or(i64::MAX));
        let pool = Arc::new(WorkerPool::default());
        let mut workers = JoinSet::new();
        workers.spawn(Arc::clone(&work).worker(stopping.clone(), Arc::clone(&pool)));
        loop {
            tokio::select! {
                biased;
                () = work.stop.cancelled(), if !stopping.is_cancelled() => stopping.cancel(),
                added = work.arrivals.next() => {
                    sources.spawn(Arc::clone(&work).listen(added));
                }
                () = pool.all_busy.notified(), if workers.len() < work.concurrency => {
                    workers.spawn(Arc::clone(&work).worker(stopping.clone(), Arc::clone(&pool)));
                }
                ended = workers.join_next() => match ended {
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        let error = work.worker_error(error);
                        log_as!(work.reporter.log_target, error, controller = %work.name, %error, "a worker panicked; the others finish their reconciles");
                        stopping.cancel();
                        let rest = async { while workers.join_next().await.is_some() {} };
                        let _ = tokio::time::timeout(work.grace_period, rest).await;
                        return Err(error);
                    }
                    None => return Ok(()),
                },
            }
            // Watches that were dropped leave their ended tasks behind.
            while sources.try_join_next().is_some() {}
        }
    }

    /// Feeds the queue from a source that was added while the controller runs.
    async fn listen(self: Arc<Self>, added: Added) {
        let Added { source, ends } = added;
        let begun = source.begin(&self.queue, &self.predicates, self.resync);
        tokio::select! {
            biased;
            () = ends.cancelled() => {}
            () = begun.task => {}
        }
    }

    fn sync_error(&self) -> Error {
        Error::msg(format!(
            "controller {}: caches of {} did not sync within {:?}",
            self.name,
            missing(&self.informers),
            self.cache_sync_timeout
        ))
    }

    /// A key may be lost with its worker, and only a new list queues it again: the manager ends rather than go on.
    fn worker_error(&self, error: JoinError) -> Error {
        let panic = error.try_into_panic().map(|panic| panic_message(&*panic));
        let message = panic.unwrap_or_else(|error| error.to_string());
        Error::msg(format!("controller {}: a worker panicked: {message}", self.name))
    }

    async fn worker(self: Arc<Self>, stopping: CancellationToken, pool: Arc<WorkerPool>) {
        let mut stopped = std::pin::pin!(stopping.cancelled());
        loop {
            pool.idle.fetch_add(1, Ordering::Relaxed);
            let item = tokio::select! {
                biased;
                () = &mut stopped => return,
                item = self.queue.get() => item,
            };
            let Some(item) = item else { return };
            if pool.idle.fetch_sub(1, Ordering::Relaxed) == 1 {
                pool.all_busy.notify_one();
            }
            if !self.may_act() {
                return;
            }
            self.reporter.metrics.active.inc();
            // Boxed, so that an idle worker holds no space for a reconcile.
            Box::pin(self.process(&item, &stopping)).await;
            self.reporter.metrics.active.dec();
        }
    }

    /// Whether this process is the leader, or needs not be.
    fn may_act(&self) -> bool {
        self.leader.as_ref().is_none_or(LeaderClock::holds)
    }

    async fn process(&self, item: &Item<Key>, stopping: &CancellationToken) {
        let key = item.key();
        let reconcile_id: Arc<str> = self.random.uid().into();
        let run = Run { item, reconcile_id: &reconcile_id };
        let span = self.reporter.span(run);
        if let Some(woken_by) = woken_by(item.reasons(), &self.client.core.authors) {
            span.record("woken_by", woken_by);
        }
        async {
            let consistent = self.wait_for_own_writes(key).await;
            // The wait may have outlasted the lease.
            if !self.may_act() {
                return;
            }
            if let Err(stale) = consistent {
                self.end_run(run, &Outcome::Finished(Err(stale.into())), Duration::ZERO);
                return;
            }
            let reconciled = self.own_kind.clone().map(|kind| Reconciled { kind, key: key.clone() });
            let sender = Sender { reconcile_id: Arc::clone(&reconcile_id), causes: causes(item.reasons()) };
            let pins = Arc::new(Pins::new(sender, reconciled));
            let context = Context(Arc::new(Inner {
                controller: Arc::clone(&self.name),
                client: self.client.with_pins(Arc::clone(&pins)),
                recorder: self.recorder.clone(),
                clock: self.clock.clone(),
                random: self.random.clone(),
                stopping: stopping.clone(),
                reconcile_id: Arc::clone(&reconcile_id),
                attempt: run.attempt(),
                reasons: *item.reasons(),
                priority: item.priority(),
            }));
            let began = Instant::now();
            let outcome = self.reconcile(&context, key).await;
            let took = began.elapsed();
            self.reporter.metrics.time.observe(took.as_secs_f64());
            self.remember_unseen(key, pins.unseen());
            self.reporter.passed(run, pins.changed_own());
            self.end_run(run, &outcome, took);
        }
        .instrument(span)
        .await;
    }

    fn end_run(&self, run: Run<'_>, outcome: &Outcome, took: Duration) {
        let lease_over = self.lease.as_ref().is_some_and(LeaderClock::is_over);
        let verdict = classify(outcome, run.item.priority(), lease_over);
        self.reporter.ended(run, outcome, &verdict, took);
        carry_out(run.item, &verdict);
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Outcome {
        let watched = Arc::new(Watched {
            controller: Arc::clone(&self.name),
            object: key.clone(),
            reconcile_id: Arc::clone(&context.0.reconcile_id),
            log_target: self.reporter.log_target,
            timeout: self.reconcile_timeout,
            poll: Mutex::default(),
        });
        let running = async {
            let reconcile = self.reconciler.reconcile_boxed(context, key.clone());
            let running = watched.run(AssertUnwindSafe(reconcile).catch_unwind());
            let finished = match self.reconcile_timeout {
                None => running.await,
                Some(timeout) => match tokio::time::timeout(timeout, running).await {
                    Ok(finished) => finished,
                    Err(_) => return Outcome::TimedOut(timeout),
                },
            };
            match finished {
                Ok(result) => Outcome::Finished(result),
                Err(panic) => Outcome::Panicked(panic_message(&*panic)),
            }
        };
        // An author's code may panic before there is a future, and when one is dropped at its end or its timeout. Apart
        // from the polls: a drop that panics while a panic unwinds would end the process.
        let outcome = AssertUnwindSafe(running).catch_unwind().await;
        outcome.unwrap_or_else(|panic| Outcome::Panicked(panic_message(&*panic)))
    }

    /// Does not begin before the caches show what the last reconcile of this object wrote, and what anybody in this
    /// process wrote to the object itself.
    async fn wait_for_own_writes(&self, key: &Key) -> Result<(), ClientError> {
        if !self.read_your_writes {
            return Ok(());
        }
        let unseen = {
            let mut unseen = self.unseen.lock().expect("no holder of this lock panics");
            // Most reconciles wrote nothing: their keys need not be hashed.
            if unseen.is_empty() { None } else { unseen.remove(key) }
        };
        let writes = &self.client.core.writes;
        let own = self.primary.map(|primary| writes.of_key(primary, &key.into()));
        let waited = writes.wait(unseen.iter().flatten().cloned().chain(own.into_iter().flatten())).await;
        if waited.is_err() {
            // The next run waits for them again.
            self.remember_unseen(key, unseen.unwrap_or_default());
        }
        waited
    }

    fn remember_unseen(&self, key: &Key, writes: Vec<Pending>) {
        if writes.is_empty() {
            return;
        }
        let mut unseen = self.unseen.lock().expect("no holder of this lock panics");
        if unseen.len() >= UNSEEN_SWEEP && unseen.len().is_power_of_two() {
            unseen.retain(|_, writes| writes.iter().any(|write| !write.fulfilled()));
        }
        unseen.insert(key.clone(), writes);
    }
}

/// The resourceVersions of the writes that woke a reconcile, as the header lists them.
fn causes(reasons: &Reasons) -> Arc<str> {
    let mut text = String::new();
    for (reason, _) in reasons.iter().filter(|(reason, _)| reason.revision != 0) {
        let comma = if text.is_empty() { "" } else { "," };
        // A text takes everything.
        let _ = write!(text, "{comma}{}", reason.revision);
    }
    text.into()
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
