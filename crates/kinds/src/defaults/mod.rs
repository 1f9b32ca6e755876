//! Defaults that kube-apiserver fills in when it decodes an object.
//!
//! The knowledge is tables of `Rule`s, one table a type, which refer to each other as the types do. A few
//! rules that look at several fields at once are functions.

mod apps;
mod autoscaling;
mod batch;
mod core;
mod extensions;
mod admission;
mod networking;
mod pod;
mod storage;
mod volume;
mod container;

use serde_json::{Map, Value};

use setpoint_api::kind::GroupVersionKind;
use setpoint_api::quantity::Quantity;

/// A value that a table can hold.
#[derive(Clone, Copy, Debug)]
enum Lit {
    Int(i64),
    Text(&'static str),
    Bool(bool),
    Object,
}

impl Lit {
    fn value(self) -> Value {
        match self {
            Lit::Int(number) => number.into(),
            Lit::Text(text) => text.into(),
            Lit::Bool(truth) => truth.into(),
            Lit::Object => Value::Object(Map::new()),
        }
    }
}

/// One thing to do to an object of some type.
enum Rule {
    /// The field gets this value if it is absent.
    Absent(&'static str, Lit),
    /// The field gets this value if it is absent or zero: empty text or the number 0.
    Zero(&'static str, Lit),
    /// The field is an object that is always there.
    Struct(&'static str, &'static [Rule]),
    /// The field may be an object.
    Pointer(&'static str, &'static [Rule]),
    /// The field may be a list of objects.
    List(&'static str, &'static [Rule]),
    /// The field may be a map of quantities, kept to thousandths.
    Resources(&'static str),
    /// The field may be a quantity.
    Amount(&'static str),
    /// The field is shown even when there is none; an empty list shows as none.
    Shown(&'static str),
    /// A function, for defaults that no table can express.
    Call(fn(&mut Map<String, Value>)),
}

/// Fills in what the kind's defaults say. Kinds without a table stay as they are.
pub fn apply(kind: &GroupVersionKind, object: &mut Value) {
    let rules = rules(&kind.group, &kind.version, &kind.kind);
    if let Some(fields) = object.as_object_mut() {
        run(rules, fields);
    }
}

/// An empty list of these kinds is stored as none. Whoever sent it owns it nevertheless, so it is kept until then.
pub(crate) fn forget_empty(kind: &GroupVersionKind, object: &mut Value) {
    if let ("rbac.authorization.k8s.io", "Role" | "ClusterRole") = (&*kind.group, &*kind.kind)
        && let Some(rules) = object.get_mut("rules")
        && rules.as_array().is_some_and(Vec::is_empty)
    {
        *rules = Value::Null;
    }
}

/// Fills in the status alone, as an object that was just reset shows it.
pub(crate) fn status(kind: &GroupVersionKind, object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    for rule in rules(&kind.group, &kind.version, &kind.kind) {
        if matches!(rule, Rule::Struct("status", _)) {
            run(std::slice::from_ref(rule), fields);
        }
    }
}

fn rules(group: &str, version: &str, kind: &str) -> &'static [Rule] {
    match (group, version, kind) {
        ("", _, kind) => core::rules(kind),
        ("apps", _, kind) => apps::rules(kind),
        ("batch", _, kind) => batch::rules(kind),
        ("autoscaling", version, "HorizontalPodAutoscaler") => autoscaling::rules(version),
        ("networking.k8s.io", _, kind) => networking::rules(kind),
        ("discovery.k8s.io", _, "EndpointSlice") => networking::ENDPOINT_SLICE,
        ("policy", _, "PodDisruptionBudget") => extensions::POD_DISRUPTION_BUDGET,
        ("rbac.authorization.k8s.io", _, kind) => extensions::rbac(kind),
        ("admissionregistration.k8s.io", _, kind) => admission::rules(kind),
        ("storage.k8s.io", _, kind) => storage::rules(kind),
        ("scheduling.k8s.io", _, "PriorityClass") => extensions::PRIORITY_CLASS,
        ("apiextensions.k8s.io", _, "CustomResourceDefinition") => extensions::CRD,
        ("coordination.k8s.io", _, "Lease") => extensions::LEASE,
        ("certificates.k8s.io", _, "CertificateSigningRequest") => extensions::CSR,
        ("certificates.k8s.io", _, "PodCertificateRequest") => extensions::POD_CERTIFICATE,
        ("resource.k8s.io", _, kind) => extensions::device(kind),
        ("storagemigration.k8s.io", _, "StorageVersionMigration") => extensions::MIGRATION,
        ("events.k8s.io", _, "Event") => extensions::EVENTS_EVENT,
        ("flowcontrol.apiserver.k8s.io", _, "FlowSchema") => extensions::FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", _, "PriorityLevelConfiguration") => extensions::PRIORITY_LEVEL,
        ("apiregistration.k8s.io", _, "APIService") => extensions::API_SERVICE,
        _ => &[],
    }
}

fn run(rules: &[Rule], fields: &mut Map<String, Value>) {
    for rule in rules {
        match rule {
            Rule::Absent(name, value) => {
                let field = fields.entry(*name).or_insert(Value::Null);
                if field.is_null() {
                    *field = value.value();
                }
            }
            Rule::Zero(name, value) => {
                let field = fields.entry(*name).or_insert(Value::Null);
                if is_zero(field) {
                    *field = value.value();
                }
            }
            Rule::Struct(name, rules) => {
                let field = fields.entry(*name).or_insert(Value::Null);
                if field.is_null() {
                    *field = Value::Object(Map::new());
                }
                if let Value::Object(inner) = field {
                    run(rules, inner);
                }
            }
            Rule::Pointer(name, rules) => {
                if let Some(Value::Object(inner)) = fields.get_mut(*name) {
                    run(rules, inner);
                }
            }
            Rule::List(name, rules) => {
                for item in fields.get_mut(*name).and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Value::Object(inner) = item {
                        run(rules, inner);
                    }
                }
            }
            Rule::Resources(name) => {
                let amounts = fields.get_mut(*name).and_then(Value::as_object_mut);
                for (_, amount) in amounts.into_iter().flatten() {
                    canonical(amount, true);
                }
            }
            Rule::Amount(name) => {
                if let Some(amount) = fields.get_mut(*name).filter(|amount| !amount.is_null()) {
                    canonical(amount, false);
                }
            }
            Rule::Shown(name) => {
                let field = fields.entry(*name).or_insert(Value::Null);
                // See `forget_empty`.
                if *name != "rules" && field.as_array().is_some_and(Vec::is_empty) {
                    *field = Value::Null;
                }
            }
            Rule::Call(function) => function(fields),
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    }
}

/// An amount that is no quantity stays, for the validation to refuse.
fn canonical(amount: &mut Value, to_milli: bool) {
    if let Ok(quantity) = Quantity::from_json(amount) {
        let quantity = if to_milli { quantity.round_up_to_milli() } else { quantity };
        *amount = quantity.to_string().into();
    }
}

/// Text in a field; empty if there is none.
fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}
