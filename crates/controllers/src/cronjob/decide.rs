//! Whether a Job is to be started now, and when to look again.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus};
use setpoint_kinds::cron::Schedule;

use super::spec;
use super::template::job_name;

/// Clocks differ a little: a look that comes too early would find nothing to do.
const LATE: SignedDuration = SignedDuration::from_millis(100);
/// More missed times than these are worth a warning.
const MANY: i64 = 100;

/// A schedule whose times do not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub struct NeverComes;

/// The next actions for a CronJob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub step: Step,
    /// Very many times were missed.
    pub many_missed: bool,
    /// When to look again.
    pub next: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// No time is due.
    Wait,
    /// This time was due, and its deadline has passed.
    TooLate(Timestamp),
    /// Something is due and must not run beside what still runs.
    Forbidden,
    /// This time is due. Active Jobs are deleted first if the policy is to replace them.
    Start { at: Timestamp, replace: bool },
}

/// When the schedule was due, on whose clocks.
pub struct Times<'a> {
    pub schedule: &'a Schedule,
    pub zone: &'a TimeZone,
}

impl Times<'_> {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next(after, self.zone)
    }
}

/// Decides.
pub fn decide(
    cron: &CronJob,
    status: &CronJobStatus,
    times: &Times<'_>,
    now: Timestamp,
) -> Result<Decision, NeverComes> {
    let spec = spec(cron);
    let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    let since = last(cron, status);
    let earliest =
        deadline.and_then(|deadline| now.checked_sub(deadline).ok()).map_or(since, |line| since.max(line));
    let recent = recent(earliest, times, now)?;
    let decision =
        |step| Decision { step, many_missed: recent.missed > MANY, next: next_in(cron, status, times, now) };
    let Some(at) = recent.latest else {
        return Ok(Decision { many_missed: false, ..decision(Step::Wait) });
    };
    let active = status.active.as_deref().unwrap_or_default();
    let started = status.last_schedule_time.as_ref().is_some_and(|last| last.0 == at)
        || active.iter().any(|job| job.name.as_deref() == Some(&job_name(cron, at)));
    let too_late = deadline.is_some_and(|deadline| at + deadline < now);
    let policy = spec.concurrency_policy.as_deref();
    Ok(decision(if too_late {
        Step::TooLate(at)
    } else if started {
        Step::Wait
    } else if policy == Some("Forbid") && !active.is_empty() {
        Step::Forbidden
    } else {
        Step::Start { at, replace: policy == Some("Replace") }
    }))
}

/// Returns the time since which schedule times may have been missed.
fn last(cron: &CronJob, status: &CronJobStatus) -> Timestamp {
    let created = cron.metadata.creation_timestamp.as_ref();
    status.last_schedule_time.as_ref().or(created).map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// The last time that is due, and about how many there were.
#[derive(Debug, Clone, Copy, Default)]
struct Recent {
    latest: Option<Timestamp>,
    missed: i64,
}

/// Times since `earliest`. The number is that of the first interval in the time that has passed: schedules may be
/// irregular, and to list all would take forever where a clock is decades off.
fn recent(earliest: Timestamp, times: &Times<'_>, now: Timestamp) -> Result<Recent, NeverComes> {
    let first = times.next(earliest).ok_or(NeverComes)?;
    if now < first {
        return Ok(Recent::default());
    }
    let second = times.next(first).ok_or(NeverComes)?;
    if now < second {
        return Ok(Recent { latest: Some(first), missed: 0 });
    }
    let interval = second.duration_since(first).as_secs();
    if interval < 1 {
        return Err(NeverComes);
    }
    let missed = now.duration_since(first).as_secs() / interval + 1;
    // One interval earlier, for the last ones may be shorter than the first.
    let from = first + SignedDuration::from_secs((missed - 2) * interval);
    let mut latest = None;
    let mut next = times.next(from);
    while let Some(time) = next.filter(|time| *time <= now) {
        latest = Some(time);
        next = times.next(time);
    }
    Ok(Recent { latest, missed })
}

/// Returns the time until the next schedule time.
pub fn next_in(cron: &CronJob, status: &CronJobStatus, times: &Times<'_>, now: Timestamp) -> Duration {
    let since = last(cron, status);
    let from = match recent(since, times, now) {
        Err(NeverComes) => now,
        Ok(Recent { latest: Some(latest), .. }) => latest,
        Ok(Recent { missed: 0, .. }) => since,
        Ok(_) => now,
    };
    let left = times.next(from).map(|next| (next + LATE).duration_since(now));
    left.and_then(|left| Duration::try_from(left).ok()).unwrap_or_default()
}
