//! Reflector, queue and processing joined: the controller of client-go's `cache` package.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use setpoint_api::Random;
use tokio::time::Instant;

use crate::informer::cache::Delta;
use crate::informer::delta_queue::DeltaQueue;
use crate::informer::reflector::Reflector;

/// Resyncs come up to this share of their period late, so that many controllers do not come together.
const RESYNC_JITTER: f64 = 0.1;

/// Runs a [`Reflector`] and hands each delta, in order, to a function. What client-go calls `cache.Controller`.
///
/// ```
/// use std::sync::Arc;
/// use setpoint::clock::Random;
/// use setpoint::informer::{Delta, ListerWatcher, Pump, Reflector, ReflectorOptions, Scope, Store};
/// async fn mirror(pods: Arc<dyn ListerWatcher>, random: Random) {
///     let store = Store::default();
///     let reflector = Reflector::new(pods, ReflectorOptions::default(), random.clone());
///     let pump = Pump::new(reflector, random);
///     pump.run(|deltas| {
///         let mut events = Vec::new();
///         store.apply_all(&Scope::All, deltas, &mut events);
///         // Tell whoever listens about `events`.
///     })
///     .await;
/// }
/// ```
pub struct Pump {
    reflector: Mutex<Option<Reflector>>,
    queue: DeltaQueue,
    last_version: Arc<Mutex<Option<String>>>,
    full_resync: Option<Duration>,
    random: Random,
}

impl Pump {
    /// A pump for what `reflector` learns.
    pub fn new(mut reflector: Reflector, random: Random) -> Self {
        Pump {
            last_version: reflector.last_version(),
            reflector: Mutex::new(Some(reflector)),
            queue: DeltaQueue::default(),
            full_resync: None,
            random,
        }
    }

    /// Hands a [`Delta::Sync`] to the function each `period`, plus up to a tenth of it at random: a [`crate::informer::Store`] makes
    /// an update of it for each object. Purely local: the server is not asked.
    #[must_use]
    pub fn full_resync(self, period: Duration) -> Self {
        Pump { full_resync: Some(period), ..self }
    }

    /// Whether the first full state has been processed.
    pub fn has_synced(&self) -> bool {
        self.queue.has_synced()
    }

    /// Waits for it; [`wait_for_cache_sync`](crate::informer::wait_for_cache_sync) waits for several. False when the pump was
    /// stopped before. It must be running meanwhile.
    ///
    /// Dropping the future ends the wait and changes nothing.
    pub async fn wait_synced(&self) -> bool {
        self.queue.wait_synced().await
    }

    /// The resourceVersion that the reflector has reached.
    pub fn last_sync_resource_version(&self) -> Option<String> {
        self.last_version.lock().expect("no holder of this lock panics").clone()
    }

    /// Stops: what was learnt already is still processed, then [`Pump::run`] returns.
    pub fn stop(&self) {
        self.queue.close();
        // A pump that never ran will never sync.
        if self.reflector.lock().expect("no holder of this lock panics").is_some() {
            self.queue.abandon();
        }
    }

    /// Lists, watches and processes until [`Pump::stop`], or until the future is dropped. A second call returns at
    /// once.
    ///
    /// Dropping the future ends the watch; deltas that wait are not processed.
    pub async fn run(&self, mut process: impl FnMut(&mut dyn Iterator<Item = Delta>)) {
        let Some(reflector) = self.reflector.lock().expect("no holder of this lock panics").take() else {
            return;
        };
        let feed = reflector.run(&self.queue);
        let resync = self.resync();
        let drain = async {
            while self.queue.pop(&mut process).await {
                // A full queue must not keep other tasks of this thread from running.
                tokio::task::coop::consume_budget().await;
            }
        };
        tokio::pin!(feed, resync, drain);
        tokio::select! {
            biased;
            () = &mut drain => {}
            () = feed => drain.await,
            () = resync => {}
        }
    }

    async fn resync(&self) {
        let Some(period) = self.full_resync else { return std::future::pending().await };
        loop {
            let due = Instant::now() + period.mul_f64(1.0 + RESYNC_JITTER * self.random.unit());
            tokio::time::sleep_until(due).await;
            self.queue.push([Delta::Sync]).await;
        }
    }
}
