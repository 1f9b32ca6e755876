//! Admission policies and their bindings.

use serde_json::Value;

use super::admission::rule;
use super::check::Causes;
use super::meta;
use crate::access::{at, items, text};
use crate::strategy::semantically_equal;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name::{self, CEL_RESERVED_WORDS, NameRule};

const MOST_CONDITIONS: usize = 64;
const MOST_ANNOTATIONS: usize = 20;
const MOST_ANNOTATION_BYTES: usize = 5 * 1024;

/// The purpose of an expression of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use<'a> {
    /// Says whether the policy looks at a request.
    MatchCondition,
    /// A variable of this name, which those after it may use.
    Variable(&'a str),
    /// Must be true.
    Validation,
    /// The message of a validation that is false.
    Message,
    /// The audit annotation of a request.
    AuditAnnotation,
}

/// Compiles expressions in the order in which a policy names them; what is wrong with one comes back.
pub type Compile<'c> = &'c mut dyn FnMut(Use<'_>, &str) -> Option<String>;

/// Returns the faults in the spec of a ValidatingAdmissionPolicy. Parts that stood there before are not checked
/// again.
pub fn admission_policy(policy: &Value, old: Option<&Value>, compile: Compile<'_>) -> Vec<Cause> {
    let mut causes = Causes::default();
    let spec = &policy["spec"];
    if old.is_some_and(|old| semantically_equal(&old["spec"], spec)) {
        return causes.0;
    }
    let path = Path::new("spec");
    match_part(&mut causes, spec, &path);
    conditions_and_variables(&mut causes, spec, old, compile);
    if items(spec, "validations").is_empty() && items(spec, "auditAnnotations").is_empty() {
        for field in ["validations", "auditAnnotations"] {
            let detail = "validations or auditAnnotations must contain at least one item";
            causes.required(&path.child(field), detail);
        }
        return causes.0;
    }
    for (index, one) in items(spec, "validations").iter().enumerate() {
        validation(&mut causes, one, &path.child("validations").index(index), compile);
    }
    audit_annotations(&mut causes, policy, &path.child("auditAnnotations"), compile);
    causes.0
}

/// The requests that a policy looks at.
fn match_part(causes: &mut Causes, spec: &Value, path: &Path) {
    causes.required_one_of(&path.child("failurePolicy"), text(spec, "failurePolicy"), &["Fail", "Ignore"]);
    if !at(spec, "paramKind").is_null() {
        param_kind(causes, at(spec, "paramKind"), &path.child("paramKind"));
    }
    let constraints = path.child("matchConstraints");
    if at(spec, "matchConstraints").is_null() {
        causes.required(&constraints, "");
    } else {
        match_resources(causes, at(spec, "matchConstraints"), &constraints);
        if items(spec, "matchConstraints.resourceRules").is_empty() {
            causes.required(&constraints.child("resourceRules"), "");
        }
    }
}

fn conditions_and_variables(causes: &mut Causes, spec: &Value, old: Option<&Value>, compile: Compile<'_>) {
    let kept = |field: &str| old.is_some_and(|old| semantically_equal(&old["spec"][field], &spec[field]));
    if !(kept("paramKind") && kept("matchConditions")) {
        match_conditions(causes, items(spec, "matchConditions"), compile);
    }
    for (index, variable) in items(spec, "variables").iter().enumerate() {
        let path = Path::new("spec.variables").index(index);
        self::variable(causes, variable, &path, compile);
    }
}

/// Returns the faults in the spec of a MutatingAdmissionPolicy, like [`admission_policy`]. Expressions that make patches
/// are not compiled: nothing here evaluates them.
pub fn mutating_admission_policy(policy: &Value, old: Option<&Value>, compile: Compile<'_>) -> Vec<Cause> {
    let mut causes = Causes::default();
    let spec = &policy["spec"];
    if old.is_some_and(|old| semantically_equal(&old["spec"], spec)) {
        return causes.0;
    }
    let path = Path::new("spec");
    match_part(&mut causes, spec, &path);
    mutable_operations(&mut causes, at(spec, "matchConstraints"), &path.child("matchConstraints"));
    conditions_and_variables(&mut causes, spec, old, compile);
    let mutations = items(spec, "mutations");
    if mutations.is_empty() {
        causes.required(&path.child("mutations"), "mutations must contain at least one item");
    }
    for (index, one) in mutations.iter().enumerate() {
        mutation(&mut causes, one, &path.child("mutations").index(index));
    }
    let policy = text(spec, "reinvocationPolicy");
    causes.required_one_of(&path.child("reinvocationPolicy"), policy, &["IfNeeded", "Never"]);
    causes.0
}

/// Only what is created or updated can be changed.
fn mutable_operations(causes: &mut Causes, resources: &Value, path: &Path) {
    for rule in items(resources, "resourceRules") {
        for operation in items(rule, "operations").iter().filter_map(Value::as_str) {
            let path = path.child("resourceRules.operations");
            causes.one_of(&path, operation, &["*", "CONNECT", "CREATE", "UPDATE"]);
        }
    }
}

fn mutation(causes: &mut Causes, mutation: &Value, path: &Path) {
    let kind = text(mutation, "patchType");
    causes.required_one_of(&path.child("patchType"), kind, &["ApplyConfiguration", "JSONPatch"]);
    let (own, other) = match kind {
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        _ => return,
    };
    if at(mutation, own).is_null() {
        causes.required(&path.child(own), &format!("must be specified when patchType is {kind}"));
    } else if text(at(mutation, own), "expression").trim().is_empty() {
        causes.required(&path.child(own).child("expression"), "");
    }
    if !at(mutation, other).is_null() {
        let detail = format!("must not be specified when patchType is {kind}");
        causes.invalid(&path.child(other), format!("{{{other}}}"), &detail);
    }
}

/// A MutatingAdmissionPolicyBinding.
pub(super) fn mutating_binding(causes: &mut Causes, object: &Value) {
    let (spec, path) = (at(object, "spec"), Path::new("spec"));
    causes.named(&path.child("policyName"), text(spec, "policyName"), name::dns1123_subdomain);
    if !at(spec, "paramRef").is_null() {
        param_ref(causes, at(spec, "paramRef"), &path.child("paramRef"));
    }
    let resources = at(spec, "matchResources");
    if !resources.is_null() {
        let path = path.child("matchResources");
        match_resources(causes, resources, &path);
        mutable_operations(causes, resources, &path);
    }
}

fn param_kind(causes: &mut Causes, kind: &Value, path: &Path) {
    let (at_version, version) = (path.child("apiVersion"), text(kind, "apiVersion"));
    match version.split('/').collect::<Vec<_>>().as_slice() {
        [""] => causes.required(&at_version, ""),
        ["", ""] => causes.invalid(&at_version, version, "version must be specified"),
        [own] => group_version(causes, "", own, version, &at_version),
        [group, own] => group_version(causes, group, own, version, &at_version),
        _ => {
            causes.invalid(&at_version, version, &format!("unexpected GroupVersion string: {version}"));
        }
    }
    let (at_kind, kind) = (path.child("kind"), text(kind, "kind"));
    let wrong = name::dns1035_label(&kind.to_lowercase());
    if kind.is_empty() {
        causes.required(&at_kind, "");
    } else if !wrong.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        causes.invalid(&at_kind, kind, &detail);
    }
}

fn group_version(causes: &mut Causes, group: &str, version: &str, whole: &str, path: &Path) {
    let wrong = name::dns1123_subdomain(group);
    if !group.is_empty() && !wrong.is_empty() {
        causes.invalid(path, group, &wrong.join(","));
    }
    let wrong = name::dns1035_label(version);
    if version.is_empty() {
        causes.invalid(path, whole, "version must be specified");
    } else if !wrong.is_empty() {
        causes.invalid(path, version, &wrong.join(","));
    }
}

fn match_resources(causes: &mut Causes, resources: &Value, path: &Path) {
    let policy = text(resources, "matchPolicy");
    causes.required_one_of(&path.child("matchPolicy"), policy, &["Equivalent", "Exact"]);
    for field in ["namespaceSelector", "objectSelector"] {
        if at(resources, field).is_null() {
            causes.required(&path.child(field), "");
        } else {
            causes.extend(meta::label_selector(at(resources, field), &path.child(field)));
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, one) in items(resources, field).iter().enumerate() {
            let path = path.child(field).index(index);
            resource_names(causes, one, &path.child("resourceNames"));
            rule(causes, one, &path);
        }
    }
}

fn resource_names(causes: &mut Causes, rule: &Value, path: &Path) {
    let names: Vec<&str> = items(rule, "resourceNames").iter().filter_map(Value::as_str).collect();
    for (index, name) in names.iter().enumerate() {
        causes.wrong(&path.index(index), name, &NameRule::PathSegment.check(name, false));
        if names[..index].contains(name) {
            causes.push(Cause::duplicate(&path.index(index), *name));
        }
    }
}

fn match_conditions(causes: &mut Causes, conditions: &[Value], compile: Compile<'_>) {
    let path = Path::new("spec").child("matchConditions");
    if conditions.len() > MOST_CONDITIONS {
        causes.push(Cause::too_many(&path, conditions.len(), MOST_CONDITIONS));
    }
    let mut names: Vec<&str> = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        expression(causes, text(condition, "expression").trim(), &path, ("", Use::MatchCondition), compile);
        let name = text(condition, "name");
        causes.named(&path.child("name"), name, name::qualified_name);
        if !name.is_empty() && names.contains(&name) {
            causes.push(Cause::duplicate(&path.child("name"), name));
        }
        names.push(name);
    }
}

/// An expression that must be there; `missing` is said where it is not.
fn expression(
    causes: &mut Causes,
    expression: &str,
    path: &Path,
    (missing, purpose): (&str, Use<'_>),
    compile: Compile<'_>,
) {
    let path = path.child("expression");
    if expression.trim().is_empty() {
        causes.required(&path, missing);
    } else if let Some(fault) = compile(purpose, expression) {
        causes.invalid(&path, expression, &fault);
    }
}

const NO_EXPRESSION: &str = "expression is not specified";

fn variable(causes: &mut Causes, variable: &Value, path: &Path, compile: Compile<'_>) {
    let name = text(variable, "name");
    if name.trim().is_empty() {
        causes.required(&path.child("name"), "name is not specified");
    } else if !is_identifier(name) {
        causes.invalid(&path.child("name"), name, "must be a valid CEL identifier");
    }
    expression(causes, text(variable, "expression"), path, (NO_EXPRESSION, Use::Variable(name)), compile);
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic())
        && name.chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric())
        && !CEL_RESERVED_WORDS.contains(&name)
}

fn validation(causes: &mut Causes, validation: &Value, path: &Path, compile: Compile<'_>) {
    expression(causes, text(validation, "expression"), path, (NO_EXPRESSION, Use::Validation), compile);
    let (at_message, message) = (path.child("messageExpression"), text(validation, "messageExpression"));
    if !message.is_empty() && message.trim().is_empty() {
        causes.invalid(&at_message, message, "must be non-empty if specified");
    } else if !message.is_empty()
        && let Some(fault) = compile(Use::Message, message)
    {
        causes.invalid(&at_message, message, &fault);
    }
    let message = text(validation, "message");
    if !message.is_empty() && message.trim().is_empty() {
        causes.invalid(&path.child("message"), message, "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        causes.invalid(&path.child("message"), message, "must not contain line breaks");
    }
    if let Some(reason) = at(validation, "reason").as_str() {
        let known = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        causes.one_of(&path.child("reason"), reason, &known);
    }
}

fn audit_annotations(causes: &mut Causes, policy: &Value, path: &Path, compile: Compile<'_>) {
    let annotations = items(policy, "spec.auditAnnotations");
    if annotations.len() > MOST_ANNOTATIONS {
        let shown = annotations.iter().map(|one| {
            let quoted = |field: &str| setpoint_api::go_format::json(&Value::from(text(one, field)));
            format!("{{\"Key\":{},\"ValueExpression\":{}}}", quoted("key"), quoted("valueExpression"))
        });
        let shown = BadValue::raw(format!("[{}]", shown.collect::<Vec<_>>().join(",")));
        let detail = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        causes.invalid(path, shown, &detail);
    }
    let mut keys: Vec<&str> = Vec::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let path = path.index(index);
        let (own, key) = (text(policy, "metadata.name"), text(annotation, "key"));
        if own.is_empty() {
            causes.invalid(&path.child("key"), key, "requires metadata.name be non-empty");
        } else {
            let full = format!("{own}/{key}");
            causes.wrong(&path.child("key"), &full, &name::qualified_name(&full));
        }
        let (at_value, value) = (path.child("valueExpression"), text(annotation, "valueExpression"));
        if value.trim().is_empty() {
            causes.required(&at_value, "valueExpression is not specified");
        } else if value.trim().len() > MOST_ANNOTATION_BYTES {
            causes.required(&at_value, &format!("must not exceed {MOST_ANNOTATION_BYTES} bytes in length"));
        } else if let Some(fault) = compile(Use::AuditAnnotation, value.trim()) {
            causes.invalid(&at_value, value, &fault);
        }
        if keys.contains(&key) {
            causes.push(Cause::duplicate(&path.child("key"), key));
        }
        keys.push(key);
    }
}

/// A ValidatingAdmissionPolicyBinding.
pub(super) fn binding(causes: &mut Causes, object: &Value) {
    let (spec, path) = (at(object, "spec"), Path::new("spec"));
    let name = text(spec, "policyName");
    if !name.is_empty() {
        causes.wrong(&path.child("policyName"), name, &name::dns1123_subdomain(name));
    }
    if !at(spec, "paramRef").is_null() {
        param_ref(causes, at(spec, "paramRef"), &path.child("paramRef"));
    }
    if !at(spec, "matchResources").is_null() {
        match_resources(causes, at(spec, "matchResources"), &path.child("matchResources"));
    }
    validation_actions(causes, spec, &path.child("validationActions"));
    // kube-apiserver reports missing fields at the end.
    if name.is_empty() {
        causes.required(&path.child("policyName"), "");
    }
    if items(spec, "validationActions").is_empty() {
        causes.required(&path.child("validationActions"), "");
    }
}

fn param_ref(causes: &mut Causes, param: &Value, path: &Path) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (name, selector) = (text(param, "name"), at(param, "selector"));
    if !name.is_empty() {
        causes.wrong(&path.child("name"), name, &NameRule::PathSegment.check(name, false));
        if !selector.is_null() {
            causes.forbidden(&path.child("name"), EXCLUSIVE);
        }
    }
    if !selector.is_null() {
        causes.extend(meta::label_selector(selector, &path.child("selector")));
        if !name.is_empty() {
            causes.forbidden(&path.child("selector"), EXCLUSIVE);
        }
    }
    if name.is_empty() && selector.is_null() {
        causes.required(path, "one of name or selector must be specified");
    }
    let action = text(param, "parameterNotFoundAction");
    causes.required_one_of(&path.child("parameterNotFoundAction"), action, &["Deny", "Allow"]);
}

fn validation_actions(causes: &mut Causes, spec: &Value, path: &Path) {
    let actions: Vec<&str> = items(spec, "validationActions").iter().filter_map(Value::as_str).collect();
    for (index, action) in actions.iter().enumerate() {
        causes.one_of(&path.index(index), action, &["Audit", "Deny", "Warn"]);
        if actions[..index].contains(action) {
            causes.push(Cause::duplicate(&path.index(index), *action));
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the \
                      API response and headers serves no purpose)";
        causes.invalid(path, BadValue::raw(at(spec, "validationActions").to_string()), detail);
    }
}
