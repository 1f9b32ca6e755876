//! Runs the compiled rules of a schema on an object.

use std::collections::BTreeMap;

use kube_cel::cel::Value as Cel;
use serde_json::Value;
use setpoint_api::cause::CauseType;
use setpoint_api::{Cause, Path};
use setpoint_machinery::structural::{OldItems, Props, Rule, field_path, unchanged};

use super::budget::{self, Budget};
use super::conditions::OUT_OF_BUDGET;
use super::outcome::{none, some};
use super::program::Program;
use super::run::Names;
use super::value;

/// A message that a rule computes is at most this long.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The rules of a schema, and those below it.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) props: Props,
    pub(super) rules: Vec<Compiled>,
    pub(super) is_resource: bool,
    pub(super) items: Option<Box<Node>>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Option<Box<Node>>,
}

/// One rule.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) rule: Rule,
    pub(super) expr: Program,
    pub(super) message: Option<Program>,
    pub(super) uses_old_self: bool,
}

/// The violations found in an object.
#[derive(Default)]
pub(super) struct Found {
    pub(super) refused: Vec<Cause>,
    pub(super) tolerated: Vec<Cause>,
    pub(super) budget: Budget,
    /// Whether the budget is spent. No further rule runs then.
    pub(super) is_over: bool,
}

impl Found {
    /// Refuses the object, and runs no further rule.
    fn end(&mut self, path: &Path, kind: &str, detail: &str) {
        self.refused.push(Cause::invalid(path, kind, detail));
        self.is_over = true;
    }
}

/// The old value here, and the nearest one above if there is none here.
#[derive(Clone, Copy)]
pub(super) struct Ratchet<'v> {
    pub(super) current: Option<&'v Value>,
    pub(super) parent: Option<(&'v Value, &'v Value, &'v Props)>,
}

impl Node {
    pub(super) fn defaults(&self, path: &Path, causes: &mut Found) {
        if let Some(default) = &self.props.default {
            let nothing = Ratchet { current: None, parent: None };
            self.validate(default, None, nothing, &path.child("default"), causes);
        }
        for (name, node) in &self.properties {
            node.defaults(&path.child("properties").key(name), causes);
        }
        if let Some(items) = &self.items {
            items.defaults(&path.child("items"), causes);
        }
        if let Some(additional) = &self.additional {
            additional.defaults(&path.child("additionalProperties"), causes);
        }
    }

    pub(super) fn validate<'v>(
        &'v self,
        value: &'v Value,
        old: Option<&'v Value>,
        ratchet: Ratchet<'v>,
        path: &Path,
        causes: &mut Found,
    ) {
        if value.is_null() || causes.is_over {
            return;
        }
        self.run_rules(value, old, ratchet, path, causes);
        let parent = ratchet.current.map(|old| (value, old, &self.props)).or(ratchet.parent);
        match value {
            Value::Array(items) => {
                let Some(node) = &self.items else { return };
                let old = OldItems::of(old, &self.props);
                for (at, item) in items.iter().enumerate() {
                    let old = old.get(item);
                    let current = ratchet.current.and(old);
                    node.validate(item, old, Ratchet { current, parent }, &path.index(at), causes);
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = old.and_then(|old| old.get(name));
                    let current = ratchet.current.and(old);
                    let below = Ratchet { current, parent };
                    if let Some(node) = &self.additional {
                        node.validate(value, old, below, &path.key(name), causes);
                    }
                    if let Some(node) = self.properties.get(name) {
                        node.validate(value, old, below, &path.child(name), causes);
                    }
                }
            }
            _ => {}
        }
    }

    fn run_rules(
        &self,
        value: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
        path: &Path,
        causes: &mut Found,
    ) {
        if self.rules.is_empty() {
            return;
        }
        if causes.budget.is_empty() {
            causes.end(path, &self.props.kind, OUT_OF_BUDGET);
            return;
        }
        let own = value::convert(value, &self.props, self.is_resource);
        let old =
            old.filter(|old| !old.is_null()).map(|old| value::convert(old, &self.props, self.is_resource));
        for compiled in &self.rules {
            let optional = compiled.rule.optional_old_self == Some(true);
            if compiled.uses_old_self && old.is_none() && !optional {
                continue;
            }
            let old = if optional { Some(old.clone().map_or_else(none, some)) } else { old.clone() };
            let described = described(&compiled.rule);
            causes.budget.begin();
            let result = run(&compiled.expr, &own, old.as_ref(), &causes.budget);
            if !causes.budget.settle() {
                return causes.end(path, &self.props.kind, OUT_OF_BUDGET);
            }
            match result {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => {
                    let cause = match self.detail(compiled, &own, old.as_ref(), &causes.budget) {
                        Ok(detail) => self.cause(compiled, value, &detail, path),
                        Err(detail) => {
                            causes.is_over = true;
                            Cause::invalid(path, self.props.kind.as_str(), &detail)
                        }
                    };
                    if !compiled.uses_old_self && self.is_unchanged(value, ratchet) {
                        causes.tolerated.push(cause);
                    } else {
                        causes.refused.push(cause);
                    }
                }
                Err(error) => {
                    let detail = if error.starts_with("no such overload") {
                        format!(
                            "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {described}"
                        )
                    } else if error == budget::EXCEEDED {
                        causes.is_over = true;
                        format!(
                            "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {described}"
                        )
                    } else {
                        format!("{error} evaluating rule: {described}")
                    };
                    causes.refused.push(Cause::invalid(path, self.props.kind.as_str(), &detail));
                }
            }
            if causes.is_over {
                return;
            }
        }
    }

    /// The message about a rule that is false.
    ///
    /// # Errors
    /// The computed message costs too much, and no further rule runs.
    fn detail(
        &self,
        compiled: &Compiled,
        own: &Cel,
        old: Option<&Cel>,
        budget: &Budget,
    ) -> Result<String, String> {
        let rule = &compiled.rule;
        let computed = match &compiled.message {
            Some(message) => computed_message(message, &rule.message_expression, own, old, budget)?,
            None => None,
        };
        Ok(computed.unwrap_or_else(|| {
            if rule.message.is_empty() {
                format!("failed rule: {}", described(rule))
            } else {
                described(rule)
            }
        }))
    }

    fn is_unchanged(&self, value: &Value, ratchet: Ratchet<'_>) -> bool {
        match (ratchet.current, ratchet.parent) {
            (Some(old), _) => unchanged(value, old, &self.props),
            (None, Some((value, old, props))) => unchanged(value, old, props),
            (None, None) => false,
        }
    }

    fn cause(&self, compiled: &Compiled, value: &Value, detail: &str, path: &Path) -> Cause {
        let rule = &compiled.rule;
        let segments = field_path::resolve(&rule.field_path, &self.props).unwrap_or_default();
        let path = field_path::join(path, &segments);
        let omitted = matches!(self.props.kind.as_str(), "object" | "array");
        match rule.reason.as_deref() {
            Some("FieldValueForbidden") => Cause::forbidden(&path, detail),
            Some("FieldValueRequired") => Cause::required(&path, detail),
            Some("FieldValueDuplicate") if omitted => {
                let reason = CauseType::FieldValueDuplicate;
                Cause { reason, message: reason.words().into(), field: path.to_string() }
            }
            Some("FieldValueDuplicate") => Cause::duplicate(&path, value),
            _ if omitted => {
                let reason = CauseType::FieldValueInvalid;
                Cause { reason, message: format!("{}: {detail}", reason.words()), field: path.to_string() }
            }
            _ => Cause::invalid(&path, value, detail),
        }
    }
}

/// The rule as errors name it.
fn described(rule: &Rule) -> String {
    if rule.message.is_empty() { rule.rule.trim().into() } else { rule.message.trim().into() }
}

/// The computed message, if it is usable.
///
/// # Errors
/// It costs too much.
fn computed_message(
    message: &Program,
    text: &str,
    own: &Cel,
    old: Option<&Cel>,
    budget: &Budget,
) -> Result<Option<String>, String> {
    budget.begin();
    let result = run(message, own, old, budget);
    let error = |detail: &str| Err(format!("invalid: {detail}"));
    if !budget.settle() {
        return error(
            "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run",
        );
    }
    let made = match result {
        Ok(Cel::String(made)) => made,
        Err(words) if words == budget::EXCEEDED => {
            let text = setpoint_api::go_format::quote(text);
            return error(&format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {text}"
            ));
        }
        _ => return Ok(None),
    };
    let made = made.trim();
    let usable = !made.is_empty() && made.len() <= MAX_MESSAGE_BYTES && !made.contains('\n');
    Ok(usable.then(|| made.to_owned()))
}

/// The names of a rule.
struct Selves<'v> {
    own: &'v Cel,
    old: Option<&'v Cel>,
}

impl Names for Selves<'_> {
    fn value(&self, name: &str) -> Option<Cel> {
        match name {
            "self" => Some(self.own.clone()),
            "oldSelf" => self.old.cloned(),
            _ => None,
        }
    }
}

/// Runs an expression on a value and, for transition rules, the old one. Takes the cost from the budget.
fn run(expr: &Program, own: &Cel, old: Option<&Cel>, budget: &Budget) -> Result<Cel, String> {
    expr.run(&Selves { own, old }, budget)
}
