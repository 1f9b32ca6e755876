//! The policies with a binding.

use serde_json::Value;
use setpoint_api::kind::GroupVersionKind;
use setpoint_api::selector::{LabelSelector, SelectorError};
use setpoint_api::status::Reason;
use setpoint_store::{KeyRange, Snapshot};

use super::GROUP;
use super::scope::Scope;
use crate::entry;
use crate::key;
use crate::object;
use setpoint_cel::{Compiler, Condition};

/// A policy, compiled, with its bindings.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) ignores_failures: bool,
    pub(crate) param_kind: Option<GroupVersionKind>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) variables: Vec<(String, Condition)>,
    pub(crate) validations: Vec<Validation>,
    pub(crate) annotations: Vec<Condition>,
    pub(crate) bindings: Vec<Binding>,
}

/// A validation: the expression that must be true, and the message if it is false.
#[derive(Debug)]
pub(crate) struct Validation {
    pub(crate) expression: Condition,
    pub(crate) text: String,
    pub(crate) message: String,
    pub(crate) message_expression: Option<Condition>,
    pub(crate) reason: Reason,
}

/// A binding: the requests to which the policy applies, its params and its actions.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    /// `None` if the binding applies to all requests of the policy.
    pub(crate) scope: Option<Scope>,
    pub(crate) params: Option<ParamRef>,
    pub(crate) actions: Vec<Action>,
}

/// The action on a request that violates a policy. The server has no audit log, so `Audit` does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Deny,
    Warn,
}

/// The params that a binding selects.
#[derive(Debug)]
pub(crate) struct ParamRef {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) selector: Option<Result<LabelSelector, SelectorError>>,
    /// Whether the request is denied if there are no params.
    pub(crate) required: bool,
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

impl Policy {
    /// All policies with a binding, in the order of their names.
    pub(crate) fn all(snapshot: &Snapshot) -> Vec<Policy> {
        let bindings: Vec<Value> = stored(snapshot, "validatingadmissionpolicybindings").collect();
        if bindings.is_empty() {
            return Vec::new();
        }
        let policies = stored(snapshot, "validatingadmissionpolicies").filter_map(|policy| {
            let own =
                bindings.iter().filter(|binding| binding["spec"]["policyName"] == object::name(&policy));
            let own: Vec<Binding> = own.map(Binding::read).collect();
            (!own.is_empty()).then(|| Policy::read(&policy, own))
        });
        policies.collect()
    }

    fn read(policy: &Value, bindings: Vec<Binding>) -> Self {
        let spec = &policy["spec"];
        let param_kind = spec.get("paramKind").filter(|kind| !kind.is_null()).map(|kind| {
            let (group, version) =
                text(kind, "apiVersion").split_once('/').unwrap_or(("", text(kind, "apiVersion")));
            GroupVersionKind { group: group.into(), version: version.into(), kind: text(kind, "kind").into() }
        });
        let mut compiler = Compiler::new(param_kind.is_some(), list(spec, "variables").next().is_some());
        let variables = list(spec, "variables").map(|variable| {
            let name = text(variable, "name");
            (name.to_owned(), compiler.variable(name, text(variable, "expression")))
        });
        let variables = variables.collect();
        let conditions = list(spec, "matchConditions");
        Policy {
            name: object::name(policy).to_owned(),
            scope: Scope::of_policy(&spec["matchConstraints"]),
            ignores_failures: text(spec, "failurePolicy") == "Ignore",
            conditions: conditions.map(|own| compiler.condition(text(own, "expression"))).collect(),
            validations: list(spec, "validations").map(|own| Validation::read(own, &compiler)).collect(),
            annotations: list(spec, "auditAnnotations")
                .map(|own| compiler.annotation(text(own, "valueExpression")))
                .collect(),
            variables,
            param_kind,
            bindings,
        }
    }
}

fn stored(snapshot: &Snapshot, plural: &str) -> impl Iterator<Item = Value> {
    // Keys are in the order of names.
    let range = KeyRange::prefix(key::resource(GROUP, plural));
    let entries: Vec<Value> = snapshot.range(&range, None).map(|entry| entry::value(entry)).collect();
    entries.into_iter()
}

impl Validation {
    fn read(validation: &Value, compiler: &Compiler) -> Self {
        let expression = text(validation, "expression");
        let message = Some(text(validation, "messageExpression")).filter(|message| !message.is_empty());
        Validation {
            expression: compiler.validation(expression),
            text: expression.to_owned(),
            message: text(validation, "message").to_owned(),
            message_expression: message.map(|message| compiler.message(message)),
            reason: match text(validation, "reason") {
                "Forbidden" => Reason::Forbidden,
                "RequestEntityTooLarge" => Reason::RequestEntityTooLarge,
                _ => Reason::Invalid,
            },
        }
    }
}

impl Binding {
    fn read(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let there = |field: &str| spec.get(field).filter(|value| !value.is_null());
        let actions = list(spec, "validationActions").filter_map(|action| match action.as_str() {
            Some("Deny") => Some(Action::Deny),
            Some("Warn") => Some(Action::Warn),
            _ => None,
        });
        Binding {
            name: object::name(binding).to_owned(),
            scope: there("matchResources").map(Scope::of_policy),
            params: there("paramRef").map(ParamRef::read),
            actions: actions.collect(),
        }
    }
}

impl ParamRef {
    fn read(param: &Value) -> Self {
        let selector = param.get("selector").filter(|selector| !selector.is_null());
        ParamRef {
            name: text(param, "name").to_owned(),
            namespace: text(param, "namespace").to_owned(),
            selector: selector.map(LabelSelector::from_json),
            required: text(param, "parameterNotFoundAction") == "Deny",
        }
    }
}
