//! Kinds with a rule or two each.

use serde_json::{Map, Value, json};

use super::Lit::{Int, Text};
use super::admission::CLIENT_CONFIG;
use super::{Rule, text};

pub(super) const POD_DISRUPTION_BUDGET: &[Rule] = &[
    Rule::Struct("spec", &[]),
    Rule::Struct(
        "status",
        &[
            Rule::Absent("currentHealthy", Int(0)),
            Rule::Absent("desiredHealthy", Int(0)),
            Rule::Absent("disruptionsAllowed", Int(0)),
            Rule::Absent("expectedPods", Int(0)),
        ],
    ),
];

pub(super) const PRIORITY_CLASS: &[Rule] =
    &[Rule::Absent("value", Int(0)), Rule::Absent("preemptionPolicy", Text("PreemptLowerPriority"))];

pub(super) const LEASE: &[Rule] = &[Rule::Struct("spec", &[])];

pub(super) const CSR: &[Rule] = &[Rule::Struct("status", &[])];

pub(super) const POD_CERTIFICATE: &[Rule] = &[
    Rule::Struct("spec", &[Rule::Absent("maxExpirationSeconds", Int(86_400))]),
    Rule::Struct("status", &[]),
];

pub(super) const DEVICE_TAINT_RULE: &[Rule] = &[Rule::Struct("status", &[])];

const DEVICE_TOLERATION: &[Rule] = &[Rule::Zero("operator", Text("Equal"))];

const WANTED_DEVICES: &[Rule] = &[
    Rule::Zero("allocationMode", Text("ExactCount")),
    Rule::Call(one_device),
    Rule::List("tolerations", DEVICE_TOLERATION),
];

/// An exact number of devices that is not given is one.
fn one_device(request: &mut Map<String, Value>) {
    let exact = request.get("allocationMode").and_then(Value::as_str) == Some("ExactCount");
    let none = request.get("count").and_then(Value::as_i64).unwrap_or_default() == 0;
    if exact && none {
        request.insert("count".to_owned(), 1.into());
    }
}

const DEVICE_CLAIM: &[Rule] = &[Rule::Struct(
    "devices",
    &[Rule::List(
        "requests",
        &[Rule::Pointer("exactly", WANTED_DEVICES), Rule::List("firstAvailable", WANTED_DEVICES)],
    )],
)];

pub(super) fn device(kind: &str) -> &'static [Rule] {
    match kind {
        "ResourceClaim" => &[Rule::Struct("spec", DEVICE_CLAIM), Rule::Struct("status", &[])],
        "ResourceClaimTemplate" => {
            &[Rule::Struct("spec", &[Rule::Struct("metadata", &[]), Rule::Struct("spec", DEVICE_CLAIM)])]
        }
        "DeviceClass" => &[Rule::Struct("spec", &[])],
        "DeviceTaintRule" => DEVICE_TAINT_RULE,
        _ => &[],
    }
}

pub(super) const MIGRATION: &[Rule] = &[Rule::Struct("status", &[])];

pub(super) const EVENTS_EVENT: &[Rule] = &[
    Rule::Struct("deprecatedSource", &[]),
    Rule::Struct("regarding", &[]),
    Rule::Shown("eventTime"),
    Rule::Shown("deprecatedFirstTimestamp"),
    Rule::Shown("deprecatedLastTimestamp"),
];

pub(super) const FLOW_SCHEMA: &[Rule] =
    &[Rule::Struct("spec", &[Rule::Zero("matchingPrecedence", Int(1000))]), Rule::Struct("status", &[])];

const QUEUING: &[Rule] =
    &[Rule::Zero("handSize", Int(8)), Rule::Zero("queues", Int(64)), Rule::Zero("queueLengthLimit", Int(50))];

pub(super) const PRIORITY_LEVEL: &[Rule] = &[
    Rule::Struct(
        "spec",
        &[
            Rule::Pointer(
                "limited",
                &[
                    Rule::Absent("nominalConcurrencyShares", Int(30)),
                    Rule::Absent("lendablePercent", Int(0)),
                    Rule::Struct("limitResponse", &[Rule::Pointer("queuing", QUEUING)]),
                ],
            ),
            Rule::Pointer(
                "exempt",
                &[Rule::Absent("nominalConcurrencyShares", Int(0)), Rule::Absent("lendablePercent", Int(0))],
            ),
        ],
    ),
    Rule::Struct("status", &[]),
];

pub(super) const API_SERVICE: &[Rule] = &[Rule::Struct("spec", CLIENT_CONFIG), Rule::Struct("status", &[])];

pub(super) const CRD: &[Rule] = &[
    Rule::Struct(
        "spec",
        &[
            Rule::Struct("names", &[Rule::Call(names)]),
            Rule::Call(conversion),
            Rule::Pointer(
                "conversion",
                &[Rule::Pointer("webhook", &[Rule::Pointer("clientConfig", CLIENT_CONFIG)])],
            ),
        ],
    ),
    Rule::Struct(
        "status",
        &[
            Rule::Struct(
                "acceptedNames",
                &[Rule::Absent("kind", Text("")), Rule::Absent("plural", Text(""))],
            ),
            Rule::Shown("conditions"),
        ],
    ),
    Rule::Call(stored_versions),
];

pub(super) fn rbac(kind: &str) -> &'static [Rule] {
    match kind {
        "RoleBinding" | "ClusterRoleBinding" => &[
            Rule::Struct("roleRef", &[Rule::Zero("apiGroup", Text(RBAC_GROUP))]),
            Rule::List("subjects", &[Rule::Call(subject)]),
        ],
        "Role" | "ClusterRole" => &[Rule::Shown("rules")],
        _ => &[],
    }
}

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

fn subject(subject: &mut Map<String, Value>) {
    if text(subject, "apiGroup").is_empty() && matches!(text(subject, "kind"), "User" | "Group") {
        subject.insert("apiGroup".to_owned(), RBAC_GROUP.into());
    }
}

fn names(names: &mut Map<String, Value>) {
    let kind = text(names, "kind").to_owned();
    if text(names, "singular").is_empty() && !kind.is_empty() {
        names.insert("singular".to_owned(), kind.to_lowercase().into());
    }
    if text(names, "listKind").is_empty() && !kind.is_empty() {
        names.insert("listKind".to_owned(), format!("{kind}List").into());
    }
}

fn conversion(spec: &mut Map<String, Value>) {
    let conversion = spec.entry("conversion").or_insert(Value::Null);
    if conversion.is_null() {
        *conversion = json!({"strategy": "None"});
    }
}

/// Starts the list of stored versions with the storage version.
fn stored_versions(crd: &mut Map<String, Value>) {
    let versions = crd.get("spec").map_or(&[][..], |spec| crate::access::items(spec, "versions"));
    let stored =
        versions.iter().find(|version| version["storage"] == true).map(|version| version["name"].clone());
    if let (Some(name), Some(Value::Object(status))) = (stored, crd.get_mut("status"))
        && status.get("storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty)
    {
        status.insert("storedVersions".to_owned(), json!([name]));
    }
}
