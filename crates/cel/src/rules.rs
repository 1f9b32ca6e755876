//! The rules of one schema, compiled, in the shape of the schema.

use std::collections::BTreeMap;

use kube_cel::cel::Value as Cel;
use serde_json::Value;
use setpoint_api::cause::{BadValue, CauseType};
use setpoint_api::{Cause, Path};
use setpoint_machinery::structural::{OldItems, Props, Rule, Structural, field_path, unchanged};

use super::budget::{self, Budget};
use super::program::Program;
use super::ty::Ty;
use super::{cost, evaluate, value};

/// How many rules are named when all together cost too much.
const MOST_EXPENSIVE: usize = 4;
/// A message that a rule computes is at most this long.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The compiled rules of a kind.
#[derive(Debug, Default)]
pub struct Rules {
    root: Option<Node>,
}

#[derive(Debug, Default)]
struct Node {
    props: Props,
    rules: Vec<Compiled>,
    is_resource: bool,
    items: Option<Box<Node>>,
    properties: BTreeMap<String, Node>,
    additional: Option<Box<Node>>,
}

#[derive(Debug)]
struct Compiled {
    rule: Rule,
    expr: Program,
    /// The least cost of a run, beside its loops.
    cost: u64,
    message: Option<Program>,
    uses_old_self: bool,
}

impl Rules {
    /// Compiles all rules of a schema that stands at `path`.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn compile(structural: &Structural, path: &Path) -> Result<Rules, Vec<Cause>> {
        let mut compiler = Compiler::default();
        let root = compiler.node(structural.props(), path, true, None);
        if compiler.causes.is_empty() { Ok(Rules { root }) } else { Err(compiler.causes) }
    }

    /// All errors in the rules of a schema that is about to be written, including costs over the limit.
    pub fn check(structural: &Structural, path: &Path) -> Vec<Cause> {
        let mut compiler = Compiler { counts: true, cardinality: Some(1), ..Compiler::default() };
        compiler.node(structural.props(), path, true, None);
        compiler.total(path);
        compiler.causes
    }

    /// The violations of the rules by an object: refused ones first, tolerated ones second. On an update, `old` is
    /// the stored object, and violations by values that did not change are tolerated.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> (Vec<Cause>, Vec<Cause>) {
        let mut causes = Found::default();
        if let Some(root) = &self.root {
            root.validate(object, old, Ratchet { current: old, parent: None }, &Path::default(), &mut causes);
        }
        (causes.refused, causes.tolerated)
    }

    /// The violations of the rules by the defaults of the schema, which stands at `path`.
    pub fn validate_defaults(&self, path: &Path) -> Vec<Cause> {
        let mut causes = Found::default();
        if let Some(root) = &self.root {
            root.defaults(path, &mut causes);
        }
        causes.refused
    }

    /// Whether the schema has no rules.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }
}

/// The violations found in an object.
#[derive(Default)]
struct Found {
    refused: Vec<Cause>,
    tolerated: Vec<Cause>,
    budget: Budget,
    /// Whether the budget is spent. No further rule runs then.
    is_over: bool,
}

#[derive(Default)]
struct Compiler {
    causes: Vec<Cause>,
    /// Whether costs are counted.
    counts: bool,
    /// How often the place can be in one object; none where nothing bounds it.
    cardinality: Option<u64>,
    /// The highest cost of each rule.
    costs: Vec<(Path, u64)>,
}

impl Compiler {
    /// Goes below a list or map, which may hold so many values.
    fn below(&mut self, props: &Props, node: impl FnOnce(&mut Self) -> Option<Node>) -> Option<Node> {
        let above = self.cardinality;
        self.cardinality = above.zip(cost::bound(props)).map(|(above, most)| above.saturating_mul(most));
        let node = node(self);
        self.cardinality = above;
        node
    }

    /// Refuses a rule that may cost too much.
    fn count(&mut self, expr: &Program, props: &Props, path: &Path) {
        if !self.counts {
            return;
        }
        let times = self.cardinality.unwrap_or_else(|| cost::most_places(props));
        let cost = expr.estimate(props).saturating_mul(times);
        if cost > cost::RULE_LIMIT {
            let detail = cost::exceeds("estimated rule cost", cost, cost::RULE_LIMIT);
            self.causes.push(Cause::forbidden(path, &detail));
        }
        self.costs.push((path.clone(), cost));
    }

    /// Refuses a schema whose rules may cost too much together.
    fn total(&mut self, path: &Path) {
        let total = self.costs.iter().fold(0, |total: u64, (_, cost)| total.saturating_add(*cost));
        if total <= cost::SCHEMA_LIMIT {
            return;
        }
        self.costs.retain(|(_, cost)| *cost >= cost::SCHEMA_LIMIT / 100);
        self.costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        for (place, _) in self.costs.iter().take(MOST_EXPENSIVE) {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.causes.push(Cause::forbidden(place, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.causes.push(Cause::forbidden(path, &cost::exceeds(what, total, cost::SCHEMA_LIMIT)));
    }

    /// The node, or `None` if neither it nor anything below it has rules. `uncorrelated` is where old and new items
    /// stop being matched.
    fn node(
        &mut self,
        props: &Props,
        path: &Path,
        is_resource: bool,
        uncorrelated: Option<&Path>,
    ) -> Option<Node> {
        let mut node = Node { is_resource, ..Node::default() };
        let atomic_map = props.map_type.as_deref() == Some("atomic");
        let below = uncorrelated.cloned().or_else(|| atomic_map.then(|| path.clone()));
        for (name, property) in &props.properties {
            let at = path.child("properties").key(name);
            if let Some(child) = self.node(property, &at, property.embedded_resource, below.as_ref()) {
                node.properties.insert(name.clone(), child);
            }
        }
        if let Some(schema) = props.additional.as_ref().and_then(|more| more.schema.as_deref()) {
            let at = path.child("additionalProperties");
            let below =
                self.below(props, |this| this.node(schema, &at, schema.embedded_resource, uncorrelated));
            node.additional = below.map(Box::new);
        }
        if let Some(items) = &props.items {
            let keyed = props.list_type.as_deref() == Some("map");
            let below = uncorrelated.cloned().or_else(|| (!keyed).then(|| path.clone()));
            let at = path.child("items");
            let items =
                self.below(props, |this| this.node(items, &at, items.embedded_resource, below.as_ref()));
            node.items = items.map(Box::new);
        }
        for (at, rule) in props.validations.iter().enumerate() {
            let path = path.child("x-kubernetes-validations").index(at);
            if let Some(compiled) = self.rule(rule, props, is_resource, &path, uncorrelated) {
                node.rules.push(compiled);
            }
        }
        let has_rules = !node.rules.is_empty()
            || !node.properties.is_empty()
            || node.items.is_some()
            || node.additional.is_some();
        has_rules.then(|| {
            node.props = props.clone();
            node
        })
    }

    fn rule(
        &mut self,
        rule: &Rule,
        props: &Props,
        is_resource: bool,
        path: &Path,
        uncorrelated: Option<&Path>,
    ) -> Option<Compiled> {
        let at = path.child("rule");
        let shown = || BadValue::raw(rule_json(rule));
        let Some(ty) = Ty::of(props, is_resource) else {
            let detail = "failed to convert to declType for CEL validation rules";
            self.causes.push(Cause::internal(&path.child("rule"), detail));
            return None;
        };
        let optional = rule.optional_old_self == Some(true);
        let old = if optional { Ty::Optional(std::sync::Arc::new(ty.clone())) } else { ty.clone() };
        let variables = [("self", ty), ("oldSelf", old)];
        let (mut expr, checked) = match Program::compile(&rule.rule, &variables, 0) {
            Ok(compiled) => compiled,
            Err(errors) => {
                self.causes.push(Cause::invalid(&at, shown(), &format!("compilation failed: {errors}")));
                return None;
            }
        };
        if !matches!(checked.ty, Ty::Bool) {
            self.causes.push(Cause::invalid(&at, shown(), "cel expression must evaluate to a bool"));
            return None;
        }
        self.count(&expr, props, &at);
        expr.prepare(&checked);
        let message = self.message(rule, &variables, path);
        match (checked.uses_old_self, uncorrelated) {
            (true, Some(place)) => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {place}"
                );
                self.causes.push(Cause::invalid(&at, rule.rule.as_str(), &detail));
            }
            (false, _) => {
                if let Some(set) = rule.optional_old_self {
                    let detail = "may not be set if oldSelf is not used in rule";
                    self.causes.push(Cause::invalid(&path.child("optionalOldSelf"), set, detail));
                }
            }
            _ => {}
        }
        let cost = expr.least();
        Some(Compiled { rule: rule.clone(), expr, cost, message, uses_old_self: checked.uses_old_self })
    }

    fn message(&mut self, rule: &Rule, variables: &[(&str, Ty)], path: &Path) -> Option<Program> {
        if rule.message_expression.is_empty() {
            return None;
        }
        let at = path.child("messageExpression");
        let shown = || BadValue::raw(rule_json(rule));
        match Program::compile(&rule.message_expression, variables, 0) {
            Err(errors) => {
                let detail = format!("messageExpression compilation failed: {errors}");
                self.causes.push(Cause::invalid(&at, shown(), &detail));
                None
            }
            Ok((_, checked)) if !matches!(checked.ty, Ty::String) => {
                self.causes.push(Cause::invalid(&at, shown(), "messageExpression must evaluate to a string"));
                None
            }
            Ok((mut expr, checked)) => {
                expr.prepare(&checked);
                Some(expr)
            }
        }
    }
}

/// A rule as Go prints the struct that holds it.
fn rule_json(rule: &Rule) -> String {
    let quoted = |text: &str| setpoint_api::go_format::json(&Value::from(text));
    let reason = rule.reason.as_deref().map_or_else(|| "null".into(), quoted);
    let optional = rule.optional_old_self.map_or_else(|| "null".into(), |set| set.to_string());
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
        quoted(&rule.rule),
        quoted(&rule.message),
        quoted(&rule.message_expression),
        quoted(&rule.field_path),
    )
}

/// The old value here, and the nearest one above if there is none here.
#[derive(Clone, Copy)]
struct Ratchet<'v> {
    current: Option<&'v Value>,
    parent: Option<(&'v Value, &'v Value, &'v Props)>,
}

impl Node {
    fn defaults(&self, path: &Path, causes: &mut Found) {
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

    fn validate<'v>(
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
                let correlates = self.props.map_type.as_deref() != Some("atomic");
                for (name, value) in fields {
                    let old = old.and_then(|old| old.get(name));
                    let current = ratchet.current.and(old);
                    let below = Ratchet { current, parent };
                    let old = old.filter(|_| correlates);
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
        let own = value::convert(value, &self.props, self.is_resource);
        let old =
            old.filter(|old| !old.is_null()).map(|old| value::convert(old, &self.props, self.is_resource));
        for compiled in &self.rules {
            let optional = compiled.rule.optional_old_self == Some(true);
            if compiled.uses_old_self && old.is_none() && !optional {
                continue;
            }
            let old = if optional { Some(evaluate::optional(old.clone())) } else { old.clone() };
            let described = described(&compiled.rule);
            causes.budget.begin(compiled.cost);
            let result = run(&compiled.expr, &own, old.as_ref(), &causes.budget);
            if !causes.budget.settle() {
                let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
                causes.refused.push(Cause::invalid(path, self.props.kind.as_str(), detail));
                causes.is_over = true;
                return;
            }
            match result {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => {
                    let cause = self.cause(compiled, value, &own, old.as_ref(), path);
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
                    if causes.is_over {
                        return;
                    }
                }
            }
        }
    }

    fn is_unchanged(&self, value: &Value, ratchet: Ratchet<'_>) -> bool {
        match (ratchet.current, ratchet.parent) {
            (Some(old), _) => unchanged(value, old, &self.props),
            (None, Some((value, old, props))) => unchanged(value, old, props),
            (None, None) => false,
        }
    }

    fn cause(&self, compiled: &Compiled, value: &Value, own: &Cel, old: Option<&Cel>, path: &Path) -> Cause {
        let rule = &compiled.rule;
        let computed = compiled.message.as_ref().and_then(|message| computed_message(message, own, old));
        let detail = computed.unwrap_or_else(|| {
            if rule.message.is_empty() {
                format!("failed rule: {}", described(rule))
            } else {
                described(rule)
            }
        });
        let segments = field_path::resolve(&rule.field_path, &self.props).unwrap_or_default();
        let path = field_path::join(path, &segments);
        let omitted = matches!(self.props.kind.as_str(), "object" | "array");
        match rule.reason.as_deref() {
            Some("FieldValueForbidden") => Cause::forbidden(&path, &detail),
            Some("FieldValueRequired") => Cause::required(&path, &detail),
            Some("FieldValueDuplicate") if omitted => {
                let reason = CauseType::FieldValueDuplicate;
                Cause { reason, message: reason.words().into(), field: path.to_string() }
            }
            Some("FieldValueDuplicate") => Cause::duplicate(&path, value),
            _ if omitted => {
                let reason = CauseType::FieldValueInvalid;
                Cause { reason, message: format!("{}: {detail}", reason.words()), field: path.to_string() }
            }
            _ => Cause::invalid(&path, value, &detail),
        }
    }
}

/// The rule as errors name it.
fn described(rule: &Rule) -> String {
    if rule.message.is_empty() { rule.rule.trim().into() } else { rule.message.trim().into() }
}

/// The computed message, if it is usable.
fn computed_message(message: &Program, own: &Cel, old: Option<&Cel>) -> Option<String> {
    let budget = Budget::default();
    budget.begin(message.least());
    let Ok(Cel::String(text)) = run(message, own, old, &budget) else { return None };
    let text = text.trim();
    let usable = !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains(['\n', '\r']);
    usable.then(|| text.to_owned())
}

/// Runs an expression on a value and, for transition rules, the old one. Takes the cost from the budget.
fn run(expr: &Program, own: &Cel, old: Option<&Cel>, budget: &Budget) -> Result<Cel, String> {
    let mut variables = vec![("self", own.clone())];
    variables.extend(old.map(|old| ("oldSelf", old.clone())));
    expr.run(&variables, budget, budget)
}
