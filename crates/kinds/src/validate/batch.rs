//! Jobs and cron jobs.

use serde_json::{Value, json};

use super::check::Causes;
use super::workload::shown_labels;
use super::{job_policy, networking};
use super::{meta, pod};
use crate::access::{at, copy, int, text, truth};
use crate::cron::Schedule;
use crate::go_struct;
use crate::strategy::semantically_equal;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::selector::LabelSelector;

/// Maximum number of bytes in the name of a controller that manages Jobs.
const LONGEST_MANAGER: usize = 63;

pub(super) fn job(causes: &mut Causes, object: &Value) {
    generated_selector(causes, object);
    job_spec(causes, object);
}

fn generated_selector(causes: &mut Causes, job: &Value) {
    let selector = at(job, "spec.selector");
    if truth(job, "spec.manualSelector") || selector.is_null() {
        return;
    }
    let (name, uid) = (text(job, "metadata.name"), text(job, "metadata.uid"));
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    let path = Path::new("spec.template.metadata.labels");
    for (label, value) in expected {
        match at(job, "spec.template.metadata.labels").get(label).and_then(Value::as_str) {
            None => causes.required(&path.key(label), &format!("must be '{value}'")),
            Some(found) if found != value => {
                let detail = format!("must be '{value}'");
                let labels = shown_labels(at(job, "spec.template.metadata.labels"));
                causes.invalid(&path.key(label), labels, &detail);
            }
            Some(_) => {}
        }
    }
    if let Ok(parsed) = LabelSelector::from_json(selector)
        && !parsed.matches(expected)
    {
        let shown = BadValue::raw(meta::show_selector(selector));
        causes.invalid(&Path::new("spec.selector"), shown, "`selector` not auto-generated");
    }
}

/// The spec of a job that stands for itself.
fn job_spec(causes: &mut Causes, job: &Value) {
    let (path, spec) = (Path::new("spec"), at(job, "spec"));
    any_job_spec(causes, spec, &path);
    let selector = at(spec, "selector");
    if selector.is_null() {
        causes.required(&path.child("selector"), "");
    } else {
        causes.extend(meta::label_selector(selector, &path.child("selector")));
    }
    if let Ok(parsed) = LabelSelector::from_json(selector)
        && !parsed.matches_object(at(spec, "template"))
    {
        let labels = shown_labels(at(spec, "template.metadata.labels"));
        let detail = "`selector` does not match template `labels`";
        causes.invalid(&path.child("template.metadata.labels"), labels, detail);
    }
}

fn any_job_spec(causes: &mut Causes, spec: &Value, path: &Path) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        causes.non_negative(&path.child(field), int(spec, field));
    }
    if int(spec, "maxFailedIndexes").is_some() && at(spec, "backoffLimitPerIndex").is_null() {
        causes.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = at(spec, "managedBy").as_str() {
        let path = path.child("managedBy");
        networking::domain_prefixed_path(causes, manager, &path);
        if manager.len() > LONGEST_MANAGER {
            causes.push(Cause::too_long(&path, LONGEST_MANAGER));
        }
    }
    completion_mode(causes, spec, path);
    job_policy::failure(causes, spec, &path.child("podFailurePolicy"));
    job_policy::success(causes, spec, &path.child("successPolicy"));
    replacement(causes, spec, &path.child("podReplacementPolicy"));
    let template = at(spec, "template");
    let template_path = path.child("template");
    pod::template(causes, template, &template_path);
    let policy = text(template, "spec.restartPolicy");
    let policy_path = template_path.child("spec.restartPolicy");
    match policy {
        "Always" | "" => causes.required(&policy_path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" | "Never" => {
            if policy != "Never" && !at(spec, "podFailurePolicy").is_null() {
                let detail = "only \"Never\" is supported when podFailurePolicy is specified";
                causes.invalid(&policy_path, policy, detail);
            }
        }
        other => causes.push(Cause::not_supported(&policy_path, other, &["OnFailure", "Never"])),
    }
}

fn completion_mode(causes: &mut Causes, spec: &Value, path: &Path) {
    let mode = at(spec, "completionMode").as_str();
    if let Some(mode) = mode {
        causes.one_of(&path.child("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    if mode == Some("Indexed") {
        if at(spec, "completions").is_null() {
            causes.required(&path.child("completions"), "when completion mode is Indexed");
        }
        indexed(causes, spec, path);
    } else if mode.is_none_or(|mode| mode == "NonIndexed") {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(number) = int(spec, field) {
                causes.invalid(&path.child(field), number, "requires indexed completion mode");
            }
        }
    }
}

/// Limits of indexed Jobs: so many failed indexes fit into the status.
fn indexed(causes: &mut Causes, spec: &Value, path: &Path) {
    const MOST_PARALLEL: i64 = 100_000;
    const SOFT_LIMIT: i64 = 100_000;
    const MOST_BEYOND: i64 = 10_000;
    let number = |field: &str| int(spec, field);
    let (parallel, failed) = (path.child("parallelism"), path.child("maxFailedIndexes"));
    let above = |field: &str, most: i64| number(field).filter(|number| *number > most);
    if let Some(number) = above("parallelism", MOST_PARALLEL) {
        let detail = format!("must be less than or equal to {MOST_PARALLEL} when completion mode is Indexed");
        causes.invalid(&parallel, number, &detail);
    }
    let completions = number("completions");
    if let Some(number) = above("maxFailedIndexes", completions.unwrap_or(i64::MAX)) {
        causes.invalid(&failed, number, "must be less than or equal to completions");
    }
    if let Some(number) = above("maxFailedIndexes", MOST_PARALLEL) {
        causes.invalid(&failed, number, &format!("must be less than or equal to {MOST_PARALLEL}"));
    }
    if completions.is_none_or(|number| number <= SOFT_LIMIT) || number("backoffLimitPerIndex").is_none() {
        return;
    }
    if number("maxFailedIndexes").is_none() {
        let detail = format!("must be specified when completions is above {SOFT_LIMIT}");
        causes.required(&failed, &detail);
    }
    for (field, path) in [("parallelism", &parallel), ("maxFailedIndexes", &failed)] {
        if let Some(number) = above(field, MOST_BEYOND) {
            let detail = format!(
                "must be less than or equal to {MOST_BEYOND} when completions are above {SOFT_LIMIT} and used with backoff \
                 limit per index"
            );
            causes.invalid(path, number, &detail);
        }
    }
}

fn replacement(causes: &mut Causes, spec: &Value, path: &Path) {
    let Some(policy) = at(spec, "podReplacementPolicy").as_str() else { return };
    let allowed: &[&str] =
        if at(spec, "podFailurePolicy").is_null() { &["Failed", "TerminatingOrFailed"] } else { &["Failed"] };
    causes.one_of(path, policy, allowed);
}

pub(super) fn job_update(causes: &mut Causes, new: &Value, old: &Value) {
    job_spec(causes, new);
    let indexed = text(new, "spec.completionMode") == "Indexed";
    if indexed {
        let completions = int(new, "spec.completions");
        if completions != int(old, "spec.completions")
            && completions.is_some()
            && completions != int(new, "spec.parallelism")
        {
            let detail = "can only be modified in tandem with spec.parallelism";
            causes.invalid(&Path::new("spec.completions"), at(new, "spec.completions"), detail);
        }
    } else {
        causes.immutable(new, old, "spec.completions", at(new, "spec.completions"));
    }
    causes.immutable(new, old, "spec.selector", BadValue::raw(meta::show_selector(at(new, "spec.selector"))));
    template_update(causes, new, old);
    causes.immutable(new, old, "spec.completionMode", at(new, "spec.completionMode"));
    let policy = go_struct::line("*batch.PodFailurePolicy", at(new, "spec.podFailurePolicy"));
    causes.immutable(new, old, "spec.podFailurePolicy", BadValue::raw(policy));
    causes.immutable(new, old, "spec.backoffLimitPerIndex", at(new, "spec.backoffLimitPerIndex"));
    causes.immutable(new, old, "spec.managedBy", at(new, "spec.managedBy"));
    let policy = go_struct::line("*batch.SuccessPolicy", at(new, "spec.successPolicy"));
    causes.immutable(new, old, "spec.successPolicy", BadValue::raw(policy));
}

/// A job that is suspended and never started may still be told where to run.
fn template_update(causes: &mut Causes, new: &Value, old: &Value) {
    let mut before = old.clone();
    let suspended = truth(old, "spec.suspend");
    if suspended && at(old, "status.startTime").is_null() {
        for field in [
            "spec.template.spec.affinity",
            "spec.template.spec.nodeSelector",
            "spec.template.spec.tolerations",
            "spec.template.spec.schedulingGates",
            "spec.template.metadata.annotations",
            "spec.template.metadata.labels",
        ] {
            copy(&mut before, new, field);
        }
        for list in ["spec.template.spec.containers", "spec.template.spec.initContainers"] {
            let wanted = crate::access::items(new, list).to_vec();
            for (container, wanted) in crate::access::items_mut(&mut before, list).iter_mut().zip(&wanted) {
                copy(container, wanted, "resources");
            }
        }
    }
    if !semantically_equal(at(new, "spec.template"), at(&before, "spec.template")) {
        let shown = BadValue::raw(go_struct::line("core.PodTemplateSpec", at(new, "spec.template")));
        causes.invalid(&Path::new("spec.template"), shown, meta::IMMUTABLE);
    }
}

pub(super) fn cron_job(causes: &mut Causes, object: &Value, create: bool) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let schedule = text(spec, "schedule");
    let schedule_path = path.child("schedule");
    if schedule.is_empty() {
        causes.required(&schedule_path, "");
    } else {
        if let Err(wrong) = Schedule::parse(schedule) {
            causes.invalid(&schedule_path, schedule, &wrong.to_string());
        }
        if schedule.contains("TZ") {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            causes.invalid(&schedule_path, schedule, detail);
        }
    }
    causes.non_negative(&path.child("startingDeadlineSeconds"), int(spec, "startingDeadlineSeconds"));
    if let Some(zone) = at(spec, "timeZone").as_str() {
        time_zone(causes, zone, &path.child("timeZone"));
    }
    let policy = text(spec, "concurrencyPolicy");
    causes.required_one_of(&path.child("concurrencyPolicy"), policy, &["Allow", "Forbid", "Replace"]);
    job_template(causes, at(spec, "jobTemplate"), &path.child("jobTemplate"));
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        causes.non_negative(&path.child(field), int(spec, field));
    }
    let name = text(object, "metadata.name");
    if create && name.len() > 52 {
        causes.invalid(&Path::new("metadata.name"), name, "must be no more than 52 characters");
    }
}

fn job_template(causes: &mut Causes, template: &Value, path: &Path) {
    any_job_spec(causes, at(template, "spec"), &path.child("spec"));
    let selector = at(template, "spec.selector");
    if !selector.is_null() {
        let shown = BadValue::raw(meta::show_selector(selector));
        causes.invalid(&path.child("spec.selector"), shown, "`selector` will be auto-generated");
    }
    if truth(template, "spec.manualSelector") {
        causes.push(Cause::not_supported(
            &path.child("spec.manualSelector"),
            &json!(true),
            &["nil", "false"],
        ));
    }
}

/// The first parts of the names of time zones.
const AREAS: [&str; 24] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "Etc",
    "Europe",
    "Indian",
    "Mexico",
    "Pacific",
    "US",
    "UTC",
    "GMT",
    "EST",
    "CET",
    "MST",
    "PST8PDT",
    "EST5EDT",
    "Zulu",
];

fn time_zone(causes: &mut Causes, zone: &str, path: &Path) {
    if zone.is_empty() {
        return causes.invalid(path, zone, "timeZone must be nil or non-empty string");
    }
    let shaped = zone.split('/').all(|part| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && !part.starts_with('-')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'+'))
    });
    if shaped && zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        return causes.invalid(path, zone, detail);
    }
    let area = zone.split('/').next().unwrap_or_default();
    if !shaped || !AREAS.contains(&area) {
        causes.invalid(path, zone, &format!("unknown time zone {zone}"));
    }
}
