//! Keeps a sink of deltas in step with one collection on a server: the cache of an informer, or a [`DeltaQueue`].

mod body;
mod decode;
mod lines;
mod machine;
#[cfg(test)]
mod machine_tests;
mod failures;
mod backoff;
mod first_state;
mod options;
mod version;
#[cfg(test)]
mod watch_tests;

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use setpoint_api::Random;
use tokio::time::{Instant, Sleep, timeout};

pub(crate) use backoff::Backoff;
pub use options::ReflectorOptions;

use crate::informer::cache::Delta;
use crate::informer::cache::{Ingest, IngestOptions, Object, ObjectOptions};
use crate::informer::delta_queue::DeltaQueue;
use crate::informer::failure::WatchFailure;
use crate::informer::guard::guarded;
use crate::informer::metrics::InformerMetrics;
use crate::informer::watch::{HeldBack, ListRequest, ListerWatcher, WatchRequest, WatchStream};
use crate::log_target::{LogTarget, log_as};
use failures::Failures;
use lines::Lines;
use machine::{Command, Machine, WatchEvent};

/// Deltas that are handed over as one at most, when the server tells more than that at once.
const BATCH: usize = 64;

/// After a wait as long as this an event is taken to come alone: it is told as fast as can be. What comes sooner is part
/// of a burst, which is read as fast as can be.
const SILENCE: Duration = Duration::from_micros(200);

/// Takes the deltas of a reflector, in order. Informers have a sink that applies them to the cache at once.
pub(crate) trait Sink: Send {
    /// Takes all of `deltas`; may wait until there is room for them.
    fn take(&mut self, deltas: &mut Vec<Delta>) -> impl Future<Output = ()> + Send;

    /// Exchanges an object that was handed over for the same one in a smaller form.
    fn exchange(&mut self, _raw: Object, _packed: Object) {}

    /// Whether the first state has to be the newest one.
    fn begins_with_relist(&mut self) -> bool {
        false
    }

    /// Ready when the newest state is to be asked for, whatever is known.
    fn poll_relist(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// How many deltas wait on the far side.
    fn waiting(&self) -> usize {
        0
    }

    /// Whether nobody wants any more.
    fn is_closed(&self) -> bool {
        false
    }
}

impl Sink for &DeltaQueue {
    async fn take(&mut self, deltas: &mut Vec<Delta>) {
        self.push(deltas.drain(..)).await;
    }

    fn waiting(&self) -> usize {
        self.len()
    }

    fn is_closed(&self) -> bool {
        DeltaQueue::is_closed(self)
    }
}

/// Lists and watches one collection and puts what it learns into a [`DeltaQueue`], for ever.
///
/// It asks for the first state as a stream (WatchList) and falls back to a paged list. A watch that ends is opened
/// again from the last version seen, and so is one that falls silent after it has had bookmarks. The whole state is asked
/// for again when the server no longer has that version or never had it, when it tells things out of order or fails in an
/// unknown way, and when it was away and then says nothing for the whole of a watch. Failures are waited out alone,
/// without holding up any other watch; a panic of the lister-watcher is one of them. One reflector has one request open at
/// a time, so it needs one connection.
// Boxed, because a future that owns a reflector holds the space for it at each step of its way.
pub struct Reflector(Box<State>);

struct State {
    lister_watcher: Arc<dyn ListerWatcher>,
    machine: Machine,
    ingest: Ingest,
    request_deadline: Duration,
    metrics: Arc<InformerMetrics>,
    log_target: LogTarget,
    /// None before the first failure.
    failures: Option<Box<Failures>>,
    /// The name of the objects in logs.
    kind: Option<Box<str>>,
    /// The place where others read the version that was reached, if anyone asked.
    last_version: Option<Arc<Mutex<Option<String>>>>,
}

/// How the reading of a watch ended.
enum End {
    Closed,
    Failed(WatchFailure),
    Next(Command),
}

impl Reflector {
    /// A reflector of what `lister_watcher` gives.
    pub fn new(lister_watcher: Arc<dyn ListerWatcher>, options: ReflectorOptions, random: Random) -> Self {
        let metrics: Arc<InformerMetrics> = Arc::default();
        let ingest = IngestOptions { metrics: Some(metrics.clone()), ..IngestOptions::default() };
        Reflector::with(lister_watcher, options, random, ingest, metrics, None)
    }

    /// Keeps of each object what `options` say.
    #[must_use]
    pub fn objects(mut self, options: ObjectOptions) -> Self {
        let ObjectOptions { field_owners, transform } = options;
        let kind = self.0.kind.as_deref().unwrap_or_default().to_owned();
        let transform = transform.map(|transform| guarded(transform, kind, self.metrics()));
        self.0.ingest = Ingest::new(IngestOptions {
            field_owners,
            transform,
            metadata_only: self.0.lister_watcher.metadata_only(),
            metrics: Some(self.metrics()),
            ..IngestOptions::default()
        });
        self
    }

    /// Its counters.
    pub fn metrics(&self) -> Arc<InformerMetrics> {
        self.0.metrics.clone()
    }

    pub(crate) fn with(
        lister_watcher: Arc<dyn ListerWatcher>,
        options: ReflectorOptions,
        random: Random,
        ingest: IngestOptions,
        metrics: Arc<InformerMetrics>,
        kind: Option<String>,
    ) -> Self {
        let log_target = options.log_target;
        let metadata_only = ingest.metadata_only || lister_watcher.metadata_only();
        let ingest = IngestOptions { metadata_only, ..ingest };
        Reflector(Box::new(State {
            lister_watcher,
            request_deadline: options.request_deadline,
            machine: Machine::new(options, random),
            ingest: Ingest::new(ingest),
            metrics,
            log_target,
            failures: None,
            kind: kind.map(String::into_boxed_str),
            last_version: None,
        }))
    }

    /// The place where the version can be read that was reached last.
    pub(crate) fn last_version(&mut self) -> Arc<Mutex<Option<String>>> {
        self.0.last_version.get_or_insert_default().clone()
    }

    /// Runs until the queue is closed, or the future dropped.
    ///
    /// Dropping the future ends the watch. Deltas that were not appended yet are lost; a new reflector lists again.
    pub async fn run(self, queue: &DeltaQueue) {
        tokio::select! {
            biased;
            () = queue.closed() => {}
            () = self.run_into(queue) => {}
        }
    }

    /// Runs until the sink is closed, or the future dropped.
    pub(crate) fn run_into<S: Sink>(self, sink: S) -> impl Future<Output = ()> + Send + use<S> {
        let Reflector(state) = self;
        run(state, sink)
    }
}

#[expect(clippy::manual_async_fn, reason = "an `async fn` holds the space for its arguments twice")]
fn run<S: Sink>(mut state: Box<State>, mut sink: S) -> impl Future<Output = ()> + Send {
    async move {
        let mut command = match sink.begins_with_relist() {
            true => state.machine.relist(Instant::now()),
            false => state.machine.begin(Instant::now()),
        };
        while !sink.is_closed() {
            // A lister-watcher may be anybody's: one panic must not leave its cache as it is for ever.
            let step = AssertUnwindSafe(state.step(command, &mut sink)).catch_unwind().await;
            command = step.unwrap_or_else(|_| {
                state.metrics.watch_panics.add(1);
                log_as!(
                    state.log_target,
                    error,
                    kind = state.kind.as_deref(),
                    "a watch panicked; restarting it"
                );
                state.machine.panicked(Instant::now())
            });
        }
    }
}

impl State {
    #[expect(clippy::manual_async_fn, reason = "as `run`")]
    fn step<S: Sink>(&mut self, command: Command, sink: &mut S) -> impl Future<Output = Command> + Send {
        async move {
            let request = match command {
                Command::Sleep(delay) => {
                    tokio::time::sleep(delay).await;
                    return self.machine.woke(Instant::now());
                }
                Command::List(request) => return self.list(request, sink).await,
                Command::Watch(request) => request,
            };
            // Not within a match, which would hold the answer for as long as the watch runs.
            let stream = match self.open(request).await {
                Ok(stream) => stream,
                Err(command) => return command,
            };
            self.read(stream, sink).await
        }
    }

    async fn list<S: Sink>(&mut self, request: ListRequest, sink: &mut S) -> Command {
        self.metrics.lists.add(1);
        let page = self.body(request).await.and_then(|body| {
            self.metrics.received_bytes.add(body.len() as u64);
            decode::list_page(&body, &mut self.ingest, || self.metrics.undecodable.add(1))
        });
        match &page {
            Ok(_) => self.note_success("list"),
            Err(failure) => self.note_failure("list", failure),
        }
        let mut deltas = Vec::new();
        let command = self.machine.page(page, Instant::now(), &mut deltas);
        self.hand_over(&mut deltas, sink).await;
        command
    }

    async fn body(&self, request: ListRequest) -> Result<bytes::Bytes, WatchFailure> {
        let begun = Instant::now();
        let answer = timeout(self.request_deadline, self.lister_watcher.list(request)).await;
        let body = answer.unwrap_or(Err(WatchFailure::Deadline(self.request_deadline)))?;
        body::whole(body, begun, self.request_deadline).await
    }

    /// A watch to read, or what to do instead.
    async fn open(&mut self, request: WatchRequest) -> Result<WatchStream, Command> {
        self.metrics.watches.add(1);
        let answer = timeout(self.request_deadline, self.lister_watcher.watch(request)).await;
        let now = Instant::now();
        match answer.unwrap_or(Err(WatchFailure::Deadline(self.request_deadline))) {
            Err(failure) => {
                self.note_failure("watch", &failure);
                let command = self.machine.opened(Err(failure), now);
                Err(command.expect("a watch that did not open is followed by another command"))
            }
            Ok(stream) => {
                self.note_success("watch");
                match self.machine.opened(Ok(()), now) {
                    Some(command) => Err(command),
                    None => Ok(stream),
                }
            }
        }
    }

    async fn read<S: Sink>(&mut self, mut stream: WatchStream, sink: &mut S) -> Command {
        let mut lines = Lines::default();
        let mut deltas = Vec::new();
        let mut connection = HeldBack::default();
        // One for the whole watch: setting and clearing one takes the lock of the runtime's timers.
        let deadline = self.machine.deadline().unwrap_or_else(Instant::now);
        let mut alarm = std::pin::pin!(tokio::time::sleep_until(deadline));
        let mut alone = false;
        let end = loop {
            if alone && !deltas.is_empty() {
                alone = false;
                // Handed over before more is asked for, and whoever was told goes first: the connection would come
                // between them.
                self.hand_over(&mut deltas, sink).await;
                tokio::task::yield_now().await;
            }
            connection.wake();
            // Chunks that are ready together are handed over as one.
            let ready = if deltas.len() < BATCH { stream.next().now_or_never() } else { None };
            let chunk = match ready {
                Some(Some(chunk)) => chunk.map_err(End::Failed),
                Some(None) => Err(End::Closed),
                None => {
                    self.hand_over(&mut deltas, sink).await;
                    if let Some((raw, packed)) = self.ingest.pack() {
                        sink.exchange(raw, packed);
                    }
                    // A watch may be silent for long: what a burst needed is not kept meanwhile.
                    deltas = Vec::new();
                    self.ingest.rest();
                    let begun = Instant::now();
                    // The rest of an event that has begun belongs to it.
                    let silent = || alone || begun.elapsed() >= SILENCE;
                    let chunk = self.chunk(&mut stream, alarm.as_mut(), begun, sink);
                    let (chunk, silent) = connection.during(silent, chunk).await;
                    alone = silent && self.machine.is_watching();
                    chunk
                }
            };
            match chunk {
                Ok(chunk) => {
                    self.ingest.hurry(alone);
                    let read = self.lines(&chunk, &mut lines, &mut deltas);
                    self.ingest.hurry(false);
                    match read {
                        Ok(None) => {}
                        Ok(Some(command)) => break End::Next(command),
                        Err(failure) => break End::Failed(failure),
                    }
                }
                Err(end) => break end,
            }
            // A stream that never runs dry must not keep other tasks of this thread from running.
            tokio::task::coop::consume_budget().await;
        };
        self.hand_over(&mut deltas, sink).await;
        let failure = match end {
            End::Next(command) => return command,
            End::Failed(failure) => Some(failure),
            End::Closed => None,
        };
        if let Some(failure) = &failure {
            // Connections that last long break: the next request will tell whether anything is wrong.
            self.metrics.watch_errors.add(1);
            self.metrics.note_failure(failure);
            log_as!(self.log_target, debug, kind = self.kind.as_deref(), %failure, "the watch connection failed");
        }
        let now = Instant::now();
        self.metrics.short_watches.add(u64::from(self.machine.was_short(now)));
        self.machine.closed(failure.as_ref(), now)
    }

    async fn chunk<S: Sink>(
        &mut self,
        stream: &mut WatchStream,
        mut alarm: Pin<&mut Sleep>,
        begun: Instant,
        sink: &mut S,
    ) -> Result<bytes::Bytes, End> {
        let Some(deadline) = self.machine.deadline() else { return Err(End::Closed) };
        loop {
            // Each line of the server moves the deadline. The alarm is moved only when it rings, not each time.
            if alarm.deadline() > deadline || alarm.is_elapsed() {
                alarm.as_mut().reset(deadline);
            }
            tokio::select! {
                biased;
                chunk = stream.next() => return match chunk {
                    Some(chunk) => chunk.map_err(End::Failed),
                    None => Err(End::Closed),
                },
                () = alarm.as_mut() => if alarm.deadline() >= deadline {
                    return Err(End::Failed(WatchFailure::Deadline(deadline.duration_since(begun))));
                },
                () = std::future::poll_fn(|context| sink.poll_relist(context)) => {
                    tracing::debug!(kind = self.kind.as_deref(), "listing the newest state");
                    return Err(End::Next(self.machine.relist(Instant::now())));
                }
            }
        }
    }

    fn lines(
        &mut self,
        chunk: &[u8],
        lines: &mut Lines,
        deltas: &mut Vec<Delta>,
    ) -> Result<Option<Command>, WatchFailure> {
        let now = Instant::now();
        let mut command = None;
        self.machine.heard(now);
        self.metrics.note_heard(now);
        self.metrics.received_bytes.add(chunk.len() as u64);
        let split = lines.split(chunk, |line| {
            let event = decode::watch_line(line, &mut self.ingest);
            self.metrics.events.add(1);
            match &event {
                WatchEvent::Bookmark { .. } => self.metrics.bookmarks.add(1),
                WatchEvent::Unreadable => self.metrics.undecodable.add(1),
                WatchEvent::Error(failure) => {
                    self.metrics.watch_errors.add(1);
                    tracing::debug!(%failure, "the watch sent an error event");
                }
                _ => {}
            }
            command = self.machine.event(event, now, deltas);
            command.is_none()
        });
        split.map_err(|_| WatchFailure::Transport("an event is longer than any object can be".to_owned()))?;
        Ok(command)
    }

    async fn hand_over<S: Sink>(&mut self, deltas: &mut Vec<Delta>, sink: &mut S) {
        // Also what is no number, which only the version tells.
        if let Some(reached) = &self.last_version {
            *reached.lock().expect("no holder of this lock panics") = self.machine.last_version();
        }
        if deltas.is_empty() {
            return;
        }
        let replaced = deltas.iter().filter(|delta| matches!(delta, Delta::Replaced { .. })).count();
        self.metrics.replaces.add(replaced as u64);
        sink.take(deltas).await;
        self.metrics.queued.set(sink.waiting() as u64);
    }

    fn note_success(&mut self, verb: &'static str) {
        self.metrics.note_success();
        if self.failures.as_mut().is_some_and(|failures| failures.succeeded(verb)) {
            log_as!(self.log_target, info, kind = self.kind.as_deref(), verb, "the requests succeed again");
        }
    }

    fn note_failure(&mut self, verb: &'static str, failure: &WatchFailure) {
        self.metrics.watch_errors.add(1);
        self.metrics.note_failure(failure);
        let told = self.failures.get_or_insert_default().failed(verb, failure, Instant::now());
        let (kind, path) = (self.kind.as_deref(), self.lister_watcher.path());
        match told {
            Some(repeated) => {
                log_as!(self.log_target, warn, kind, verb, path, repeated, %failure, "the request failed; retrying");
            }
            None => log_as!(self.log_target, debug, kind, verb, path, %failure, "the request failed"),
        }
    }
}
