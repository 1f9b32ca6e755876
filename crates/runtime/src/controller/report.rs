//! The log lines and metrics of reconciles.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tracing::Span;

use super::hot_loop::HotLoops;
use super::outcome::{Outcome, Verdict};
use crate::error::Error;
use crate::key::Key;
use crate::log_target::{LogTarget, log_as};
use crate::metrics::ControllerMetrics;
use crate::queue::{Item, SourceName};
use crate::repeated::Repeated;

/// The log and the metrics of one controller.
pub(super) struct Reporter {
    pub(super) controller: Arc<str>,
    pub(super) log_target: LogTarget,
    pub(super) metrics: ControllerMetrics,
    /// The name of its own kind among the reasons.
    pub(super) own: SourceName,
    /// Failures that were logged in the last minute.
    failures: Mutex<Repeated<Key>>,
    hot_loops: Mutex<HotLoops>,
}

/// One run of a reconcile.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) item: &'a Item<Key>,
    pub(super) reconcile_id: &'a str,
}

impl Run<'_> {
    pub(super) fn attempt(&self) -> u32 {
        self.item.failures().saturating_add(1)
    }
}

/// The event of a run. The span has these fields too, but a filter of warnings turns the span off.
macro_rules! log {
    ($reporter:ident, $run:ident, $level:ident, $($rest:tt)*) => {
        log_as!($reporter.log_target, $level, controller = %$reporter.controller, object = %$run.item.key(),
            reconcile_id = $run.reconcile_id, $($rest)*)
    };
}

impl Reporter {
    pub(super) fn new(
        controller: &str,
        log_target: LogTarget,
        metrics: ControllerMetrics,
        own: SourceName,
    ) -> Self {
        let (failures, hot_loops) = Default::default();
        Reporter { controller: controller.into(), log_target, metrics, own, failures, hot_loops }
    }

    pub(super) fn span(&self, run: Run<'_>) -> Span {
        log_as!(self.log_target, info_span, "reconcile", controller = %self.controller, object = %run.item.key(),
            reconcile_id = run.reconcile_id, attempt = run.attempt(), reasons = %run.item.reasons(),
            woken_by = tracing::field::Empty)
    }

    pub(super) fn ended(&self, run: Run<'_>, outcome: &Outcome, verdict: &Verdict, took: Duration) {
        let metrics = &self.metrics;
        match outcome {
            Outcome::Finished(Ok(_)) => {
                let (result, counter) = match verdict {
                    Verdict::After(..) => ("requeue_after", &metrics.requeue_after),
                    Verdict::BackOff(..) => ("requeue", &metrics.requeue),
                    Verdict::Done | Verdict::GiveUp => ("success", &metrics.success),
                };
                log!(self, run, debug, result, duration = ?took, "reconcile finished");
                counter.inc();
                return;
            }
            Outcome::Finished(Err(error)) => self.failed(run, error, verdict),
            Outcome::Panicked(message) => {
                metrics.errors.inc();
                metrics.panics.inc();
                match self.untold(run, message) {
                    Some(repeated) => {
                        log!(self, run, error, panic = %message, repeated, "reconcile panicked")
                    }
                    None => log!(self, run, debug, panic = %message, "reconcile panicked again"),
                }
            }
            Outcome::TimedOut(after) => {
                metrics.errors.inc();
                metrics.timeouts.inc();
                match self.untold(run, "timeout") {
                    Some(repeated) => log!(self, run, error, ?after, repeated, "reconcile timed out"),
                    None => log!(self, run, debug, ?after, "reconcile timed out again"),
                }
            }
        }
        metrics.error.inc();
    }

    fn failed(&self, run: Run<'_>, error: &Error, verdict: &Verdict) {
        let metrics = &self.metrics;
        let terminal = error.is_terminal();
        if !terminal && error.is_conflict() {
            log!(self, run, debug, %error, "somebody else wrote first; trying again");
            metrics.conflicts.inc();
        } else if !terminal && error.is_stale() {
            log!(self, run, debug, %error, "not run on a cache that is behind; trying again");
            metrics.stale.inc();
        } else if !terminal && error.is_not_leader() {
            let again = *verdict != Verdict::GiveUp;
            log!(self, run, debug, %error, again, "this process does not lead");
        } else {
            metrics.errors.inc();
            if terminal {
                metrics.terminal_errors.inc();
            }
            let attempt = run.attempt();
            match self.untold(run, &error.to_string()) {
                Some(repeated) => {
                    log!(self, run, error, %error, terminal, attempt, repeated, "reconcile failed")
                }
                None => log!(self, run, debug, %error, terminal, attempt, "reconcile failed again"),
            }
        }
    }

    /// How often this failure of the object was not told since it was told last; `None` if it is to stay untold now.
    fn untold(&self, run: Run<'_>, failure: &str) -> Option<u64> {
        let mut failures = self.failures.lock().expect("no holder of this lock panics");
        failures.failed(run.item.key().clone(), failure, Instant::now())
    }

    /// Warns of an object whose passes wake each other. `changed`: this one changed the object.
    pub(super) fn passed(&self, run: Run<'_>, changed: bool) {
        let (key, reasons) = (run.item.key(), run.item.reasons());
        let mut loops = self.hot_loops.lock().expect("no holder of this lock panics");
        let passes = loops.passed(key, reasons, self.own, changed, Instant::now());
        drop(loops);
        if let Some(passes) = passes.filter(|_| self.untold(run, "hot loop").is_some()) {
            log!(
                self,
                run,
                warn,
                passes,
                "each pass changes its own object and wakes the next one: write the status only when it differs"
            );
        }
    }
}
