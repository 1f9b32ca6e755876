//! Tables: start times, history, names of Jobs.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use serde_json::{Value, json};
use setpoint_kinds::cron::Schedule;

use super::decide::{Decision, NeverComes, Step, Times, decide};
use super::history::surplus;
use super::observe::observe;
use super::template::job;

fn at(text: &str) -> Timestamp {
    format!("2026-01-01T{text}Z").parse().unwrap()
}

/// A CronJob that was created at one o'clock.
fn cron(schedule: &str, more: Value) -> CronJob {
    let mut spec = json!({ "schedule": schedule, "concurrencyPolicy": "Allow", "jobTemplate": {
        "metadata": { "labels": { "a": "b" } }, "spec": { "template": {} } } });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let metadata = json!({ "name": "c", "namespace": "ns", "uid": "u", "creationTimestamp": at("01:00:00") });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

fn decided(cron: &CronJob, status: &CronJobStatus, now: Timestamp) -> Result<Decision, NeverComes> {
    let schedule = Schedule::parse(&super::spec(cron).schedule).unwrap();
    decide(cron, status, &Times { schedule: &schedule, zone: &TimeZone::UTC }, now)
}

#[test]
fn a_job_starts_at_the_last_time_that_was_due() {
    let start = |text| Step::Start { at: at(text), replace: false };
    let status = |last: &str| json!({ "lastScheduleTime": at(last) });
    let none = || json!({});
    for (schedule, more, status, now, step, next) in [
        ("*/10 * * * *", none(), none(), "01:03:00", Step::Wait, 420_100),
        ("*/10 * * * *", none(), none(), "01:10:00", start("01:10:00"), 600_100),
        ("*/10 * * * *", none(), none(), "01:59:00", start("01:50:00"), 60_100),
        ("*/10 * * * *", none(), status("01:10:00"), "01:10:01", Step::Wait, 599_100),
        ("@every 7m", none(), status("01:07:00"), "01:29:30", start("01:28:00"), 330_100),
        ("*/10 * * * *", json!({ "startingDeadlineSeconds": 60 }), none(), "01:11:30", Step::Wait, 510_100),
        (
            "*/10 * * * *",
            json!({ "startingDeadlineSeconds": 90 }),
            none(),
            "01:11:20",
            start("01:10:00"),
            520_100,
        ),
    ] {
        let status: CronJobStatus = serde_json::from_value(status).unwrap();
        let found = decided(&cron(schedule, more.clone()), &status, at(now)).unwrap();
        let wanted = Decision { step, many_missed: false, next: Duration::from_millis(next) };
        assert_eq!(found, wanted, "{schedule} {more} at {now}");
    }
    assert_eq!(
        decided(&cron("59 23 31 2 *", none()), &CronJobStatus::default(), at("01:00:00")),
        Err(NeverComes)
    );
}

#[test]
fn more_than_a_hundred_missed_times_are_worth_a_warning() {
    for (now, many) in [("02:39:30", false), ("02:41:30", true)] {
        let found = decided(&cron("* * * * *", json!({})), &CronJobStatus::default(), at(now)).unwrap();
        assert_eq!(found.many_missed, many, "{now}");
        assert!(matches!(found.step, Step::Start { .. }));
    }
}

#[test]
fn what_still_runs_decides_by_the_policy() {
    let running = json!({ "lastScheduleTime": at("01:10:00"), "active": [{ "name": "c-1", "uid": "j" }] });
    let status: CronJobStatus = serde_json::from_value(running).unwrap();
    for (policy, step) in [
        ("Allow", Step::Start { at: at("01:20:00"), replace: false }),
        ("Replace", Step::Start { at: at("01:20:00"), replace: true }),
        ("Forbid", Step::Forbidden),
    ] {
        let cron = cron("*/10 * * * *", json!({ "concurrencyPolicy": policy }));
        assert_eq!(decided(&cron, &status, at("01:20:00")).unwrap().step, step, "{policy}");
    }
}

fn ended(name: &str, end: &str, started: &str) -> Job {
    serde_json::from_value(json!({ "metadata": { "name": name, "uid": name }, "status": {
        "startTime": at(started), "completionTime": at("03:00:00"),
        "conditions": [{ "type": end, "status": "True" }] } }))
    .unwrap()
}

#[test]
fn the_oldest_that_ended_go() {
    let jobs = [
        ended("a", "Complete", "01:03:00"),
        ended("b", "Complete", "01:01:00"),
        ended("c", "Complete", "01:02:00"),
        ended("d", "Failed", "01:01:00"),
        ended("e", "Failed", "01:02:00"),
        Job::default(),
    ];
    let jobs: Vec<&Job> = jobs.iter().collect();
    for (limits, gone) in [
        (json!({ "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1 }), vec!["b", "c", "d"]),
        (json!({ "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 0 }), vec!["d", "e"]),
        (json!({}), vec![]),
    ] {
        let cron = cron("* * * * *", limits);
        let names: Vec<&str> =
            surplus(&cron, &jobs).into_iter().filter_map(|job| job.metadata.name.as_deref()).collect();
        assert_eq!(names, gone);
    }
}

#[test]
fn what_ended_is_no_longer_active_and_its_success_is_remembered() {
    let active = json!({ "active": [{ "name": "a", "uid": "a" }, { "name": "r", "uid": "r" }] });
    let mut status: CronJobStatus = serde_json::from_value(active).unwrap();
    let running =
        |name: &str| serde_json::from_value(json!({ "metadata": { "name": name, "uid": name } })).unwrap();
    let (done, listed, stranger): (Job, Job, Job) =
        (ended("a", "Complete", "01:00:00"), running("r"), running("s"));
    let (changed, notices) = observe(&mut status, &[&done, &listed, &stranger]);
    assert!(changed);
    let messages: Vec<String> = notices.into_iter().map(|notice| notice.message).collect();
    let wanted = [
        "Saw completed job: a, condition: Complete",
        "Saw a job that the controller did not create or forgot: s",
    ];
    assert_eq!(messages, wanted);
    assert_eq!(status.active.as_ref().unwrap().len(), 1);
    assert_eq!(status.last_successful_time.as_ref().unwrap().0, at("03:00:00"));
    assert!(!observe(&mut status, &[&done, &listed]).0);
}

#[test]
fn a_job_is_named_by_its_minute_and_says_its_time() {
    let cron = cron("* * * * *", json!({}));
    let zone = TimeZone::posix("CET-1").unwrap();
    for (zone, time) in [(&TimeZone::UTC, "2026-01-01T01:01:00Z"), (&zone, "2026-01-01T02:01:00+01:00")] {
        let job = job(&cron, at("01:01:00"), zone);
        assert_eq!(job.metadata.name.as_deref(), Some("c-29453821"));
        let annotations = job.metadata.annotations.unwrap();
        assert_eq!(annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"], time);
        assert_eq!(job.metadata.owner_references.unwrap()[0].kind, "CronJob");
    }
}
