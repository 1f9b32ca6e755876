//! Jobs on simulated nodes, to their end; hours of them pass at once.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use setpoint_cluster::{Cluster, Options};

struct World {
    cluster: Cluster,
    jobs: Api<Job>,
    pods: Api<Pod>,
}

/// A spec whose containers run so long and end with this code.
fn spec(run_for: &str, code: i32, more: Value) -> Value {
    let mut spec = json!({ "template": {
        "metadata": { "annotations": { "setpoint.dev/run-for": run_for, "setpoint.dev/exit-code": code.to_string() } },
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

impl World {
    async fn start() -> World {
        let cluster = Cluster::start(Options { seed: Some(1), ..Options::default() }).await.unwrap();
        let client = cluster.client();
        World {
            cluster,
            jobs: Api::namespaced(client.clone(), "default"),
            pods: Api::namespaced(client, "default"),
        }
    }

    async fn create(&self, spec: Value) {
        let job = serde_json::from_value(json!({ "metadata": { "name": "j" }, "spec": spec })).unwrap();
        self.jobs.create(&PostParams::default(), &job).await.unwrap();
    }

    async fn patch(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.jobs.patch("j", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn pods(&self) -> Vec<Pod> {
        self.pods.list(&ListParams::default()).await.unwrap().items
    }

    /// Waits for the Job to have this status, once every entry of `wanted` is there.
    async fn until(&self, wanted: Value) -> Value {
        let what = wanted.to_string();
        let found = self.cluster.eventually(&what, async || {
            let status = json!(self.jobs.get("j").await.unwrap().status);
            let same = |(key, value): (&String, &Value)| status.get(key).unwrap_or(&Value::Null) == value;
            wanted.as_object().unwrap().iter().all(same).then_some(status)
        });
        found.await.unwrap_or_else(|never| panic!("{never}"))
    }

    /// Waits for the Job to end so; its status.
    async fn ended(&self, condition: &str) -> Value {
        let found = self.cluster.eventually(condition, async || {
            let status = json!(self.jobs.get("j").await.unwrap().status);
            conditions(&status).iter().any(|(kind, _)| kind == condition).then_some(status)
        });
        found.await.unwrap_or_else(|never| panic!("{never}"))
    }

    async fn events(&self) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.cluster.client(), "default");
        let mut all = events.list(&ListParams::default()).await.unwrap().items;
        all.retain(|event| event.involved_object.kind.as_deref() == Some("Job"));
        all.into_iter().filter_map(|event| event.reason).collect()
    }
}

/// Types and reasons of the true conditions, in their order.
fn conditions(status: &Value) -> Vec<(String, String)> {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let held = all.iter().filter(|one| one["status"] == "True");
    held.map(|one| (text(&one["type"]), text(&one["reason"]))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_so_many_at_a_time_and_completes() {
    let world = World::start().await;
    world.create(spec("100s", 0, json!({ "completions": 5, "parallelism": 2 }))).await;
    world.until(json!({ "active": 2, "ready": 2 })).await;
    world.cluster.advance(Duration::from_secs(100)).await;
    world.until(json!({ "succeeded": 2, "active": 2 })).await;
    world.cluster.advance(Duration::from_secs(100)).await;
    world.until(json!({ "succeeded": 4, "active": 1 })).await;
    world.cluster.advance(Duration::from_secs(100)).await;
    let status = world.ended("Complete").await;
    let reached = "CompletionsReached";
    assert_eq!(conditions(&status), pairs(&[("SuccessCriteriaMet", reached), ("Complete", reached)]));
    assert_eq!(
        (&status["succeeded"], &status["active"], &status["ready"]),
        (&json!(5), &Value::Null, &json!(0))
    );
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    assert!(status["completionTime"].is_string());
    let pods = world.pods().await;
    assert_eq!(pods.len(), 5);
    assert!(pods.iter().all(|pod| pod.metadata.finalizers.is_none()), "all are counted");
    world
        .cluster
        .eventually("the event", async || {
            world.events().await.contains(&"Completed".to_owned()).then_some(())
        })
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failing_job_tries_again_later_each_time_and_gives_up() {
    let world = World::start().await;
    let began = world.cluster.clock().now();
    world.create(spec("1s", 3, json!({ "backoffLimit": 3 }))).await;
    for failed in 1..=3 {
        world.cluster.advance(Duration::from_secs(1)).await;
        world.until(json!({ "failed": failed })).await;
        world.cluster.advance(Duration::from_secs(10 << (failed - 1))).await;
        world.until(json!({ "active": 1 })).await;
    }
    world.cluster.advance(Duration::from_secs(1)).await;
    let status = world.ended("Failed").await;
    let reason = "BackoffLimitExceeded";
    assert_eq!(conditions(&status), pairs(&[("FailureTarget", reason), ("Failed", reason)]));
    assert_eq!((&status["failed"], world.pods().await.len()), (&json!(4), 4));
    let took = world.cluster.clock().now().duration_since(began).as_secs();
    assert!((10 + 20 + 40..200).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn indexes_succeed_each_once() {
    let world = World::start().await;
    let indexed = json!({ "completionMode": "Indexed", "completions": 3, "parallelism": 2 });
    world.create(spec("5s", 0, indexed)).await;
    world.until(json!({ "active": 2 })).await;
    world.cluster.advance(Duration::from_secs(5)).await;
    world.until(json!({ "completedIndexes": "0,1", "active": 1 })).await;
    world.cluster.advance(Duration::from_secs(5)).await;
    let status = world.ended("Complete").await;
    assert_eq!((&status["completedIndexes"], &status["succeeded"]), (&json!("0-2"), &json!(3)));
    let mut hosts: Vec<String> =
        world.pods().await.into_iter().filter_map(|pod| pod.spec?.hostname).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["j-0", "j-1", "j-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_and_starts_anew() {
    let world = World::start().await;
    world.create(spec("1h", 0, json!({ "activeDeadlineSeconds": 600 }))).await;
    let first = world.until(json!({ "active": 1, "ready": 1 })).await;
    world.cluster.advance(Duration::from_secs(500)).await;
    world.patch(json!({ "suspend": true })).await;
    let status = world.until(json!({ "active": null, "terminating": 0, "startTime": null })).await;
    assert_eq!(conditions(&status), pairs(&[("Suspended", "JobSuspended")]));
    assert!(world.pods().await.is_empty());
    world.cluster.advance(Duration::from_secs(5000)).await;
    world.patch(json!({ "suspend": false })).await;
    let again = world.until(json!({ "active": 1, "ready": 1 })).await;
    assert!(again["startTime"].as_str() > first["startTime"].as_str());
    assert_eq!(again["failed"], Value::Null, "what was suspended did not fail");
    world.cluster.advance(Duration::from_secs(601)).await;
    let status = world.ended("Failed").await;
    let reason = "DeadlineExceeded";
    assert_eq!(conditions(&status), pairs(&[("FailureTarget", reason), ("Failed", reason)]));
    assert_eq!((&status["failed"], &status["terminating"]), (&json!(1), &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn a_job_goes_when_its_time_is_over_and_takes_its_pods() {
    let world = World::start().await;
    world.create(spec("5s", 0, json!({ "ttlSecondsAfterFinished": 3600 }))).await;
    world.until(json!({ "active": 1 })).await;
    world.cluster.advance(Duration::from_secs(5)).await;
    world.ended("Complete").await;
    world.cluster.advance(Duration::from_secs(3590)).await;
    assert!(world.jobs.get_opt("j").await.unwrap().is_some());
    world.cluster.advance(Duration::from_secs(20)).await;
    let gone = async || {
        (world.jobs.get_opt("j").await.unwrap().is_none() && world.pods().await.is_empty()).then_some(())
    };
    world.cluster.eventually("all is gone", gone).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_are_freed() {
    for propagation in [DeleteParams::background(), DeleteParams::foreground()] {
        let world = World::start().await;
        world.create(spec("1h", 0, json!({ "completions": 2, "parallelism": 2 }))).await;
        world.until(json!({ "active": 2 })).await;
        world.jobs.delete("j", &propagation).await.unwrap();
        let gone = async || world.pods().await.is_empty().then_some(());
        world.cluster.eventually("the pods are gone", gone).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_is_replaced_when_it_has_ended() {
    let world = World::start().await;
    world.create(spec("1h", 0, json!({ "podReplacementPolicy": "Failed" }))).await;
    world.until(json!({ "active": 1, "ready": 1 })).await;
    let name = world.pods().await[0].metadata.name.clone().unwrap();
    world.pods.delete(&name, &DeleteParams::default()).await.unwrap();
    world.until(json!({ "failed": 1 })).await;
    world.cluster.advance(Duration::from_secs(10)).await;
    world.until(json!({ "active": 1, "ready": 1, "terminating": 0 })).await;
}
