//! The thin part: read, evaluate, create or delete pods, count, tell.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use setpoint::{
    Action, Client, ClientError, Context, Controller, DeleteOptions, Error, Key, Manager, NotFoundExt,
    Reconciler, SetupError, Watch,
};

use super::backoff::Record;
use super::condition::COMPLETE;
use super::evaluate::{Evaluation, View, evaluate};
use super::manage::{Create, Plan, manage};
use super::release::{key_of, release};
use super::status_update::{Counts, update_status};
use super::tracked::{FINALIZER, uid};
use super::{condition, int, is_foreign, orphan, spec, template, track};
use crate::children::adopt::{self, Owner, children_and_orphans};
use crate::children::claim::{Claimant, controller_reference};
use crate::children::trigger::Owners;
use crate::object::pod::is_ready;
use crate::object::selector;
use crate::replicaset::slow_start;

/// Number of Jobs that are reconciled in parallel.
const CONCURRENCY: usize = 8;

/// Registers the controller, and the one that frees pods whose Job is gone.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let pods = adopt::children_informer::<Pod>(manager);
    let lister = adopt::children_informer::<Job>(manager).lister();
    let jobs = Owners { lister, selector: |job| spec(job).selector.as_ref().map(Cow::Borrowed) };
    Controller::for_kind::<Job>(manager)
        .watches(Watch::of_target(pods.target().clone()).map_changes(move |change| jobs.of_child(change)))
        .named("job-controller")
        .field_owner(crate::FIELD_OWNER)
        .concurrency(CONCURRENCY)
        .register(JobController::default())?;
    orphan::register(manager)
}

/// The recorded failures of active Jobs, by uid.
#[derive(Default)]
struct JobController {
    records: Mutex<HashMap<Key, (String, Record)>>,
}

impl Reconciler for JobController {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let job = client.get::<Job>(&key).await?;
        let Some(job) = job.filter(|job| condition::finished(job).is_none() && !is_foreign(job)) else {
            self.records.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            return Ok(Action::done());
        };
        let mode = spec(&job).completion_mode.as_deref().unwrap_or("NonIndexed");
        if !matches!(mode, "NonIndexed" | "Indexed") {
            let message = "Skipped Job sync because completion mode is unknown";
            ctx.recorder().warning(&*job, "UnknownCompletionMode", message);
            return Ok(Action::done());
        }
        let pods = claimed(client, &key, &job).await?;
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let record = self.record(&key, job_uid(&job));
        let view = View { job: &job, pods: &pods, record, now: ctx.now() };
        let mut evaluation = evaluate(&view);
        let managed = Managed::of(ctx, &view, &mut evaluation).await;
        let update = update_status(&job, &mut evaluation, managed.counts, ctx.now());
        if let Some((reason, message)) = update.event {
            ctx.recorder().normal(&*job, reason, message);
        }
        let tracking = track::track(&job, &pods, &evaluation, update.changed, ctx.now());
        self.write(ctx, &job, evaluation.record, tracking, managed.counts.terminating).await?;
        managed.failure.map_or(Ok(()), Err)?;
        let again = [evaluation.deadline_in, managed.wait].into_iter().flatten().min();
        Ok(again.map_or(Action::done(), Action::requeue_after))
    }
}

impl JobController {
    fn record(&self, key: &Key, uid: &str) -> Record {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.get(key).filter(|(known, _)| known == uid).map(|(_, record)| *record).unwrap_or_default()
    }

    /// Writes the ended pods into the status, removes the finalizers, raises the counts, and ends the Job if it is
    /// complete.
    async fn write(
        &self,
        ctx: &Context,
        job: &Job,
        record: Record,
        tracking: track::Tracking<'_>,
        terminating: i32,
    ) -> Result<(), Error> {
        let mut current = Job { status: Some(tracking.status), ..job.clone() };
        if tracking.changed {
            let Some(written) = write_status(ctx.client(), &current).await? else { return Ok(()) };
            current = written;
            let key =
                Key::new(job.metadata.namespace.as_deref(), job.metadata.name.as_deref().unwrap_or_default());
            let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
            records.insert(key, (job_uid(job).to_owned(), record));
        }
        let mut held = tracking.held;
        let released = join_all(tracking.release.iter().map(|pod| release(ctx.client(), pod))).await;
        let mut failure = None;
        for (pod, result) in tracking.release.iter().zip(released) {
            match result {
                Ok(()) => {
                    held.remove(uid(pod));
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let mut status = current.status.take().unwrap_or_default();
        let counted = track::count(&mut status, &held);
        let end = tracking.end.filter(|_| failure.is_none());
        let finished = track::finish(&mut status, end.as_ref(), terminating, ctx.now());
        if counted || finished {
            current.status = Some(status);
            let Some(written) = write_status(ctx.client(), &current).await? else { return Ok(()) };
            if let Some(end) = end.filter(|_| finished) {
                tell_end(ctx, &written, &end);
            }
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }
}

fn job_uid(job: &Job) -> &str {
    job.metadata.uid.as_deref().unwrap_or_default()
}

/// The Job's pods; orphans that it selects are adopted, with the finalizer.
async fn claimed(client: &Client, key: &Key, job: &Job) -> Result<Vec<Arc<Pod>>, Error> {
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let selector = spec(job).selector.clone().unwrap_or_default();
    selector::check(&selector)
        .map_err(|error| Error::msg(format!("couldn't convert Job selector: {error}")))?;
    let found = children_and_orphans::<Pod>(client, namespace, job_uid(job)).await?;
    let owner = Owner {
        key: key.clone(),
        claimant: Claimant {
            uid: job_uid(job),
            deleting: job.metadata.deletion_timestamp.is_some(),
            selector: &selector,
        },
        reference: controller_reference("batch/v1", "Job", &job.metadata),
    };
    Ok(adopt::claim_tracked::<Job, Pod>(client, &owner, found, FINALIZER).await?)
}

/// The status, unless the Job is gone.
async fn write_status(client: &Client, job: &Job) -> Result<Option<Job>, ClientError> {
    client.update_status(job).await.ignore_not_found()
}

fn tell_end(ctx: &Context, job: &Job, end: &JobCondition) {
    let recorder = ctx.recorder();
    if end.type_ != COMPLETE {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        recorder.warning(job, &text(&end.reason), text(&end.message));
        return;
    }
    let succeeded = |status: &JobStatus| status.succeeded.unwrap_or(0);
    let most = spec(job).completions;
    if job.status.as_ref().zip(most).is_some_and(|(status, most)| succeeded(status) > most) {
        let message = "Too many succeeded pods running after completion count reached";
        recorder.warning(job, "TooManySucceededPods", message);
    }
    recorder.normal(job, "Completed", "Job completed");
}

/// The result of managing the pods.
struct Managed {
    counts: Counts,
    wait: Option<Duration>,
    failure: Option<Error>,
}

impl Managed {
    async fn of(ctx: &Context, view: &View<'_>, evaluation: &mut Evaluation<'_>) -> Managed {
        let mut managed = Managed {
            counts: Counts {
                active: int(evaluation.active.len()),
                ready: evaluation.ready,
                terminating: evaluation.terminating,
            },
            wait: None,
            failure: None,
        };
        if evaluation.end.is_some() {
            // The finalizers stay: what ends now is still to be counted.
            managed.delete(ctx, view.job, &evaluation.active, false).await;
            if managed.counts.active > 0 {
                evaluation.end = None;
            }
        } else if view.job.metadata.deletion_timestamp.is_none() {
            let Plan { delete, create, wait } = manage(view.job, view.pods, evaluation, view.now);
            managed.wait = wait;
            managed.delete(ctx, view.job, &delete, true).await;
            managed.create(ctx, view.job, &create).await;
        }
        managed
    }

    async fn delete(&mut self, ctx: &Context, job: &Job, pods: &[&Pod], uncounted: bool) {
        let deletions = join_all(pods.iter().map(|pod| delete(ctx, job, pod, uncounted))).await;
        for (pod, result) in pods.iter().zip(deletions) {
            match result {
                Ok(()) => {
                    self.counts.active -= 1;
                    self.counts.terminating += 1;
                    self.counts.ready -= i32::from(is_ready(pod));
                }
                Err(error) => self.failure = self.failure.take().or(Some(error.into())),
            }
        }
    }

    async fn create(&mut self, ctx: &Context, job: &Job, create: &Create<'_>) {
        let pods: Vec<Pod> = match create {
            Create::None => return,
            Create::Plain(count) => vec![template::plain(job); *count],
            Create::Indexed(wanted) => wanted.iter().map(|wanted| template::indexed(job, wanted)).collect(),
        };
        let mut left = pods.as_slice();
        for batch in slow_start(pods.len()) {
            let (now, later) = left.split_at(batch);
            left = later;
            for result in join_all(now.iter().map(|pod| ctx.client().create(pod))).await {
                match result {
                    Ok(pod) => {
                        self.counts.active += 1;
                        let name = pod.metadata.name.unwrap_or_default();
                        ctx.recorder().normal(job, "SuccessfulCreate", format!("Created pod: {name}"));
                    }
                    // The namespace is being deleted, so nothing can be created in it.
                    Err(error) if error.is_namespace_terminating() => return,
                    Err(error) => {
                        ctx.recorder().warning(
                            job,
                            "FailedCreate",
                            format!("Error creating: {}", error.message()),
                        );
                        self.failure = self.failure.take().or(Some(error.into()));
                    }
                }
            }
            if self.failure.is_some() {
                return;
            }
        }
    }
}

async fn delete(ctx: &Context, job: &Job, pod: &Pod, uncounted: bool) -> Result<(), ClientError> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    if uncounted {
        release(ctx.client(), pod).await?;
    }
    let options = DeleteOptions::default().uid(uid(pod));
    match ctx.client().delete_with::<Pod>(key_of(pod), &options).await.ignore_not_found() {
        Ok(_) => {
            ctx.recorder().normal(job, "SuccessfulDelete", format!("Deleted pod: {name}"));
            Ok(())
        }
        Err(error) => {
            ctx.recorder().warning(job, "FailedDelete", format!("Error deleting: {}", error.message()));
            Err(error)
        }
    }
}
