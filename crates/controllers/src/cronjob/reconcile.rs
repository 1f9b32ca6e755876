//! The thin part: reads, cleans up, starts due Jobs, writes events.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use setpoint::{
    Action, ClientError, Context, Controller, DeleteOptions, Error, Key, Manager, NotFoundExt, Reconciler,
    SetupError, Watch,
};
use setpoint_kinds::cron::Schedule;

use super::decide::{Step, Times, decide, next_in};
use super::history::surplus;
use super::observe::{controls, is_active, observe};
use super::template::{job, reference};
use super::{forget, spec, zone};
use crate::children::adopt::{self, children};

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let jobs = adopt::children_informer::<Job>(manager);
    Controller::for_kind::<CronJob>(manager)
        .watches(Watch::of_target(jobs.target().clone()).by_owner())
        .named("cronjob-controller")
        .field_owner(crate::FIELD_OWNER)
        .register(CronJobController::default())?;
    Ok(())
}

/// The schedules as they were last seen, by uid: a new one counts from its next time on, whatever the old one missed.
#[derive(Default)]
struct CronJobController {
    seen: Mutex<HashMap<Key, (String, String)>>,
}

impl Reconciler for CronJobController {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(cron) = client.get::<CronJob>(&key).await? else {
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            return Ok(Action::done());
        };
        let uid = cron.metadata.uid.as_deref().unwrap_or_default();
        let jobs = children::<Job>(client, key.namespace().unwrap_or_default(), uid).await?;
        let mut sync =
            Sync { ctx, cron: &cron, status: cron.status.clone().unwrap_or_default(), changed: false };
        let outcome = sync.run(&jobs, self.is_new(&key, &cron)).await;
        if sync.changed {
            let changed = CronJob { status: Some(sync.status), ..(*cron).clone() };
            client.update_status(&changed).await.ignore_not_found()?;
        }
        Ok(outcome?.map_or(Action::done(), Action::requeue_after))
    }
}

impl CronJobController {
    /// Whether the schedule was another one before.
    fn is_new(&self, key: &Key, cron: &CronJob) -> bool {
        let spec = spec(cron);
        let uid = cron.metadata.uid.clone().unwrap_or_default();
        let schedule = format!("{} {}", spec.time_zone.as_deref().unwrap_or_default(), spec.schedule);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen.insert(key.clone(), (uid.clone(), schedule.clone()));
        before.is_some_and(|before| before.0 == uid && before.1 != schedule)
    }
}

/// One reconcile of a CronJob. The status is changed on the way and written once.
struct Sync<'a> {
    ctx: &'a Context,
    cron: &'a CronJob,
    status: CronJobStatus,
    changed: bool,
}

impl Sync<'_> {
    /// When to look again, if by itself.
    async fn run(&mut self, jobs: &[Arc<Job>], new_schedule: bool) -> Result<Option<Duration>, Error> {
        let jobs: Vec<&Job> = jobs.iter().map(|job| &**job).collect();
        for job in surplus(self.cron, &jobs) {
            // A Job that cannot be deleted is reported, and tried again at the next reconcile.
            let _ = self.delete(job).await;
        }
        let (changed, notices) = observe(&mut self.status, &jobs);
        self.changed |= changed;
        for notice in notices {
            match notice.warning {
                true => self.warn(notice.reason, notice.message),
                false => self.record(notice.reason, notice.message),
            }
        }
        self.forget_missing(&jobs).await?;
        if self.cron.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let Some((schedule, zone)) = self.schedule() else { return Ok(None) };
        let times = Times { schedule: &schedule, zone: &zone };
        if new_schedule {
            return Ok(Some(next_in(self.cron, &self.status, &times, self.ctx.now())));
        }
        self.advance(&times).await
    }

    /// The schedule and its clocks, unless the CronJob is suspended or they cannot be read.
    fn schedule(&self) -> Option<(Schedule, TimeZone)> {
        let spec = spec(self.cron);
        let name = spec.time_zone.as_deref().unwrap_or_default();
        let zone = match zone::named(name) {
            Ok(zone) => zone,
            Err(error) => {
                self.warn("UnknownTimeZone", format!("invalid timeZone: {name:?}: {error}"));
                return None;
            }
        };
        if spec.suspend == Some(true) {
            return None;
        }
        match parse(&spec.schedule, zone) {
            Ok(found) => {
                if spec.schedule.contains("TZ") {
                    self.warn(
                        "UnsupportedSchedule",
                        format!("CRON_TZ or TZ used in schedule {:?} {OWN_ZONE}", spec.schedule),
                    );
                }
                Some(found)
            }
            Err(error) => {
                self.warn(
                    "UnparseableSchedule",
                    format!("unparseable schedule: {:?} : {error}", spec.schedule),
                );
                None
            }
        }
    }

    /// Starts the Job that is due.
    async fn advance(&mut self, times: &Times<'_>) -> Result<Option<Duration>, Error> {
        let decision = match decide(self.cron, &self.status, times, self.ctx.now()) {
            Ok(decision) => decision,
            Err(error) => {
                let schedule = &spec(self.cron).schedule;
                self.warn("InvalidSchedule", format!("invalid schedule: {schedule} : {error}"));
                return Ok(None);
            }
        };
        if decision.many_missed {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.warn("TooManyMissedTimes", message.to_owned());
        }
        match decision.step {
            Step::Wait => {}
            Step::TooLate(at) => {
                let at = at.strftime("%a, %d %b %Y %H:%M:%S +0000");
                self.warn("MissSchedule", format!("Missed scheduled time to start a job: {at}"));
            }
            Step::Forbidden => {
                let message =
                    "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.record("JobAlreadyActive", message.to_owned());
            }
            Step::Start { at, replace } => {
                if replace {
                    self.replace().await?;
                }
                if !self.start(at, times.zone).await? {
                    return Ok(None);
                }
                return Ok(Some(next_in(self.cron, &self.status, times, self.ctx.now())));
            }
        }
        Ok(Some(decision.next))
    }

    /// Whether the Job of this time is on the list now.
    async fn start(&mut self, at: Timestamp, zone: &TimeZone) -> Result<bool, Error> {
        let client = self.ctx.client();
        let wanted = job(self.cron, at, zone);
        let started = match client.create(&wanted).await {
            Ok(job) => {
                self.record("SuccessfulCreate", format!("Created job {}", name_of(&job)));
                job
            }
            // The namespace is being deleted, so nothing can be created in it.
            Err(error) if error.is_namespace_terminating() => return Ok(false),
            // Either this controller created the Job before it was killed, or another writer did. The latter is
            // reported in the status.
            Err(error) if error.is_already_exists() => {
                let found = client.live().get::<Job>(key_of(&wanted)).await?;
                let ours = found.filter(|job| {
                    controls(self.cron, job)
                        && !is_active(&self.status, job.metadata.uid.as_deref().unwrap_or_default())
                });
                let Some(found) = ours else { return Ok(false) };
                found
            }
            Err(error) => {
                self.warn("FailedCreate", format!("Error creating job: {}", error.message()));
                return Err(error.into());
            }
        };
        self.status.active.get_or_insert_default().push(reference(&started));
        self.status.last_schedule_time = Some(Time(at));
        self.changed = true;
        Ok(true)
    }

    /// Deletes what still runs.
    async fn replace(&mut self) -> Result<(), Error> {
        for active in self.status.active.clone().unwrap_or_default() {
            let key = Key::new(active.namespace.as_deref(), active.name.as_deref().unwrap_or_default());
            let job = self.ctx.client().live().get::<Job>(key.clone()).await;
            let job =
                job.inspect_err(|error| self.warn("FailedGet", format!("Get job: {}", error.message())))?;
            match job {
                Some(job) => self.delete(&job).await?,
                None => self.changed |= forget(&mut self.status, active.uid.as_deref().unwrap_or_default()),
            }
        }
        Ok(())
    }

    async fn delete(&mut self, job: &Job) -> Result<(), ClientError> {
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        let options = DeleteOptions::background().uid(uid);
        let deleted = self.ctx.client().delete_with::<Job>(key_of(job), &options).await;
        if let Err(error) = deleted {
            self.warn("FailedDelete", format!("Deleted job: {}", error.message()));
            return Err(error);
        }
        self.changed |= forget(&mut self.status, uid);
        self.record("SuccessfulDelete", format!("Deleted job {}", name_of(job)));
        Ok(())
    }

    /// Removes missing Jobs from the list of active Jobs.
    async fn forget_missing(&mut self, jobs: &[&Job]) -> Result<(), Error> {
        for active in self.status.active.clone().unwrap_or_default() {
            if jobs.iter().any(|job| job.metadata.uid == active.uid) {
                continue;
            }
            let name = active.name.as_deref().unwrap_or_default();
            let key = Key::new(active.namespace.as_deref(), name);
            if self.ctx.client().live().get::<Job>(key).await?.is_none() {
                self.record("MissingJob", format!("Active job went missing: {name}"));
                self.changed |= forget(&mut self.status, active.uid.as_deref().unwrap_or_default());
            }
        }
        Ok(())
    }

    fn record(&self, reason: &str, message: String) {
        self.ctx.recorder().normal(self.cron, reason, message);
    }

    fn warn(&self, reason: &str, message: String) {
        self.ctx.recorder().warning(self.cron, reason, message);
    }
}

const OWN_ZONE: &str = "is not officially supported, see \
    https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";

/// A schedule may bring a zone of its own: objects from before that was refused still do.
fn parse(schedule: &str, zone: TimeZone) -> Result<(Schedule, TimeZone), String> {
    let own = schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ="));
    let zone = match own.and_then(|own| own.split_once(' ')) {
        None => zone,
        Some((name, _)) => {
            zone::named(name).map_err(|error| format!("provided bad location {name}: {error}"))?
        }
    };
    let schedule = Schedule::parse(schedule).map_err(|error| error.to_string())?;
    Ok((schedule, zone))
}

fn name_of(job: &Job) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}

fn key_of(job: &Job) -> Key {
    Key::new(job.metadata.namespace.as_deref(), name_of(job))
}
