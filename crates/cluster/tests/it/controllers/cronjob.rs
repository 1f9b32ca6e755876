//! CronJobs over virtual hours, on simulated nodes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use setpoint::clock::tokio_clock;
use setpoint_cluster::{Cluster, Options};

struct World {
    cluster: Cluster,
    crons: Api<CronJob>,
    jobs: Api<Job>,
}

impl World {
    /// A cluster at five past noon, in winter.
    async fn start() -> World {
        let clock = Some(tokio_clock(at("12:05:00")));
        let cluster = Cluster::start(Options { seed: Some(1), clock, ..Options::default() }).await.unwrap();
        let (client, other) = (cluster.client(), cluster.client());
        World { cluster, crons: Api::namespaced(client, "default"), jobs: Api::namespaced(other, "default") }
    }

    /// A CronJob whose containers run so long.
    async fn create(&self, schedule: &str, run_for: &str, more: Value) {
        let mut spec = json!({ "schedule": schedule, "jobTemplate": { "spec": { "template": {
            "metadata": { "annotations": { "setpoint.dev/run-for": run_for } },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } } });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let cron = serde_json::from_value(json!({ "metadata": { "name": "c" }, "spec": spec })).unwrap();
        self.crons.create(&PostParams::default(), &cron).await.unwrap();
        // Its controller has seen it when time goes on.
        self.cluster.advance(Duration::from_secs(1)).await;
    }

    async fn patch(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.crons.patch("c", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Lets time pass until then, minute by minute: what happens on the way happens at its time.
    async fn pass_until(&self, end: &str) {
        let end = at(end);
        while self.cluster.clock().now() < end {
            let left = end.duration_since(self.cluster.clock().now());
            let step = left.min(SignedDuration::from_secs(60));
            self.cluster.advance(Duration::try_from(step).unwrap()).await;
        }
    }

    async fn status(&self) -> Value {
        json!(self.crons.get("c").await.unwrap().status)
    }

    /// When the Jobs that there are were due.
    async fn times(&self) -> Vec<String> {
        let jobs = self.jobs.list(&ListParams::default()).await.unwrap().items;
        let name = "batch.kubernetes.io/cronjob-scheduled-timestamp";
        let mut times: Vec<String> =
            jobs.into_iter().map(|job| job.metadata.annotations.unwrap()[name].clone()).collect();
        times.sort_unstable();
        times
    }

    async fn until(&self, what: &str, times: &[&str], active: usize) {
        let found = self.cluster.eventually(what, async || {
            let list = self.status().await["active"].as_array().map_or(0, Vec::len);
            (self.times().await == times && list == active).then_some(())
        });
        if found.await.is_err() {
            panic!("{what}: {:?} {}", self.times().await, self.status().await);
        }
    }
}

fn at(time: &str) -> Timestamp {
    format!("2026-01-05T{time}Z").parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_hour_a_job_runs_and_the_last_ones_are_kept() {
    let world = World::start().await;
    world.create("0 * * * *", "10m", json!({})).await;
    world.pass_until("13:00:05").await;
    world.until("the first", &["2026-01-05T13:00:00Z"], 1).await;
    assert_eq!(world.status().await["lastScheduleTime"], "2026-01-05T13:00:00Z");
    world.pass_until("13:15:00").await;
    world.until("its end", &["2026-01-05T13:00:00Z"], 0).await;
    world.pass_until("18:30:00").await;
    let last = ["2026-01-05T16:00:00Z", "2026-01-05T17:00:00Z", "2026-01-05T18:00:00Z"];
    world.until("the last three", &last, 0).await;
    let ended = world.status().await["lastSuccessfulTime"].as_str().unwrap().to_owned();
    assert!(ended.starts_with("2026-01-05T18:10:"), "{ended}");
    world.crons.delete("c", &DeleteParams::default()).await.unwrap();
    let gone = async || world.times().await.is_empty().then_some(());
    world.cluster.eventually("the Jobs go with it", gone).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_that_still_runs_forbids_or_is_replaced() {
    for (policy, times) in [
        ("Forbid", vec!["2026-01-05T12:10:00Z"]),
        ("Replace", vec!["2026-01-05T12:30:00Z"]),
        ("Allow", vec!["2026-01-05T12:10:00Z", "2026-01-05T12:20:00Z", "2026-01-05T12:30:00Z"]),
    ] {
        let world = World::start().await;
        world.create("*/10 * * * *", "5h", json!({ "concurrencyPolicy": policy })).await;
        world.pass_until("12:31:00").await;
        world.until(policy, &times, times.len()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspended_one_waits_and_starts_what_was_due_last() {
    let world = World::start().await;
    world.create("*/10 * * * *", "1s", json!({ "suspend": true })).await;
    world.pass_until("12:45:00").await;
    assert!(world.times().await.is_empty());
    world.patch(json!({ "suspend": false })).await;
    world.until("what was due", &["2026-01-05T12:40:00Z"], 1).await;
    world.until("its end", &["2026-01-05T12:40:00Z"], 0).await;
    // A new schedule begins at its next time.
    world.patch(json!({ "schedule": "*/2 * * * *", "suspend": false })).await;
    world.pass_until("12:46:30").await;
    world.until("the new schedule", &["2026-01-05T12:40:00Z", "2026-01-05T12:46:00Z"], 0).await;
}
