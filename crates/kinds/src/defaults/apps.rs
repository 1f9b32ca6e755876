//! Deployments and their kin.

use serde_json::{Map, Value, json};

use super::Lit::{Int, Text};
use super::pod::POD_TEMPLATE_SPEC;
use super::volume::CLAIM_SPEC;
use super::{Rule, text};

pub(super) fn rules(kind: &str) -> &'static [Rule] {
    match kind {
        "Deployment" => DEPLOYMENT,
        "ReplicaSet" => REPLICA_SET,
        "StatefulSet" => STATEFUL_SET,
        "DaemonSet" => DAEMON_SET,
        "ControllerRevision" => &[Rule::Absent("revision", Int(0))],
        _ => &[],
    }
}

const DEPLOYMENT: &[Rule] = &[
    Rule::Struct(
        "spec",
        &[
            Rule::Absent("replicas", Int(1)),
            Rule::Struct("strategy", &[Rule::Call(deployment_strategy)]),
            Rule::Absent("revisionHistoryLimit", Int(10)),
            Rule::Absent("progressDeadlineSeconds", Int(600)),
            Rule::Struct("template", POD_TEMPLATE_SPEC),
        ],
    ),
    Rule::Struct("status", &[]),
];

const REPLICA_SET: &[Rule] = &[
    Rule::Struct("spec", &[Rule::Absent("replicas", Int(1)), Rule::Struct("template", POD_TEMPLATE_SPEC)]),
    Rule::Struct("status", &[Rule::Absent("replicas", Int(0))]),
];

const CLAIM: &[Rule] = &[
    Rule::Call(claim_kind),
    Rule::Struct("metadata", &[]),
    Rule::Struct("spec", CLAIM_SPEC),
    Rule::Struct("status", &[Rule::Zero("phase", Text("Pending"))]),
];

const STATEFUL_SET: &[Rule] = &[
    Rule::Struct(
        "spec",
        &[
            Rule::Zero("podManagementPolicy", Text("OrderedReady")),
            Rule::Struct("updateStrategy", &[Rule::Call(stateful_set_strategy)]),
            Rule::Struct(
                "persistentVolumeClaimRetentionPolicy",
                &[Rule::Zero("whenDeleted", Text("Retain")), Rule::Zero("whenScaled", Text("Retain"))],
            ),
            Rule::Absent("replicas", Int(1)),
            Rule::Absent("revisionHistoryLimit", Int(10)),
            Rule::Absent("serviceName", Text("")),
            Rule::Struct("template", POD_TEMPLATE_SPEC),
            Rule::List("volumeClaimTemplates", CLAIM),
        ],
    ),
    Rule::Struct("status", &[Rule::Absent("availableReplicas", Int(0)), Rule::Absent("replicas", Int(0))]),
];

const DAEMON_SET: &[Rule] = &[
    Rule::Struct(
        "spec",
        &[
            Rule::Struct("updateStrategy", &[Rule::Call(daemon_set_strategy)]),
            Rule::Absent("revisionHistoryLimit", Int(10)),
            Rule::Struct("template", POD_TEMPLATE_SPEC),
        ],
    ),
    Rule::Struct(
        "status",
        &[
            Rule::Absent("currentNumberScheduled", Int(0)),
            Rule::Absent("numberMisscheduled", Int(0)),
            Rule::Absent("desiredNumberScheduled", Int(0)),
            Rule::Absent("numberReady", Int(0)),
        ],
    ),
];

fn deployment_strategy(strategy: &mut Map<String, Value>) {
    rolling_update(strategy, &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))], true);
}

fn daemon_set_strategy(strategy: &mut Map<String, Value>) {
    rolling_update(strategy, &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))], true);
}

fn stateful_set_strategy(strategy: &mut Map<String, Value>) {
    let make = text(strategy, "type").is_empty();
    rolling_update(strategy, &[("partition", json!(0)), ("maxUnavailable", json!(1))], make);
}

/// A rolling update has its numbers; `make` says whether it gets a place for them too.
fn rolling_update(strategy: &mut Map<String, Value>, numbers: &[(&str, Value)], make: bool) {
    if text(strategy, "type").is_empty() {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
    }
    if text(strategy, "type") != "RollingUpdate" {
        return;
    }
    let rolling = strategy.entry("rollingUpdate").or_insert(Value::Null);
    if rolling.is_null() && make {
        *rolling = json!({});
    }
    if let Value::Object(rolling) = rolling {
        for (name, number) in numbers {
            let field = rolling.entry(*name).or_insert(Value::Null);
            if field.is_null() {
                *field = number.clone();
            }
        }
    }
    strategy.retain(|_, value| !value.is_null());
}

fn claim_kind(claim: &mut Map<String, Value>) {
    claim.insert("apiVersion".to_owned(), "v1".into());
    claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
}
