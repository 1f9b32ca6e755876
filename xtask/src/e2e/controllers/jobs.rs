//! Jobs and CronJobs, to their ends.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::proxy::{MERGE, until};
use super::Place;

/// A Job whose containers run so long and end with this code.
fn job(name: &str, run_for: &str, code: u8, more: &Value) -> Value {
    let mut job = json!({ "metadata": { "name": name }, "spec": { "template": {
        "metadata": { "annotations": { "setpoint.dev/run-for": run_for, "setpoint.dev/exit-code": code.to_string() } },
        "spec": { "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{ "name": "c", "image": "work:1" }] } } } });
    for (key, value) in more.as_object().into_iter().flatten() {
        job["spec"][key] = value.clone();
    }
    job
}

impl Place<'_> {
    fn job(&self, name: &str) -> String {
        self.group("batch/v1", "jobs", name)
    }

    fn create_job(&self, job: &Value) -> Result<Value> {
        self.api.create(&self.job(""), job)
    }

    fn change_job(&self, name: &str, spec: &Value) -> Result<Value> {
        self.api.patch(&self.job(name), MERGE, &json!({ "spec": spec }))
    }

    /// Waits for a status of the Job.
    fn job_until(&self, name: &str, what: &str, test: impl Fn(&Value) -> bool) -> Result<Value> {
        until(&format!("{name} {what}"), || {
            let status = self.api.get(&self.job(name))?["status"].clone();
            Ok(test(&status).then_some(status))
        })
    }

    /// Waits for the Job's end; its conditions in their order.
    fn job_ended(&self, name: &str, condition: &str) -> Result<Value> {
        let status =
            self.job_until(name, condition, |status| conditions(status).contains(&condition.to_owned()))?;
        Ok(json!(conditions(&status)))
    }
}

/// The types of the true conditions.
fn conditions(status: &Value) -> Vec<String> {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    let held = all.iter().filter(|condition| condition["status"] == "True");
    held.filter_map(|condition| condition["type"].as_str()).map(str::to_owned).collect()
}

pub fn complete(place: &Place<'_>) -> Result<Value> {
    place.create_job(&job("plain", "1s", 0, &json!({})))?;
    place.create_job(&job("parallel", "1s", 0, &json!({ "completions": 3, "parallelism": 2 })))?;
    place.create_job(&job("queue", "1s", 0, &json!({ "parallelism": 2 })))?;
    place.create_job(&job("nothing", "1s", 0, &json!({ "completions": 0 })))?;
    let ended: Result<Vec<Value>> = ["plain", "parallel", "queue", "nothing"]
        .iter()
        .map(|name| place.job_ended(name, "Complete"))
        .collect();
    Ok(json!(ended?))
}

pub fn fail(place: &Place<'_>) -> Result<Value> {
    place.create_job(&job("limit", "1s", 3, &json!({ "backoffLimit": 1 })))?;
    let policy = json!({ "rules": [
        { "action": "FailJob", "onExitCodes": { "operator": "In", "values": [42] } }] });
    // One pod at a time where one failure ends the Job: what runs beside it may or may not have failed by then.
    let second = json!({ "podFailurePolicy": policy, "completions": 2 });
    place.create_job(&job("policy", "1s", 42, &second))?;
    let ignored = json!({ "rules": [
        { "action": "Ignore", "onExitCodes": { "operator": "NotIn", "values": [42] } }] });
    place.create_job(&job("ignored", "1s", 3, &json!({ "podFailurePolicy": ignored, "backoffLimit": 0 })))?;
    let mut restarted = job("restarted", "1s", 3, &json!({ "backoffLimit": 1 }));
    restarted["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    place.create_job(&restarted)?;
    let mut told = Vec::new();
    for name in ["limit", "policy", "restarted"] {
        told.push(place.job_ended(name, "Failed")?);
    }
    // Nothing of it counts, and it is tried again.
    until("another pod of the ignored one", || {
        let pods = place.pods()?;
        let tries = pods.iter().filter(|pod| pod["metadata"]["labels"]["job-name"] == "ignored").count();
        Ok((tries >= 2).then_some(()))
    })?;
    let status = place.api.get(&place.job("ignored"))?["status"].clone();
    ensure!(status["failed"].is_null(), "{status}");
    place.api.delete(&place.job("ignored"), &json!({ "propagationPolicy": "Foreground" }))?;
    until("the ignored one is gone", || Ok(place.api.find(&place.job("ignored"))?.is_none().then_some(())))?;
    Ok(json!(told))
}

pub fn indexed(place: &Place<'_>) -> Result<Value> {
    let indexed = |more: Value| {
        let mut spec = json!({ "completionMode": "Indexed", "completions": 3, "parallelism": 3 });
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        spec
    };
    place.create_job(&job("all", "1s", 0, &indexed(json!({ "parallelism": 2 }))))?;
    place.create_job(&job(
        "each",
        "1s",
        3,
        &indexed(json!({ "backoffLimitPerIndex": 1, "completions": 2 })),
    ))?;
    place.create_job(&job(
        "few",
        "1s",
        3,
        &indexed(json!({ "parallelism": 1, "backoffLimitPerIndex": 0, "maxFailedIndexes": 1 })),
    ))?;
    let enough = json!({ "parallelism": 1, "successPolicy": { "rules": [{ "succeededIndexes": "0" }] } });
    place.create_job(&job("enough", "1s", 0, &indexed(enough)))?;
    let told = [("all", "Complete"), ("each", "Failed"), ("few", "Failed"), ("enough", "Complete")];
    let told: Result<Vec<Value>> = told.iter().map(|(name, end)| place.job_ended(name, end)).collect();
    Ok(json!(told?))
}

pub fn suspend(place: &Place<'_>) -> Result<Value> {
    place.create_job(&job(
        "paused",
        "10h",
        0,
        &json!({ "suspend": true, "parallelism": 2, "completions": 4 }),
    ))?;
    let suspended = |status: &Value| conditions(status) == ["Suspended"] && status["terminating"] == 0;
    let runs = |status: &Value| status["active"] == 2 && status["ready"] == 2;
    let first = place.job_until("paused", "is suspended", suspended)?;
    ensure!(first["startTime"].is_null() && place.pods()?.is_empty(), "{first}");
    place.change_job("paused", &json!({ "suspend": false }))?;
    place.job_until("paused", "runs", runs)?;
    place.change_job("paused", &json!({ "suspend": true }))?;
    let again = place.job_until("paused", "is suspended again", |status| {
        suspended(status) && status["active"].is_null()
    })?;
    let start = again["startTime"].is_null();
    place.change_job("paused", &json!({ "suspend": false, "parallelism": 3 }))?;
    place.job_until("paused", "goes on", |status| status["ready"] == 3)?;
    place.change_job("paused", &json!({ "parallelism": 1 }))?;
    place.job_until("paused", "shrinks", |status| status["active"] == 1 && status["terminating"] == 0)?;
    Ok(json!(start))
}

pub fn limits(place: &Place<'_>) -> Result<Value> {
    place.create_job(&job("short", "1s", 0, &json!({ "ttlSecondsAfterFinished": 1 })))?;
    place.create_job(&job("late", "10h", 0, &json!({ "activeDeadlineSeconds": 3, "parallelism": 2 })))?;
    place.create_job(&job("foreign", "1s", 0, &json!({ "managedBy": "example.com/other" })))?;
    let told = place.job_ended("late", "Failed")?;
    until("the Job's time is over", || Ok(place.api.find(&place.job("short"))?.is_none().then_some(())))?;
    Ok(told)
}

pub fn pods(place: &Place<'_>) -> Result<Value> {
    // One that is there already is adopted and counted.
    let pod = json!({ "metadata": { "name": "orphan", "labels": { "app": "adopter" },
            "annotations": { "setpoint.dev/run-for": "15s" } },
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "work:1" }] } });
    place.api.create(&place.core("pods", ""), &pod)?;
    // One that is deleted counts as failed, once: as soon as it is to go, or when it has ended.
    for (name, policy) in [("going", "TerminatingOrFailed"), ("failed", "Failed")] {
        place.create_job(&job(name, "10h", 0, &json!({ "podReplacementPolicy": policy })))?;
        place.job_until(name, "runs", |status| status["ready"] == 1)?;
        let mine = |pod: &Value| pod["metadata"]["labels"]["job-name"] == name;
        let old = place.pods()?.into_iter().find(mine).unwrap_or_default();
        let old = old["metadata"]["name"].as_str().unwrap_or_default();
        place.api.delete(&place.core("pods", old), &json!({}))?;
    }
    // A controller that misses the orphan when the Job comes makes a second pod. Counting later pods shows that it
    // has seen the orphan.
    let mut adopter = job(
        "adopter",
        "1s",
        0,
        &json!({ "manualSelector": true, "completions": 1,
        "selector": { "matchLabels": { "app": "adopter" } } }),
    );
    adopter["spec"]["template"]["metadata"]["labels"] = json!({ "app": "adopter" });
    place.create_job(&adopter)?;
    for name in ["going", "failed"] {
        place.job_until(name, "runs again", |status| status["ready"] == 1 && status["failed"] == 1)?;
    }
    // The deletion ends with each propagation policy.
    for (name, policy) in [("back", "Background"), ("fore", "Foreground"), ("left", "Orphan")] {
        place.create_job(&job(name, "10h", 0, &json!({})))?;
        place.job_until(name, "runs", |status| status["ready"] == 1)?;
        place.api.delete(&place.job(name), &json!({ "propagationPolicy": policy }))?;
        until(&format!("{name} is gone"), || Ok(place.api.find(&place.job(name))?.is_none().then_some(())))?;
    }
    until("only what was left is there", || {
        let pods = place.pods()?;
        let held = |pod: &&Value| !pod["metadata"]["finalizers"].is_null();
        let named = |pod: &Value, name: &str| pod["metadata"]["labels"]["job-name"] == name;
        let gone = !pods.iter().any(|pod| named(pod, "back") || named(pod, "fore"));
        let free = pods.iter().filter(|pod| named(pod, "left")).filter(held).count() == 0;
        Ok((gone && free).then_some(()))
    })?;
    place.job_ended("adopter", "Complete")
}

pub fn cron(place: &Place<'_>) -> Result<Value> {
    let crons = place.group("batch/v1", "cronjobs", "");
    let make = |name: &str, run_for: &str, more: Value| {
        let template = job("x", run_for, 0, &json!({}))["spec"].clone();
        let mut cron = json!({ "metadata": { "name": name }, "spec": { "schedule": "@every 5s",
            "jobTemplate": { "metadata": { "labels": { "a": "b" } }, "spec": template } } });
        for (key, value) in more.as_object().into_iter().flatten() {
            cron["spec"][key] = value.clone();
        }
        place.api.create(&crons, &cron)
    };
    make("idle", "1s", json!({ "suspend": true }))?;
    make("never", "1s", json!({ "schedule": "59 23 31 2 *" }))?;
    make("once", "1s", json!({ "schedule": "@every 20s", "timeZone": "Europe/Berlin" }))?;
    make("busy", "10h", json!({ "concurrencyPolicy": "Forbid" }))?;
    // The status says so last: kube-controller-manager calls a Job unexpected if its status write failed because
    // another client changed the CronJob in between.
    let started = |name: &str| {
        until(&format!("{name} has started a Job"), || {
            let cron = place.api.get(&format!("{crons}/{name}"))?;
            Ok((!cron["status"]["lastScheduleTime"].is_null()).then_some(()))
        })
    };
    let suspend = |name: &str| {
        place.api.patch(&format!("{crons}/{name}"), MERGE, &json!({ "spec": { "suspend": true } }))
    };
    started("once")?;
    // Before another Job follows.
    suspend("once")?;
    started("busy")?;
    until("busy forbids another", || {
        let events = place.api.items(&place.core("events", ""))?;
        Ok(events.iter().any(|event| event["reason"] == "JobAlreadyActive").then_some(()))
    })?;
    suspend("busy")?;
    let cron = until("once has seen the end of its Job", || {
        let cron = place.api.get(&format!("{crons}/once"))?;
        let done = !cron["status"]["lastSuccessfulTime"].is_null() && cron["status"]["active"].is_null();
        Ok(done.then_some(cron))
    })?;
    // The time is written on the clocks of the zone.
    let jobs = place.api.items(&place.job(""))?;
    let mine =
        jobs.iter().find(|job| job["metadata"]["ownerReferences"][0]["uid"] == cron["metadata"]["uid"]);
    let time = &mine.unwrap_or(&Value::Null)["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    let offset = time.as_str().and_then(|time| time.get(19..)).unwrap_or_default();
    Ok(json!([offset]))
}
