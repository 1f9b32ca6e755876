//! Keeps a queue of deltas in step with one collection on a server.

mod backoff;
mod decode;
mod lines;
mod machine;
#[cfg(test)]
mod machine_tests;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use setpoint_api::Random;
use tokio::time::{Instant, timeout};

pub use machine::ReflectorOptions;

use crate::cache::{Ingest, IngestOptions};
use crate::delta::{Delta, DeltaQueue};
use crate::informer::InformerMetrics;
use crate::watch::{ListRequest, ListerWatcher, WatchFailure, WatchRequest, WatchStream};
use lines::Lines;
use machine::{Command, Machine, WatchEvent};

/// Lists and watches one collection and puts what it learns into a [`DeltaQueue`], for ever.
///
/// It asks for the first state as a stream (WatchList) and falls back to a paged list. A watch that ends is opened
/// again from the last version seen; only a version that the server no longer has makes it ask for the whole state
/// again. Failures are waited out alone, without holding up any other watch. One reflector has one request open at
/// a time, so it needs one connection.
pub struct Reflector {
    lister_watcher: Arc<dyn ListerWatcher>,
    // Boxed, because a future that owns a reflector holds the space for it at each step of its way.
    machine: Box<Machine>,
    ingest: Box<Ingest>,
    request_deadline: Duration,
    metrics: Arc<InformerMetrics>,
    last_version: Arc<Mutex<Option<String>>>,
}

impl Reflector {
    /// A reflector of what `lister_watcher` gives.
    pub fn new(lister_watcher: Arc<dyn ListerWatcher>, options: ReflectorOptions, random: Random) -> Self {
        Reflector::with(lister_watcher, options, random, IngestOptions::default(), Arc::default())
    }

    pub(crate) fn with(
        lister_watcher: Arc<dyn ListerWatcher>,
        options: ReflectorOptions,
        random: Random,
        ingest: IngestOptions,
        metrics: Arc<InformerMetrics>,
    ) -> Self {
        Reflector {
            lister_watcher,
            request_deadline: options.request_deadline,
            machine: Box::new(Machine::new(options, random)),
            ingest: Box::new(Ingest::new(ingest)),
            metrics,
            last_version: Arc::default(),
        }
    }

    /// Where the version can be read that was reached last.
    pub(crate) fn last_version(&self) -> Arc<Mutex<Option<String>>> {
        self.last_version.clone()
    }

    /// Runs until the queue is closed, or the future dropped.
    pub async fn run(mut self, queue: &DeltaQueue) {
        let mut command = self.machine.begin(Instant::now());
        while !queue.is_closed() {
            command = match command {
                Command::Sleep(delay) => {
                    tokio::time::sleep(delay).await;
                    self.machine.woke(Instant::now())
                }
                Command::List(request) => self.list(request, queue).await,
                Command::Watch(request) => self.watch(request, queue).await,
            };
        }
    }

    async fn list(&mut self, request: ListRequest, queue: &DeltaQueue) -> Command {
        self.metrics.lists.add(1);
        let answer = timeout(self.request_deadline, self.lister_watcher.list(request)).await;
        let page = answer.unwrap_or(Err(WatchFailure::Deadline(self.request_deadline))).and_then(|body| {
            self.metrics.received_bytes.add(body.len() as u64);
            decode::list_page(&body, &mut self.ingest, || self.metrics.undecodable.add(1))
        });
        if let Err(failure) = &page {
            self.note_failure("list", failure);
        }
        let mut deltas = Vec::new();
        let command = self.machine.page(page, Instant::now(), &mut deltas);
        self.hand_over(&mut deltas, queue).await;
        command
    }

    async fn watch(&mut self, request: WatchRequest, queue: &DeltaQueue) -> Command {
        self.metrics.watches.add(1);
        let answer = timeout(self.request_deadline, self.lister_watcher.watch(request)).await;
        let answer = answer.unwrap_or(Err(WatchFailure::Deadline(self.request_deadline)));
        if let Err(failure) = &answer {
            self.note_failure("watch", failure);
        }
        match answer {
            Err(failure) => {
                let command = self.machine.opened(Err(failure), Instant::now());
                command.expect("a watch that did not open is followed by another command")
            }
            Ok(stream) => match self.machine.opened(Ok(()), Instant::now()) {
                Some(command) => command,
                None => self.read(stream, queue).await,
            },
        }
    }

    async fn read(&mut self, mut stream: WatchStream, queue: &DeltaQueue) -> Command {
        let mut lines = Lines::default();
        let mut deltas = Vec::new();
        loop {
            let failure = match self.chunk(&mut stream).await {
                Ok(Some(chunk)) => {
                    let command = self.lines(&chunk, &mut lines, &mut deltas);
                    self.hand_over(&mut deltas, queue).await;
                    // A stream that never runs dry must not keep other tasks of this thread from running.
                    tokio::task::coop::consume_budget().await;
                    match command {
                        Ok(None) => continue,
                        Ok(Some(command)) => return command,
                        Err(failure) => Some(failure),
                    }
                }
                Ok(None) => None,
                Err(failure) => Some(failure),
            };
            if let Some(failure) = &failure {
                self.note_failure("watch", failure);
            }
            let now = Instant::now();
            self.metrics.short_watches.add(u64::from(self.machine.was_short(now)));
            return self.machine.closed(failure.as_ref(), now);
        }
    }

    async fn chunk(&mut self, stream: &mut WatchStream) -> Result<Option<bytes::Bytes>, WatchFailure> {
        let Some(deadline) = self.machine.deadline() else { return Ok(None) };
        let begun = Instant::now();
        match tokio::time::timeout_at(deadline, stream.next()).await {
            Ok(Some(chunk)) => chunk.map(Some),
            Ok(None) => Ok(None),
            Err(_) => Err(WatchFailure::Deadline(deadline.duration_since(begun))),
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
                    tracing::debug!(%failure, "the watch told an error");
                }
                _ => {}
            }
            command = self.machine.event(event, now, deltas);
            command.is_none()
        });
        split.map_err(|_| WatchFailure::Transport("an event is longer than any object can be".to_owned()))?;
        Ok(command)
    }

    async fn hand_over(&mut self, deltas: &mut Vec<Delta>, queue: &DeltaQueue) {
        if deltas.is_empty() {
            return;
        }
        let replaced = deltas.iter().filter(|delta| matches!(delta, Delta::Replaced { .. })).count();
        self.metrics.replaces.add(replaced as u64);
        *self.last_version.lock().expect("no holder of this lock panics") = self.machine.last_version();
        queue.push(deltas.drain(..)).await;
        self.metrics.queued.set(queue.len() as u64);
    }

    fn note_failure(&self, verb: &'static str, failure: &WatchFailure) {
        self.metrics.watch_errors.add(1);
        tracing::debug!(verb, %failure, "the request failed");
    }
}
