//! Jobs and cron jobs.

use serde_json::{Map, Value};

use super::Lit::{Bool, Int, Text};
use super::Rule;
use super::pod::POD_TEMPLATE_SPEC;

pub(super) fn rules(kind: &str) -> &'static [Rule] {
    match kind {
        "Job" => JOB,
        "CronJob" => CRON_JOB,
        _ => &[],
    }
}

const FAILURE_POLICY: &[Rule] =
    &[Rule::List("rules", &[Rule::List("onPodConditions", &[Rule::Zero("status", Text("True"))])])];

/// The defaults of a job's spec wherever it stands.
const ANY_JOB_SPEC: &[Rule] =
    &[Rule::Struct("template", POD_TEMPLATE_SPEC), Rule::Pointer("podFailurePolicy", FAILURE_POLICY)];

const JOB: &[Rule] = &[
    Rule::Struct(
        "spec",
        &[
            Rule::Call(completions),
            Rule::Absent("parallelism", Int(1)),
            Rule::Call(backoff_limit),
            Rule::Absent("completionMode", Text("NonIndexed")),
            Rule::Absent("suspend", Bool(false)),
            Rule::Call(replacement),
            Rule::Absent("manualSelector", Bool(false)),
        ],
    ),
    Rule::Struct("spec", ANY_JOB_SPEC),
    Rule::Struct("status", &[]),
];

const CRON_JOB: &[Rule] = &[
    Rule::Struct(
        "spec",
        &[
            Rule::Zero("concurrencyPolicy", Text("Allow")),
            Rule::Absent("suspend", Bool(false)),
            Rule::Absent("successfulJobsHistoryLimit", Int(3)),
            Rule::Absent("failedJobsHistoryLimit", Int(1)),
            Rule::Absent("schedule", Text("")),
            Rule::Struct("jobTemplate", &[Rule::Struct("metadata", &[]), Rule::Struct("spec", ANY_JOB_SPEC)]),
        ],
    ),
    Rule::Struct("status", &[]),
];

fn absent(spec: &Map<String, Value>, field: &str) -> bool {
    spec.get(field).is_none_or(Value::is_null)
}

fn completions(spec: &mut Map<String, Value>) {
    if absent(spec, "completions") && absent(spec, "parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
}

fn backoff_limit(spec: &mut Map<String, Value>) {
    if absent(spec, "backoffLimit") {
        let limit = if absent(spec, "backoffLimitPerIndex") { 6 } else { i32::MAX };
        spec.insert("backoffLimit".to_owned(), limit.into());
    }
}

fn replacement(spec: &mut Map<String, Value>) {
    if absent(spec, "podReplacementPolicy") {
        let policy = if absent(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
        spec.insert("podReplacementPolicy".to_owned(), policy.into());
    }
}
