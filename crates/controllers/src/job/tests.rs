//! Tables: evaluation, management and counting of pods.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::backoff::Record;
use super::evaluate::{Evaluation, View, evaluate};
use super::manage::{Create, Plan, manage};
use super::status_update::{Counts, StatusUpdate, update_status};
use super::template::{Wanted, indexed, plain};
use super::track::{count, finish, track};
use super::tracked::FINALIZER;

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

/// A Job with these fields over the defaults that the server sets.
fn job(spec: Value, status: Value) -> Job {
    let mut object = json!({ "metadata": { "name": "j", "namespace": "ns", "uid": "job-uid" },
        "spec": { "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
            "podReplacementPolicy": "TerminatingOrFailed", "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": { "labels": { "a": "b" } },
                "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } });
    json_patch(&mut object["spec"], spec);
    object["status"] = status;
    serde_json::from_value(object).unwrap()
}

fn json_patch(into: &mut Value, from: Value) {
    for (key, value) in from.as_object().unwrap() {
        into[key] = value.clone();
    }
}

/// A pod that ended or began `age` seconds ago, not counted yet.
fn pod(name: &str, phase: &str, age: i64) -> Pod {
    let state = match phase {
        "Failed" => json!({ "terminated": { "exitCode": 3, "finishedAt": ago(age) } }),
        "Succeeded" => json!({ "terminated": { "exitCode": 0, "finishedAt": ago(age) } }),
        _ => json!({ "running": {} }),
    };
    let ready = if phase == "Running" { "True" } else { "False" };
    serde_json::from_value(json!({ "metadata": { "name": name, "namespace": "ns", "uid": name,
            "finalizers": [FINALIZER], "creationTimestamp": ago(age) },
        "spec": { "containers": [{ "name": "c" }], "nodeName": "n" },
        "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": ready }],
            "containerStatuses": [{ "name": "c", "state": state, "restartCount": 0, "image": "i",
                "imageID": "", "ready": false }] } }))
    .unwrap()
}

fn at_index(mut pod: Pod, index: i32, failures: i32) -> Pod {
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert("batch.kubernetes.io/job-completion-index".into(), index.to_string());
    annotations.insert("batch.kubernetes.io/job-index-failure-count".into(), failures.to_string());
    pod
}

fn going(mut pod: Pod) -> Pod {
    pod.metadata.deletion_timestamp = serde_json::from_value(json!(ago(0))).unwrap();
    pod
}

fn counted(mut pod: Pod) -> Pod {
    pod.metadata.finalizers = None;
    pod
}

fn evaluation<'a>(job: &'a Job, pods: &'a [&'a Pod]) -> Evaluation<'a> {
    evaluate(&View { job, pods, record: Record::default(), now: now() })
}

fn reason(evaluation: &Evaluation<'_>) -> Option<String> {
    evaluation.end.as_ref().map(|end| format!("{} {}", end.type_, end.reason.clone().unwrap_or_default()))
}

#[test]
fn each_failure_ends_the_job_for_its_reason() {
    let (failed, running) = (pod("f", "Failed", 5), pod("r", "Running", 5));
    let started = |seconds| json!({ "startTime": ago(seconds) });
    let rule = |action: &str| {
        json!({ "podFailurePolicy": { "rules": [
            { "action": action, "onExitCodes": { "operator": "In", "values": [3] } }] }, "backoffLimit": 0,
            "podReplacementPolicy": "Failed" })
    };
    let target = json!({ "conditions": [{ "type": "FailureTarget", "status": "True", "reason": "X" }] });
    for (what, spec, status, pods, expected) in [
        ("nothing", json!({}), json!({}), vec![&failed], None),
        (
            "limit",
            json!({ "backoffLimit": 0 }),
            json!({}),
            vec![&failed],
            Some("FailureTarget BackoffLimitExceeded"),
        ),
        (
            "limit with counted",
            json!({ "backoffLimit": 2 }),
            json!({ "failed": 2 }),
            vec![&failed],
            Some("FailureTarget BackoffLimitExceeded"),
        ),
        ("at the limit", json!({ "backoffLimit": 2 }), json!({ "failed": 1 }), vec![&failed], None),
        (
            "deadline",
            json!({ "activeDeadlineSeconds": 10 }),
            started(10),
            vec![&running],
            Some("FailureTarget DeadlineExceeded"),
        ),
        ("before it", json!({ "activeDeadlineSeconds": 10 }), started(9), vec![&running], None),
        ("suspended", json!({ "activeDeadlineSeconds": 10, "suspend": true }), started(99), vec![], None),
        ("policy fails", rule("FailJob"), json!({}), vec![&failed], Some("FailureTarget PodFailurePolicy")),
        ("policy ignores", rule("Ignore"), json!({}), vec![&failed], None),
        (
            "policy counts",
            rule("Count"),
            json!({}),
            vec![&failed],
            Some("FailureTarget BackoffLimitExceeded"),
        ),
        ("found before", json!({}), target, vec![&running], Some("Failed X")),
    ] {
        let job = job(spec, status);
        assert_eq!(reason(&evaluation(&job, &pods)).as_deref(), expected, "{what}");
    }
    let job = job(rule("FailJob"), json!({}));
    let pods = [&failed];
    assert_eq!(
        evaluation(&job, &pods).end.unwrap().message.unwrap(),
        "Container c for pod ns/f failed with exit code 3 matching FailJob rule at index 0"
    );
}

#[test]
fn restarts_in_place_count_towards_the_limit() {
    for (limit, restarts, exceeded) in [(0, 0, false), (0, 1, true), (2, 1, false), (2, 2, true)] {
        let mut running = pod("r", "Running", 5);
        running.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].restart_count = restarts;
        let mut job = job(json!({ "backoffLimit": limit }), json!({}));
        job.spec.as_mut().unwrap().template.spec.as_mut().unwrap().restart_policy = Some("OnFailure".into());
        assert_eq!(evaluation(&job, &[&running]).end.is_some(), exceeded, "{restarts} of {limit}");
    }
}

#[test]
fn as_many_pods_are_wanted_as_are_still_to_succeed() {
    let running: Vec<Pod> = (0..4).map(|n| pod(&format!("r{n}"), "Running", n)).collect();
    let done = pod("s", "Succeeded", 5);
    // completions, parallelism, succeeded before, running → created, deleted
    for (completions, parallelism, succeeded, active, create, delete) in [
        (Some(5), 2, 0, 0, 2, 0),
        (Some(5), 2, 4, 0, 1, 0),
        (Some(5), 2, 4, 2, 0, 1),
        (Some(5), 0, 0, 2, 0, 2),
        (Some(5), 3, 0, 3, 0, 0),
        (None, 3, 0, 1, 2, 0),
        (None, 3, 1, 1, 0, 0),
    ] {
        let job = job(
            json!({ "completions": completions, "parallelism": parallelism }),
            json!({ "succeeded": succeeded }),
        );
        let pods: Vec<&Pod> = running[..active].iter().collect();
        let plan = manage(&job, &pods, &evaluation(&job, &pods), now());
        let created = if let Create::Plain(count) = plan.create { count } else { 0 };
        assert_eq!((created, plan.delete.len()), (create, delete), "{completions:?} {succeeded} {active}");
    }
    // One that has succeeded and is not counted yet is not wanted again.
    let job = job(json!({ "completions": 2, "parallelism": 2 }), json!({}));
    let pods = [&done];
    let plan = manage(&job, &pods, &evaluation(&job, &pods), now());
    assert_eq!(plan.create, Create::Plain(1));
}

#[test]
fn replacements_wait_longer_with_every_failure_since_the_last_success() {
    let failed: Vec<Pod> = (0..9).map(|n| pod(&format!("f{n}"), "Failed", 5)).collect();
    for (failures, succeeded_ago, wait) in
        [(1, None, 5), (2, None, 15), (3, None, 35), (9, None, 595), (3, Some(1), 0), (2, Some(6), 15)]
    {
        let succeeded = succeeded_ago.map(|seconds| pod("s", "Succeeded", seconds));
        let succeeded: Vec<&Pod> = succeeded.iter().collect();
        let failed: Vec<&Pod> = failed[..failures].iter().collect();
        let record = Record::default().with(&succeeded, &failed);
        assert_eq!(record.remaining(now()), Duration::from_secs(wait), "{failures} {succeeded_ago:?}");
    }
    let pods: Vec<&Pod> = failed[..2].iter().collect();
    let job = job(json!({ "completions": 1 }), json!({}));
    let plan = manage(&job, &pods, &evaluation(&job, &pods), now());
    assert_eq!(plan, Plan { wait: Some(Duration::from_secs(15)), ..Plan::default() });
}

#[test]
fn a_pod_on_its_way_out_is_replaced_as_the_policy_says() {
    for (policy, created, failed) in [("TerminatingOrFailed", true, 1), ("Failed", false, 0)] {
        let leaving = going(pod("r", "Running", 60));
        let job = job(json!({ "completions": 1, "podReplacementPolicy": policy }), json!({}));
        let pods = [&leaving];
        let evaluation = evaluation(&job, &pods);
        assert_eq!(evaluation.terminating, 1);
        // It left sixty seconds ago: the pause is over.
        let plan = manage(&job, &pods, &evaluation, now() + SignedDuration::from_secs(60));
        assert_eq!(plan.create != Create::None, created, "{policy}");
        let tracking = track(&job, &pods, &evaluation, false, now());
        assert_eq!(uncounted(&tracking.status).1, failed, "{policy}");
    }
}

/// Returns the number of uids in the status: succeeded, failed.
fn uncounted(status: &JobStatus) -> (usize, usize) {
    let pods = status.uncounted_terminated_pods.clone().unwrap_or_default();
    (pods.succeeded.map_or(0, |uids| uids.len()), pods.failed.map_or(0, |uids| uids.len()))
}

#[test]
fn indexes_get_one_pod_each() {
    let of = |name: &str, phase: &str, index| at_index(pod(name, phase, 5), index, 0);
    let pods = [of("a", "Running", 1), of("b", "Running", 1), of("c", "Running", 7), pod("d", "Running", 5)];
    let pods: Vec<&Pod> = pods.iter().collect();
    let spec = json!({ "completionMode": "Indexed", "completions": 5, "parallelism": 4 });
    let job1 = job(spec.clone(), json!({ "completedIndexes": "0" }));
    let evaluation1 = evaluation(&job1, &pods);
    assert_eq!(evaluation1.succeeded, 1);
    // Twice the same, beyond the end, without: they go before anything comes.
    let plan = manage(&job1, &pods, &evaluation1, now());
    assert_eq!((plan.delete.len(), plan.create), (3, Create::None));
    let one = [pods[0]];
    let plan = manage(&job1, &one, &evaluation(&job1, &one), now());
    let Create::Indexed(wanted) = plan.create else { panic!("{plan:?}") };
    assert_eq!(wanted.iter().map(|wanted| wanted.index).collect::<Vec<_>>(), [2, 3, 4]);
    // Succeeded indexes are listed in order and counted once.
    let done = [of("x", "Succeeded", 3), of("y", "Succeeded", 2), of("z", "Succeeded", 0)];
    let done: Vec<&Pod> = done.iter().collect();
    let tracking = track(&job1, &done, &evaluation(&job1, &done), false, now());
    assert_eq!(tracking.status.completed_indexes.as_deref(), Some("0,2,3"));
    assert_eq!((tracking.status.succeeded, tracking.release.len()), (Some(3), 3));
}

#[test]
fn indexes_fail_by_themselves() {
    let spec = |more: Value| {
        let mut spec = json!({ "completionMode": "Indexed", "completions": 3, "parallelism": 3,
            "backoffLimitPerIndex": 1, "backoffLimit": i32::MAX });
        json_patch(&mut spec, more);
        spec
    };
    let again = at_index(pod("a", "Failed", 100), 0, 0);
    let last = at_index(pod("b", "Failed", 100), 1, 1);
    let running = at_index(pod("c", "Running", 100), 2, 0);
    let pods = [&again, &last, &running];
    let job1 = job(spec(json!({})), json!({}));
    let evaluation1 = evaluation(&job1, &pods);
    assert_eq!(evaluation1.failed_indexes.as_ref().unwrap().to_string(), "1");
    assert_eq!(reason(&evaluation1), None);
    let plan = manage(&job1, &pods, &evaluation1, now());
    assert_eq!(plan.create, Create::Indexed(vec![Wanted { index: 0, replaces: Some(&again) }]));
    let tracking = track(&job1, &pods, &evaluation1, false, now());
    let released: Vec<&str> = tracking.release.iter().map(|pod| super::tracked::uid(pod)).collect();
    assert_eq!(released, ["b"], "the one that is awaited keeps its finalizer");
    let next = indexed(&job1, &Wanted { index: 0, replaces: Some(&again) });
    assert_eq!(next.metadata.annotations.unwrap()["batch.kubernetes.io/job-index-failure-count"], "1");
    let job2 = job(spec(json!({ "maxFailedIndexes": 0 })), json!({}));
    assert_eq!(reason(&evaluation(&job2, &pods)).unwrap(), "FailureTarget MaxFailedIndexesExceeded");
    let job3 = job(spec(json!({})), json!({ "completedIndexes": "0,2" }));
    assert_eq!(reason(&evaluation(&job3, &[&last])).unwrap(), "FailureTarget FailedIndexes");
}

#[test]
fn some_successes_are_enough() {
    for (rule, met) in [
        (json!({ "succeededIndexes": "0,2" }), true),
        (json!({ "succeededIndexes": "0-2" }), false),
        (json!({ "succeededIndexes": "0-2", "succeededCount": 2 }), true),
        (json!({ "succeededCount": 3 }), true),
        (json!({ "succeededCount": 4 }), false),
    ] {
        let spec =
            json!({ "completionMode": "Indexed", "completions": 9, "successPolicy": { "rules": [rule] } });
        let job = job(spec, json!({ "completedIndexes": "0,2,5" }));
        let evaluation = evaluation(&job, &[]);
        assert_eq!(reason(&evaluation).is_some(), met, "{rule}");
        assert!(!met || evaluation.end.unwrap().message.unwrap() == "Matched rules at index 0");
    }
}

#[test]
fn a_pod_is_counted_once_wherever_the_controller_stops() {
    let (done, failed) = (pod("s", "Succeeded", 5), pod("f", "Failed", 5));
    let mut job = job(json!({ "completions": 1 }), json!({ "startTime": ago(9), "failed": 1 }));
    let pods = [&done, &failed];
    let mut before = evaluation(&job, &pods);
    let update = update_status(&job, &mut before, Counts::default(), now());
    let tracking = track(&job, &pods, &before, update.changed, now());
    assert_eq!((uncounted(&tracking.status), tracking.release.len()), ((1, 1), 2));
    assert_eq!((tracking.status.succeeded, tracking.status.failed), (None, Some(1)));
    assert_eq!(tracking.status.conditions.as_ref().unwrap()[0].type_, "SuccessCriteriaMet");
    // Stopped after the write: nothing is noted twice.
    job.status = Some(tracking.status.clone());
    let again = track(&job, &pods, &evaluation(&job, &pods), false, now());
    assert_eq!((uncounted(&again.status), again.changed), ((1, 1), false));
    // Stopped after one finalizer went.
    let (done, failed) = (counted(done), failed);
    let pods = [&done, &failed];
    let mut evaluation = evaluation(&job, &pods);
    update_status(&job, &mut evaluation, Counts::default(), now());
    let last = track(&job, &pods, &evaluation, false, now());
    assert_eq!((last.status.succeeded, uncounted(&last.status)), (Some(1), (0, 1)));
    assert!(!finish(&mut last.status.clone(), last.end.as_ref(), 0, now()));
    let mut status = last.status;
    assert!(count(&mut status, &Default::default()));
    assert_eq!((status.succeeded, status.failed), (Some(1), Some(2)));
    assert!(!finish(&mut status.clone(), last.end.as_ref(), 1, now()), "one is still going");
    assert!(finish(&mut status, last.end.as_ref(), 0, now()));
    let types: Vec<String> = status.conditions.unwrap().into_iter().map(|one| one.type_).collect();
    assert_eq!(types, ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(status.completion_time.unwrap().0, now());
}

#[test]
fn a_status_holds_so_many_uids() {
    let pods: Vec<Pod> = (0..700).map(|n| pod(&format!("f{n}"), "Failed", 5)).collect();
    let pods: Vec<&Pod> = pods.iter().collect();
    let job = job(json!({ "backoffLimit": 3 }), json!({}));
    let tracking = track(&job, &pods, &evaluation(&job, &pods), false, now());
    assert_eq!((uncounted(&tracking.status).1, tracking.release.len()), (500, 500));
    assert!(tracking.end.is_none());
}

#[test]
fn suspending_takes_the_start_time_and_resuming_sets_it_anew() {
    let running = pod("r", "Running", 5);
    let pods = [&running];
    let suspended =
        job(json!({ "suspend": true, "completions": 1 }), json!({ "startTime": ago(50), "active": 1 }));
    let mut evaluation1 = evaluation(&suspended, &pods);
    assert_eq!(manage(&suspended, &pods, &evaluation1, now()).delete.len(), 1);
    let counts = Counts { terminating: 1, ..Counts::default() };
    let update = update_status(&suspended, &mut evaluation1, counts, now());
    assert_eq!(update, StatusUpdate { changed: true, event: Some(("Suspended", "Job suspended")) });
    assert_eq!(evaluation1.status.start_time, None);
    let mut resumed = job(json!({ "completions": 1 }), json!({}));
    resumed.status = Some(evaluation1.status);
    let mut evaluation2 = evaluation(&resumed, &[]);
    let update = update_status(&resumed, &mut evaluation2, Counts { active: 1, ..Counts::default() }, now());
    assert_eq!(update.event, Some(("Resumed", "Job resumed")));
    assert_eq!(evaluation2.status.start_time.unwrap().0, now());
    let conditions = evaluation2.status.conditions.unwrap();
    assert_eq!(
        (conditions[0].status.as_str(), conditions[0].reason.as_deref()),
        ("False", Some("JobResumed"))
    );
}

#[test]
fn a_pod_is_made_from_the_template() {
    let job = job(json!({ "completionMode": "Indexed", "completions": 3 }), json!({}));
    let made = plain(&job);
    assert_eq!(made.metadata.generate_name.as_deref(), Some("j-"));
    assert_eq!(made.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    let made = indexed(&job, &Wanted { index: 2, replaces: None });
    assert_eq!(made.metadata.generate_name.as_deref(), Some("j-2-"));
    assert_eq!(made.metadata.labels.unwrap()["batch.kubernetes.io/job-completion-index"], "2");
    let spec = made.spec.unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("j-2"));
    let variable = &spec.containers[0].env.as_ref().unwrap()[0];
    assert_eq!(variable.name, "JOB_COMPLETION_INDEX");
    let mut long = job.clone();
    long.metadata.name = Some("x".repeat(63));
    let made = indexed(&long, &Wanted { index: 12, replaces: None });
    assert_eq!(made.metadata.generate_name.unwrap(), format!("{}-12-", "x".repeat(54)));
}
