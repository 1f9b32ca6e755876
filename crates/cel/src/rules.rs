//! The rules of one schema, compiled, in the shape of the schema.

use serde_json::Value;
use setpoint_api::cause::BadValue;
use setpoint_api::{Cause, Path};
use setpoint_machinery::Interrupt;
use setpoint_machinery::structural::{Props, Rule, Structural};

use super::budget::Budget;
use super::cost;
use super::declaration::Declaration;
use super::program::Program;
use super::ty::Ty;
use super::validate::{Compiled, Found, Node, Ratchet};

/// How many rules are named when all together cost too much.
const MOST_EXPENSIVE: usize = 4;

/// The compiled rules of a kind.
#[derive(Debug, Default)]
pub struct Rules {
    root: Option<Node>,
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

    /// The rules of a schema that stands at `path`, everything that is wrong with them but their costs, and the highest
    /// cost of one run of each expression.
    pub fn examine(structural: &Structural, path: &Path) -> (Rules, Vec<Cause>, Vec<(Path, u64)>) {
        let mut compiler = Compiler::default();
        let root = compiler.node(structural.props(), path, true, None);
        (Rules { root }, compiler.causes, compiler.estimates)
    }

    /// The violations of the rules by an object: refused ones first, tolerated ones second. On an update, `old` is
    /// the stored object, and violations by values that did not change are tolerated. They are void once the interrupt
    /// is raised.
    pub fn validate(
        &self,
        object: &Value,
        old: Option<&Value>,
        interrupt: &Interrupt,
    ) -> (Vec<Cause>, Vec<Cause>) {
        let mut causes = Found { budget: Budget::until(interrupt), ..Found::default() };
        if let Some(root) = &self.root {
            root.validate(object, old, Ratchet { current: old, parent: None }, &Path::default(), &mut causes);
        }
        (causes.refused, causes.tolerated)
    }

    /// The violations of the rules by an object, tolerated ones included, and what their evaluation cost.
    pub fn measure(&self, object: &Value, old: Option<&Value>) -> (Vec<Cause>, u64) {
        let mut found = Found::default();
        if let Some(root) = &self.root {
            root.validate(object, old, Ratchet { current: old, parent: None }, &Path::default(), &mut found);
        }
        found.refused.append(&mut found.tolerated);
        (found.refused, found.budget.settled())
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

#[derive(Default)]
struct Compiler {
    causes: Vec<Cause>,
    /// Whether costs over the limits are errors.
    counts: bool,
    /// How often the place can be in one object; none where nothing bounds it.
    cardinality: Option<u64>,
    /// The highest cost of each expression, wherever it may be in one object.
    costs: Vec<(Path, u64)>,
    /// The highest cost of one run of each expression.
    estimates: Vec<(Path, u64)>,
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
    fn count(&mut self, what: &str, expr: &Program, root: &Declaration, path: &Path) {
        let estimate = expr.estimate(root);
        self.estimates.push((path.clone(), estimate));
        if !self.counts {
            return;
        }
        let times = self.cardinality.unwrap_or_else(|| root.most_places());
        let cost = estimate.saturating_mul(times);
        if cost > cost::RULE_LIMIT {
            let detail = cost::exceeds(&format!("estimated {what} cost"), cost, cost::RULE_LIMIT);
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
        for (name, property) in &props.properties {
            let at = path.child("properties").key(name);
            if let Some(child) = self.node(property, &at, property.embedded_resource, uncorrelated) {
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
        let scope = (!props.validations.is_empty()).then(|| Scope::of(props, is_resource));
        for (at, rule) in props.validations.iter().enumerate() {
            let path = path.child("x-kubernetes-validations").index(at);
            let compiled =
                scope.as_ref().and_then(|scope| self.rule(rule, scope.as_ref(), &path, uncorrelated));
            node.rules.extend(compiled);
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
        scope: Option<&Scope>,
        path: &Path,
        uncorrelated: Option<&Path>,
    ) -> Option<Compiled> {
        let at = path.child("rule");
        let Some(Scope { ty, root }) = scope else {
            let detail = "failed to convert to declType for CEL validation rules";
            self.causes.push(Cause::internal(&at, detail));
            return None;
        };
        let optional = rule.optional_old_self == Some(true);
        let old = if optional { Ty::Optional(std::sync::Arc::new(ty.clone())) } else { ty.clone() };
        let variables = [("self", ty.clone()), ("oldSelf", old)];
        let (expr, uses_old_self) =
            match self.expression(&rule.rule, &variables, &Ty::Bool, "rule", root, &at) {
                Ok(compiled) => compiled,
                Err(detail) => {
                    self.causes.push(Cause::invalid(&at, BadValue::raw(rule_json(rule)), &detail));
                    return None;
                }
            };
        let message = self.message(rule, &variables, root, path);
        match (uses_old_self, uncorrelated) {
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
        Some(Compiled { rule: rule.clone(), expr, message, uses_old_self })
    }

    /// Compiles an expression that must give a value of this type, and counts its cost.
    fn expression(
        &mut self,
        text: &str,
        variables: &[(&str, Ty)],
        wanted: &Ty,
        what: &str,
        root: &Declaration,
        path: &Path,
    ) -> Result<(Program, bool), String> {
        let compiled = Program::compile(text, variables, 0);
        let mut compiled = compiled.map_err(|errors| format!("compilation failed: {errors}"))?;
        if compiled.ty != *wanted {
            return Err(match wanted {
                Ty::Bool => "cel expression must evaluate to a bool".into(),
                _ => "messageExpression must evaluate to a string".into(),
            });
        }
        self.count(what, &compiled.program, root, path);
        compiled.program.plan().map_err(|error| format!("program instantiation failed: {error}"))?;
        Ok((compiled.program, compiled.uses_old_self))
    }

    fn message(
        &mut self,
        rule: &Rule,
        variables: &[(&str, Ty)],
        root: &Declaration,
        path: &Path,
    ) -> Option<Program> {
        if rule.message_expression.is_empty() {
            return None;
        }
        let at = path.child("messageExpression");
        // How often a rule may be false does not count: one message is enough.
        let times = self.cardinality.replace(1);
        let compiled =
            self.expression(&rule.message_expression, variables, &Ty::String, "messageExpression", root, &at);
        self.cardinality = times;
        match compiled {
            Ok((expr, _)) => Some(expr),
            Err(detail) => {
                let detail = match detail.split_once(' ') {
                    Some(("compilation", _)) => format!("messageExpression {detail}"),
                    Some(("program", rest)) => format!("messageExpression {rest}"),
                    _ => detail,
                };
                self.causes.push(Cause::invalid(&at, BadValue::raw(rule_json(rule)), &detail));
                None
            }
        }
    }
}

/// The values that the rules of one schema see.
struct Scope {
    ty: Ty,
    root: Declaration,
}

impl Scope {
    fn of(props: &Props, is_resource: bool) -> Option<Scope> {
        Some(Scope { ty: Ty::of(props, is_resource)?, root: Declaration::of(props, is_resource)? })
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
