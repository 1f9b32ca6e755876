//! The consequence of a finished reconcile for its key: controller-runtime's table.

use std::time::Duration;

use super::reconcile::{Action, Requeue};
use crate::error::Error;
use crate::key::Key;
use crate::queue::{Item, Priority, Reason, SourceName, Trigger};

/// When to try again what waits for the election: no failure of its own, so it does not wait longer each time.
const ELECTION: Duration = Duration::from_secs(5);

/// How a reconcile ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Finished(Result<Action, Error>),
    Panicked(String),
    TimedOut(Duration),
}

/// The action of the queue for the key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Forget its failures.
    Done,
    /// Forget its failures and run again after this time.
    After(Duration, Priority),
    /// Run again after its back-off.
    BackOff(Trigger, Priority),
    /// Leave it alone until it changes, failures remembered.
    GiveUp,
}

/// The priority of the present run is kept, unless the reconciler chose another. `lease_over`: this process held the
/// lease and does not any more, so what was not sent for want of it is not sent later either.
pub(super) fn classify(outcome: &Outcome, priority: Priority, lease_over: bool) -> Verdict {
    match outcome {
        Outcome::Finished(Ok(action)) => {
            let priority = action.priority.unwrap_or(priority);
            match action.requeue {
                Requeue::WhenChanged => Verdict::Done,
                Requeue::After(delay) => Verdict::After(delay, priority),
                Requeue::RateLimited => Verdict::BackOff(Trigger::Requeue, priority),
            }
        }
        Outcome::Finished(Err(error)) if error.is_terminal() => Verdict::GiveUp,
        Outcome::Finished(Err(error)) if error.is_not_leader() && lease_over => Verdict::GiveUp,
        Outcome::Finished(Err(error)) if error.is_not_leader() => Verdict::After(ELECTION, priority),
        Outcome::Finished(Err(error)) if error.is_conflict() => Verdict::BackOff(Trigger::Conflict, priority),
        Outcome::Finished(Err(error)) if error.is_stale() => Verdict::BackOff(Trigger::Stale, priority),
        Outcome::Finished(Err(_)) | Outcome::TimedOut(_) => Verdict::BackOff(Trigger::Error, priority),
        Outcome::Panicked(_) => Verdict::BackOff(Trigger::Panic, priority),
    }
}

/// Carries the verdict out. The key must still be with its worker.
pub(super) fn carry_out(item: &Item<Key>, verdict: &Verdict) {
    match verdict {
        Verdict::Done => item.forget(),
        Verdict::After(delay, priority) => {
            item.forget();
            item.add_after(*delay, *priority, Reason::new(SourceName::NONE, Trigger::RequeueAfter));
        }
        Verdict::BackOff(trigger, priority) => {
            item.add_rate_limited(*priority, Reason::new(SourceName::NONE, *trigger));
        }
        Verdict::GiveUp => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ClientError;
    use crate::key::Key;
    use setpoint_api::status::{Reason as StatusReason, Status};

    #[test]
    fn every_outcome_has_its_verdict() {
        let low = Priority::LOW;
        let second = Duration::from_secs(1);
        let finished = |result| classify(&Outcome::Finished(result), low, false);
        assert_eq!(finished(Ok(Action::done())), Verdict::Done);
        assert_eq!(finished(Ok(Action::requeue_after(second))), Verdict::After(second, low));
        let raised = Action::requeue_after(second).with_priority(Priority(7));
        assert_eq!(finished(Ok(raised)), Verdict::After(second, Priority(7)));
        assert_eq!(finished(Ok(Action::requeue())), Verdict::BackOff(Trigger::Requeue, low));
        assert_eq!(finished(Err(Error::msg("x"))), Verdict::BackOff(Trigger::Error, low));
        assert_eq!(finished(Err(Error::terminal("x"))), Verdict::GiveUp);
        let conflict = ClientError::from(Status::failure(409, StatusReason::Conflict, "x"));
        assert_eq!(finished(Err(conflict.into())), Verdict::BackOff(Trigger::Conflict, low));
        let stale = ClientError::Stale { kind: "Pod".into(), key: Key::new(None, "x"), lag: second };
        assert_eq!(finished(Err(stale.into())), Verdict::BackOff(Trigger::Stale, low));
        let not_leader = || Outcome::Finished(Err(ClientError::NotLeader.into()));
        assert_eq!(classify(&not_leader(), low, false), Verdict::After(ELECTION, low), "it may come");
        assert_eq!(classify(&not_leader(), low, true), Verdict::GiveUp);
        assert_eq!(
            classify(&Outcome::Panicked("x".into()), low, true),
            Verdict::BackOff(Trigger::Panic, low)
        );
        assert_eq!(classify(&Outcome::TimedOut(second), low, true), Verdict::BackOff(Trigger::Error, low));
    }
}
