//! Validation of the status of a kind.

use serde_json::Value;

use super::certificates;
use super::check::{Causes, NOT_NEGATIVE};
use super::meta::IMMUTABLE;
use super::{cluster, csi, device, flow_control, pod, quota, service, trust};
use crate::access::{at, entries, int, items, text, truth};
use crate::facts::Facts;
use setpoint_api::cause::{Cause, CauseType, Path};
use setpoint_api::name;
use setpoint_api::quantity::Quantity;

/// Checks a changed status.
pub(super) fn changed(causes: &mut Causes, facts: &Facts, new: &Value, old: &Value) {
    match facts.key() {
        ("", "Pod") => pod::update_status(causes, new, old),
        ("", "Service") => service::service_status(causes, new),
        ("", "ResourceQuota") => quota::resource_quota_status(causes, new),
        ("", "Namespace") => namespace(causes, new),
        ("", "Node") => node(causes, new),
        ("", "PersistentVolumeClaim") => claim(causes, new),
        ("apps", "Deployment") => replicas(
            causes,
            new,
            &["unavailableReplicas", "terminatingReplicas", "collisionCount"],
            &["updatedReplicas", "readyReplicas", "availableReplicas"],
        ),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replicas(
            causes,
            new,
            &["terminatingReplicas"],
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        ),
        ("apps", "StatefulSet") => stateful_set(causes, new),
        ("apps", "DaemonSet") => counts(causes, new, &DAEMON_SET),
        ("autoscaling", _) => counts(causes, new, &["currentReplicas", "desiredReplicas"]),
        ("batch", "Job") => job(causes, new, old),
        ("certificates.k8s.io", "PodCertificateRequest") => trust::pod_certificate_status(causes, new, old),
        ("flowcontrol.apiserver.k8s.io", _) => flow_control::conditions(causes, new),
        ("storage.k8s.io", "VolumeAttachment") => csi::attachment(causes, new),
        ("resource.k8s.io", "ResourceClaim") => device::claim_status(causes, new, old),
        ("storagemigration.k8s.io", _) => cluster::migration_status(causes, new, old),
        ("certificates.k8s.io", _) => {
            certificates::status_update(causes, new, old, certificates::Part::Status);
        }
        ("policy", _) => disruption_budget(causes, new),
        ("networking.k8s.io", "Ingress") => ingress(causes, new),
        _ => {}
    }
}

const DAEMON_SET: [&str; 9] = [
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];

/// Counts that may not be negative.
fn counts(causes: &mut Causes, object: &Value, fields: &[&str]) {
    for field in fields {
        causes.non_negative(&Path::new("status").child(field), int(at(object, "status"), field));
    }
}

fn at_most_replicas(causes: &mut Causes, object: &Value, fields: &[&str], ready: &str) {
    let (path, status) = (Path::new("status"), at(object, "status"));
    let count = |field: &str| int(status, field).unwrap_or_default();
    for field in fields {
        if count(field) > count("replicas") {
            causes.invalid(&path.child(field), count(field), "cannot be greater than status.replicas");
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let detail = format!("cannot be greater than {ready}");
        causes.invalid(&path.child("availableReplicas"), count("availableReplicas"), &detail);
    }
}

/// Counts of a workload: `parts` are parts of all its replicas.
fn replicas(causes: &mut Causes, object: &Value, others: &[&str], parts: &[&str]) {
    counts(causes, object, &["observedGeneration", "replicas"]);
    counts(causes, object, parts);
    counts(causes, object, others);
    at_most_replicas(causes, object, parts, "readyReplicas");
}

fn stateful_set(causes: &mut Causes, object: &Value) {
    let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    counts(causes, object, &["replicas"]);
    counts(causes, object, &parts);
    counts(causes, object, &["observedGeneration", "collisionCount"]);
    at_most_replicas(causes, object, &parts, "status.readyReplicas");
}

fn namespace(causes: &mut Causes, object: &Value) {
    let phase = text(object, "status.phase");
    // The real server spells this path with a capital.
    let path = Path::new("status.Phase");
    let deleted = !at(object, "metadata.deletionTimestamp").is_null();
    if !deleted && phase != "Active" {
        causes.invalid(&path, phase, "may only be 'Active' if `deletionTimestamp` is empty");
    } else if deleted && phase != "Terminating" {
        causes.invalid(&path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
    }
}

fn node(causes: &mut Causes, object: &Value) {
    for list in ["status.capacity", "status.allocatable"] {
        for (resource, amount) in entries(object, list) {
            let path = Path::new(list).child(resource);
            let Ok(amount) = Quantity::from_json(amount) else { continue };
            if amount.signum() < 0 {
                causes.invalid(&path, amount.to_string(), NOT_NEGATIVE);
            }
            if pod::integer_resource(resource) && amount.milli_value() % 1000 != 0 {
                causes.invalid(&path, amount.to_string(), "must be an integer");
            }
        }
    }
}

fn claim(causes: &mut Causes, object: &Value) {
    for (resource, amount) in entries(object, "status.capacity") {
        if let Ok(amount) = Quantity::from_json(amount)
            && amount.value() < 0
        {
            let path = Path::new("status.capacity").key(resource);
            causes.invalid(&path, amount.value(), "must be a valid resource quantity");
        }
    }
}

fn ingress(causes: &mut Causes, object: &Value) {
    for (index, one) in items(object, "status.loadBalancer.ingress").iter().enumerate() {
        let path = Path::new("status.loadBalancer.ingress").index(index);
        let (ip, host) = (text(one, "ip"), text(one, "hostname"));
        if !ip.is_empty() {
            causes.ip(&path.child("ip"), ip);
        }
        if !host.is_empty() {
            causes.wrong(&path.child("hostname"), host, &name::dns1123_subdomain(host));
            if host.parse::<std::net::IpAddr>().is_ok() {
                causes.invalid(&path.child("hostname"), host, "must be a DNS name, not an IP address");
            }
        }
    }
}

fn disruption_budget(causes: &mut Causes, object: &Value) {
    conditions(causes, items(object, "status.conditions"));
    counts(causes, object, &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]);
}

/// Conditions of the common form.
fn conditions(causes: &mut Causes, conditions: &[Value]) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = Path::new("status.conditions").index(index);
        let kind = text(condition, "type");
        if seen.contains(&kind) {
            causes.push(Cause::duplicate(&path, kind));
        }
        seen.push(kind);
        if kind.is_empty() {
            causes.required(&path.child("type"), "is required");
        } else {
            causes.wrong(&path.child("type"), kind, &name::qualified_name(kind));
        }
        let status = text(condition, "status");
        causes.required_one_of(&path.child("status"), status, &["False", "True", "Unknown"]);
        let generation = int(condition, "observedGeneration").unwrap_or_default();
        if generation < 0 {
            let detail = "must be greater than or equal to zero";
            causes.invalid(&path.child("observedGeneration"), generation, detail);
        }
        if at(condition, "lastTransitionTime").is_null() {
            causes.required(&path.child("lastTransitionTime"), "");
        }
        let reason = text(condition, "reason");
        if reason.is_empty() {
            causes.required(&path.child("reason"), "");
        } else {
            causes.wrong(&path.child("reason"), reason, &condition_reason(reason));
        }
    }
}

fn condition_reason(reason: &str) -> Vec<String> {
    let bytes = reason.as_bytes();
    let shaped = bytes[0].is_ascii_alphabetic()
        && bytes[bytes.len() - 1] != b','
        && bytes[bytes.len() - 1] != b':'
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':'));
    if shaped {
        return Vec::new();
    }
    let words = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
    vec![name::regex_error(
        words,
        "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
        &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
    )]
}

/// A refusal that does not show the value.
fn refused(causes: &mut Causes, field: &str, detail: &str) {
    let reason = CauseType::FieldValueInvalid;
    let message = format!("{}: {detail}", reason.words());
    causes.push(Cause { reason, message, field: format!("status.{field}") });
}

fn has(job: &Value, kind: &str) -> bool {
    items(job, "status.conditions")
        .iter()
        .any(|one| text(one, "type") == kind && text(one, "status") == "True")
}

fn finished(job: &Value) -> bool {
    has(job, "Complete") || has(job, "Failed")
}

/// A job ends once, with reasons, and its counts only grow.
fn job(causes: &mut Causes, new: &Value, old: &Value) {
    counts(causes, new, &["active", "succeeded", "failed", "ready", "terminating"]);
    job_conditions(causes, new, old);
    job_end(causes, new, old);
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if has(old, kind) && !has(new, kind) {
            refused(causes, "conditions", &format!("cannot disable the terminal {kind}=True condition"));
        }
    }
    let count = |job: &Value, field: &str| int(at(job, "status"), field).unwrap_or_default();
    let path = Path::new("status");
    if count(new, "failed") < count(old, "failed") {
        let detail = "cannot decrease the failed counter";
        causes.invalid(&path.child("failed"), count(new, "failed"), detail);
    }
    let elastic = text(new, "spec.completionMode") == "Indexed"
        && at(new, "spec.completions") == at(new, "spec.parallelism");
    if !elastic && count(new, "succeeded") < count(old, "succeeded") {
        let detail = "cannot decrease the succeeded counter";
        causes.invalid(&path.child("succeeded"), count(new, "succeeded"), detail);
    }
    let (end, was) = (at(new, "status.completionTime"), at(old, "status.completionTime"));
    if !end.is_null() && !was.is_null() && end != was {
        causes.invalid(&path.child("completionTime"), end, IMMUTABLE);
    }
    let (start, was) = (at(new, "status.startTime"), at(old, "status.startTime"));
    let resumed = has(old, "Suspended") && !has(new, "Suspended");
    if !was.is_null() && start != was && !truth(new, "spec.suspend") && !resumed {
        let detail = "field is immutable for unsuspended job once set";
        causes.invalid(&path.child("startTime"), start, detail);
    }
    if has(old, "SuccessCriteriaMet") && !has(new, "SuccessCriteriaMet") {
        refused(causes, "conditions", "cannot disable the SuccessCriteriaMet=True condition");
    }
}

/// Conditions that contradict each other, where one of them changed.
fn job_conditions(causes: &mut Causes, new: &Value, old: &Value) {
    let changed = |kind: &str| has(new, kind) != has(old, kind);
    let (complete, failed) = (has(new, "Complete"), has(new, "Failed"));
    let (completed, failing) = (changed("Complete"), changed("Failed"));
    if complete && failed && (completed || failing) {
        refused(causes, "conditions", "cannot set Complete=True and Failed=true conditions");
    }
    if complete && has(new, "FailureTarget") && (completed || changed("FailureTarget")) {
        refused(causes, "conditions", "cannot set Complete=True and FailureTarget=true conditions");
    }
}

/// Checks the fields of a finished job, where they changed.
fn job_end(causes: &mut Causes, new: &Value, old: &Value) {
    let path = Path::new("status");
    let same = |field: &str| at(new, field) == at(old, field);
    let changed = |kind: &str| has(new, kind) != has(old, kind);
    let complete = has(new, "Complete");
    let (start, end) = (at(new, "status.startTime"), at(new, "status.completionTime"));
    if changed("Complete") || !same("status.completionTime") {
        if !end.is_null() && !complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            causes.invalid(&path.child("completionTime"), end, detail);
        }
        if end.is_null() && complete {
            let detail = "completionTime is required for Complete jobs";
            causes.required(&path.child("completionTime"), detail);
        }
    }
    if !start.is_null() && !end.is_null() && end.as_str() < start.as_str() {
        causes.invalid(&path.child("completionTime"), end, "must be equal to or after `startTime`");
    }
    if has(new, "Failed") && !has(new, "FailureTarget") && changed("Failed") {
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        refused(causes, "conditions", detail);
    }
    if complete && !has(new, "SuccessCriteriaMet") && (changed("Complete") || changed("SuccessCriteriaMet")) {
        let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        refused(causes, "conditions", detail);
    }
    let ended = finished(new) != finished(old);
    let active = int(new, "status.active").unwrap_or_default();
    if finished(new) {
        if active > 0 && (ended || !same("status.active")) {
            causes.invalid(&path.child("active"), active, "active>0 is invalid for finished job");
        }
        let empty = truth(new, "spec.suspend") && int(new, "spec.completions") == Some(0);
        if start.is_null() && (ended || !same("status.startTime")) && !empty {
            causes.required(&path.child("startTime"), "startTime is required for finished job");
        }
        let leaving = int(new, "status.terminating").unwrap_or_default();
        if leaving > 0 && (ended || !same("status.terminating")) {
            let detail = "terminating>0 is invalid for finished job";
            causes.invalid(&path.child("terminating"), leaving, detail);
        }
    }
    let ready = int(new, "status.ready").unwrap_or_default();
    if ready > active && (!same("status.ready") || !same("status.active")) {
        causes.invalid(&path.child("ready"), ready, "cannot set more ready pods than active");
    }
}
