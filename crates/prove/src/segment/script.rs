//! The course of a step with a fault: what people, bystanders and the run itself do, in which order.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{Goal, RunError, World};
use crate::bystander::{self, Mark};
use crate::plan::Fault;
use crate::rest::{Unrest, rest};
use crate::state::TWIN;

/// Time for which a restarted operator sees only the past.
const PAST: Duration = Duration::from_secs(2);
/// The end of a part of a run: at rest or not. `None` if the run is a repetition of an earlier one.
pub(super) type Ended = Option<Result<(), Unrest>>;

impl World<'_> {
    /// Does the first step, with what a fault puts before it.
    pub(super) async fn begin(&mut self, first: usize, fault: &Option<Fault>) -> Result<(), RunError> {
        let step = &self.segment.life[first];
        match fault {
            Some(Fault::Swizzle { order }) => {
                order.iter().for_each(|resource| self.wire.hold(resource));
                step.perform(self.cluster.client()).await?;
                self.catch_up(order).await;
                return Ok(());
            }
            Some(Fault::Twin) => {
                bystander::make_namespace(&self.cluster.client(), TWIN).await;
                step.in_namespace(TWIN).perform(self.cluster.client()).await?;
            }
            Some(Fault::Marked { path, condition }) => {
                let mark = Mark { path: path.clone(), condition: *condition };
                mark.again(&self.cluster.client()).await;
                tokio::time::sleep(self.segment.settings.pace.catch_up).await;
            }
            Some(Fault::ClockJump { seconds }) => self.skew.store(*seconds, Ordering::Relaxed),
            _ => {}
        }
        Ok(step.perform(self.cluster.client()).await?)
    }

    async fn catch_up(&self, order: &[String]) {
        for resource in order {
            tokio::time::sleep(self.segment.settings.pace.catch_up).await;
            self.wire.let_go(resource);
        }
    }

    /// Does what follows at rest.
    pub(super) async fn sequel(
        &mut self,
        first: usize,
        last: usize,
        fault: &Fault,
        goal: Option<&Goal<'_>>,
    ) -> Result<Ended, RunError> {
        match fault {
            Fault::SlowDeletion { .. } => {
                let Some(path) = self.wire.kept() else { return Ok(Some(Ok(()))) };
                bystander::let_go(&self.cluster.client(), &path).await;
                self.until_rest((last, last), &None, goal).await
            }
            Fault::Bystander { .. } => {
                self.lost = self.wire.lost();
                Ok(Some(Ok(())))
            }
            Fault::Marked { path, condition } => {
                let mark = Mark { path: path.clone(), condition: *condition };
                self.lost = mark.is_gone(&self.cluster.client()).await.then_some(mark);
                Ok(Some(Ok(())))
            }
            Fault::StaleRestart { commits, order, .. } => {
                if last > first {
                    self.segment.life[last].perform(self.cluster.client()).await?;
                    if let Err(unrest) = self.short_rest().await {
                        return Ok(Some(Err(unrest)));
                    }
                }
                self.restart_in_the_past(*commits, order).await;
                self.until_rest((last, last), &None, goal).await
            }
            Fault::Drift { path, delete, .. } => self.drift(last, path, *delete, goal).await,
            Fault::Idle { hours } => Ok(Some(self.idle(*hours).await)),
            _ => Ok(Some(Ok(()))),
        }
    }

    /// Waits for a short silence. With the whole patience the history that a stale start needs would be forgotten.
    pub(super) async fn short_rest(&self) -> Result<(), Unrest> {
        let settings = self.segment.settings;
        rest(&self.wire, &self.commits, settings.settle, settings, || false).await.map(drop)
    }

    /// Starts the operator on the state after some commits of the step.
    pub(super) async fn restart_in_the_past(&mut self, commits: usize, order: &[String]) {
        let mut revisions: Vec<u64> =
            self.commits.after(self.began).iter().map(|event| event.revision).collect();
        revisions.dedup();
        let view = match commits.checked_sub(1) {
            None => self.began,
            Some(index) => revisions.get(index).copied().unwrap_or(self.began),
        };
        self.kill().await;
        self.wire.look_back(Some(view));
        order.iter().for_each(|resource| self.wire.hold(resource));
        self.free_leases().await;
        self.boot(None);
        self.see_the_past().await;
        self.catch_up(order).await;
        self.wire.look_back(None);
    }

    /// Waits until a restarted operator has seen the past, and has done what it does about it.
    async fn see_the_past(&self) {
        let pace = &self.segment.settings.pace;
        let mut calm = Instant::now();
        let limit = calm + pace.start;
        // A process takes its time to start.
        while pace.real && Instant::now() < limit && calm.elapsed() < pace.settled {
            if self.wire.is_busy() || !self.wire.is_answered() {
                calm = Instant::now();
            }
            tokio::time::sleep(pace.look).await;
        }
        if !pace.real {
            tokio::time::sleep(PAST).await;
        }
    }

    /// Changes a child by hand. An operator that does not watch its children may wait for its next start with the cure.
    async fn drift(
        &mut self,
        last: usize,
        path: &str,
        delete: bool,
        goal: Option<&Goal<'_>>,
    ) -> Result<Ended, RunError> {
        let client = self.cluster.client();
        let changed = if delete {
            bystander::delete(&client, path).await
        } else {
            bystander::edit(&client, path).await
        };
        if !changed {
            return Ok(Some(Ok(())));
        }
        self.wire.strike();
        let ended = self.until_rest((last, last), &None, goal).await?;
        let store = self.store().clone();
        if !matches!(ended, Some(Ok(()))) || goal.is_some_and(|goal| goal.reached(&store)) {
            return Ok(ended);
        }
        self.kill().await;
        self.free_leases().await;
        self.boot(None);
        self.until_rest((last, last), &None, goal).await
    }

    /// Lets time pass. An operator that writes meanwhile is not at rest.
    async fn idle(&mut self, hours: u64) -> Result<(), Unrest> {
        let before = self.store().revision();
        tokio::time::sleep(Duration::from_secs(hours * 3600)).await;
        let written = |sent: &&crate::traffic::Sent| sent.revision.is_some_and(|revision| revision > before);
        let count = self.wire.record().0.iter().filter(written).count();
        if count == 0 { Ok(()) } else { Err(Unrest::Idle { writes: count, hours }) }
    }
}
