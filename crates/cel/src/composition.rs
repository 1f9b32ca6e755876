//! Expressions of admission policies. They may use variables, which are expressions of their own: each runs when it
//! is first needed, and only once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube_cel::cel::Value as Cel;
use serde_json::Value;
use setpoint_machinery::Interrupt;

use super::budget::Budget;
use super::conditions::{Condition, OUT_OF_BUDGET, Values, all_hold, fields, request};
use super::run::Names;
use super::ty::Ty;
use super::value;

/// Compiles the expressions of one policy.
#[derive(Debug)]
pub struct Compiler {
    params: bool,
    /// The variables so far; none where a policy has none.
    variables: Option<Arc<BTreeMap<String, Ty>>>,
    /// How deep each variable nests, with those that it uses.
    levels: BTreeMap<String, usize>,
}

impl Compiler {
    /// A compiler for a policy with or without a kind of params, and with or without variables.
    pub fn new(params: bool, composed: bool) -> Self {
        Compiler { params, variables: composed.then(Arc::default), levels: BTreeMap::new() }
    }

    fn compile(&self, text: &str, composed: bool, wanted: &[Ty]) -> Condition {
        let mut variables =
            vec![("object", Ty::Dyn), ("oldObject", Ty::Dyn), ("namespaceObject", namespace())];
        variables.push(("request", request()));
        if self.params {
            variables.push(("params", Ty::Dyn));
        }
        if let Some(own) = self.variables.as_ref().filter(|_| composed) {
            variables.push(("variables", Ty::Object(own.clone())));
        }
        Condition::compile(text, &variables, self.levels_below(text), wanted)
    }

    /// How deep the deepest variable nests whose name stands in the text.
    fn levels_below(&self, text: &str) -> usize {
        let words = text.split(|letter: char| letter != '_' && !letter.is_ascii_alphanumeric());
        words.filter_map(|word| self.levels.get(word)).max().copied().unwrap_or(0)
    }

    /// Compiles the next variable. Later expressions may use it.
    pub fn variable(&mut self, name: &str, text: &str) -> Condition {
        let compiled = self.compile(text, true, &[]);
        if let Some(variables) = &mut self.variables {
            Arc::make_mut(variables).insert(name.to_owned(), compiled.ty.clone());
            self.levels.insert(name.to_owned(), compiled.levels());
        }
        compiled
    }

    /// Compiles a match condition, which knows no variables.
    pub fn condition(&self, text: &str) -> Condition {
        self.compile(text, false, &[Ty::Bool])
    }

    /// Compiles a validation: it must be true.
    pub fn validation(&self, text: &str) -> Condition {
        self.compile(text, true, &[Ty::Bool])
    }

    /// Compiles a `messageExpression`: the message of a validation that is false.
    pub fn message(&self, text: &str) -> Condition {
        self.compile(text, true, &[Ty::String])
    }

    /// Compiles an audit annotation: a text, or null for none.
    pub fn annotation(&self, text: &str) -> Condition {
        self.compile(text, true, &[Ty::String, Ty::Null])
    }
}

/// The type of `namespaceObject`.
fn namespace() -> Ty {
    let texts = |names: &[&'static str]| names.iter().map(|name| (*name, Ty::String)).collect::<Vec<_>>();
    let finalizers = ("finalizers", Ty::list(Ty::String));
    let mut condition = texts(&["status", "type", "message", "reason"]);
    condition.push(("lastTransitionTime", Ty::Timestamp));
    let map = Ty::Map(Arc::new(Ty::String), Arc::new(Ty::String));
    let mut metadata = texts(&["name", "generateName", "namespace", "UID", "resourceVersion"]);
    metadata.extend([("labels", map.clone()), ("annotations", map), finalizers.clone()]);
    metadata.extend([("creationTimestamp", Ty::Timestamp), ("deletionTimestamp", Ty::Timestamp)]);
    metadata.extend([("deletionGracePeriodSeconds", Ty::Int), ("generation", Ty::Int)]);
    let status = [("conditions", Ty::list(fields(&condition))), ("phase", Ty::String)];
    fields(&[("metadata", fields(&metadata)), ("spec", fields(&[finalizers])), ("status", fields(&status))])
}

/// The values of the variables that every expression sees.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub object: &'a Value,
    pub old: &'a Value,
    pub request: &'a Value,
    pub namespace: &'a Value,
    pub params: &'a Value,
    /// The evaluation is void once it is raised.
    pub interrupt: &'a Interrupt,
}

/// One evaluation of a policy for a request.
pub struct Evaluation<'p> {
    values: [(&'static str, Cel); 5],
    variables: &'p [(String, Condition)],
    known: Mutex<BTreeMap<String, Result<Cel, String>>>,
    budget: Budget,
}

impl<'p> Evaluation<'p> {
    pub fn new(variables: &'p [(String, Condition)], facts: &Facts<'_>) -> Self {
        Evaluation {
            values: [
                ("object", value::untyped(facts.object)),
                ("oldObject", value::untyped(facts.old)),
                ("request", value::untyped(facts.request)),
                ("namespaceObject", value::untyped(facts.namespace)),
                ("params", value::untyped(facts.params)),
            ],
            variables,
            known: Mutex::default(),
            budget: Budget::until(facts.interrupt),
        }
    }

    /// Whether none of the conditions is false. They see no namespace.
    ///
    /// # Errors
    /// None is false, but some could not be evaluated.
    pub fn hold(&self, conditions: &[Condition]) -> Result<bool, String> {
        let mut values = self.values.clone();
        for (_, value) in values.iter_mut().filter(|(name, _)| *name == "namespaceObject") {
            *value = Cel::Null;
        }
        let budget = self.budget.another();
        all_hold(conditions, |condition| condition.run(&Values(&values), &budget))
    }

    /// Whether the validation is true.
    ///
    /// # Errors
    /// It could not be evaluated, in words.
    pub fn is_true(&self, validation: &Condition) -> Result<bool, String> {
        self.run(validation, &self.budget).map(|result| result == Cel::Bool(true))
    }

    /// The text that the expression gives, or `None` if it gives null.
    ///
    /// # Errors
    /// It could not be evaluated, in words.
    pub fn text(&self, expression: &Condition) -> Result<Option<String>, String> {
        self.run(expression, &self.budget).map(|result| match result {
            Cel::String(text) => Some(text.to_string()),
            _ => None,
        })
    }

    /// Whether this error says that nothing more may be evaluated.
    pub fn is_spent(error: &str) -> bool {
        error == OUT_OF_BUDGET
    }

    fn run(&self, expression: &Condition, budget: &Budget) -> Result<Cel, String> {
        expression.run(&Scope { evaluation: self, budget }, budget)
    }

    /// The value of a variable. It is computed when an expression first asks for it.
    fn variable(&self, name: &str, budget: &Budget) -> Option<Result<Cel, String>> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(name) {
            return Some(known.clone());
        }
        let (_, expression) = self.variables.iter().find(|(own, _)| own == name)?;
        let own = budget.another();
        let result = match expression.result(&Scope { evaluation: self, budget: &own }, &own) {
            Err(fault) => Err(format!("composited variable \"{name}\" fails to compile: {fault}")),
            Ok(result) => {
                result.map_err(|error| format!("composited variable \"{name}\" fails to evaluate: {error}"))
            }
        };
        budget.pay_for(&own);
        known().insert(name.to_owned(), result.clone());
        Some(result)
    }
}

/// The names that one run sees: with them the variables of the policy.
struct Scope<'e> {
    evaluation: &'e Evaluation<'e>,
    budget: &'e Budget,
}

impl Names for Scope<'_> {
    fn value(&self, name: &str) -> Option<Cel> {
        Values(&self.evaluation.values).value(name)
    }

    fn composed(&self, name: &str) -> Option<Result<Cel, String>> {
        self.evaluation.variable(name, self.budget)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(variables: &[(&str, &str)], validation: &str) -> Result<bool, String> {
        let mut compiler = Compiler::new(true, !variables.is_empty());
        let variables: Vec<(String, Condition)> = variables
            .iter()
            .map(|(name, text)| ((*name).to_owned(), compiler.variable(name, text)))
            .collect();
        let validation = compiler.validation(validation);
        if let Some(fault) = validation.fault() {
            return Err(fault.to_owned());
        }
        let object = json!({"spec": {"replicas": 3}});
        let namespace = json!({"metadata": {"labels": {"a": "b"}}});
        let facts = Facts {
            object: &object,
            old: &Value::Null,
            request: &json!({"operation": "CREATE"}),
            namespace: &namespace,
            params: &json!({"most": 2}),
            interrupt: &Interrupt::default(),
        };
        Evaluation::new(&variables, &facts).is_true(&validation)
    }

    #[test]
    fn variables_are_made_of_those_before_them() {
        let variables = [("replicas", "object.spec.replicas"), ("more", "variables.replicas + 1")];
        assert_eq!(judged(&variables, "variables.more == 4 && variables.replicas == 3"), Ok(true));
        assert_eq!(judged(&variables, "[1, 4].exists(n, n == variables.more)"), Ok(true));
        assert_eq!(judged(&variables, "has(variables.more) && variables.?more.orValue(0) == 4"), Ok(true));
        assert_eq!(judged(&variables, "variables.more <= params.most"), Ok(false));
        assert_eq!(judged(&[], "namespaceObject.metadata.labels['a'] == 'b'"), Ok(true));
    }

    /// The words are those of kube-apiserver 1.37.
    #[test]
    fn a_variable_without_a_value_is_an_error_where_it_is_needed() {
        let variables = [("none", "object.spec.none"), ("next", "variables.none + 1")];
        let error = "composited variable \"none\" fails to evaluate: no such key: none";
        assert_eq!(
            judged(&variables, "variables.none == 1"),
            Err(format!("expression 'variables.none == 1' resulted in error: {error}"))
        );
        let next = format!("composited variable \"next\" fails to evaluate: {error}");
        assert_eq!(
            judged(&variables, "variables.next == 1"),
            Err(format!("expression 'variables.next == 1' resulted in error: {next}"))
        );
        assert_eq!(judged(&variables, "object.spec.replicas == 3 || variables.none == 1"), Ok(true));
    }

    #[test]
    fn a_field_of_what_has_none_is_an_error() {
        for (text, expected) in [
            ("oldObject.spec.x != 1", "no such key: spec"),
            ("[1].all(n, oldObject.spec.x != n)", "no such key: spec"),
            ("object.spec.replicas.x != 1", "no such key: x"),
        ] {
            let error = format!("expression '{text}' resulted in error: {expected}");
            assert_eq!(judged(&[], text), Err(error));
        }
        assert_eq!(judged(&[], "oldObject.?spec.replicas.orValue(0) == 0 && oldObject == null"), Ok(true));
        assert_eq!(judged(&[], "has(oldObject.spec)"), Ok(false));
        assert_eq!(judged(&[], "object.?spec.replicas.orValue(0) == 3"), Ok(true));
    }

    #[test]
    fn texts_are_made_of_everything() {
        assert_eq!(judged(&[], "string(request.operation == 'CREATE') + string(1) == 'true1'"), Ok(true));
        assert_eq!(judged(&[], "string(ip('10.0.0.1')) == '10.0.0.1' && string(b'a') == 'a'"), Ok(true));
        let error = "expression 'string(object.none) == 'a'' resulted in error: no such key: none";
        assert_eq!(judged(&[], "string(object.none) == 'a'"), Err(error.to_owned()));
    }

    /// Variables run within each other: a chain of them must not run out of stack, nor what they make.
    #[test]
    fn a_chain_of_variables_is_as_deep_as_it_may() {
        let names: Vec<String> = (0..400).map(|number| format!("v{number}")).collect();
        for (first, link) in
            [("1", "variables. + 1"), ("[1]", "[variables.]"), ("'a'", "[[variables.], []][0][0]")]
        {
            let texts: Vec<String> = (0..400_usize)
                .map(|number| match number.checked_sub(1) {
                    Some(before) => link.replace("variables.", &format!("variables.v{before}")),
                    None => first.to_owned(),
                })
                .collect();
            let variables: Vec<(&str, &str)> =
                names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
            assert_eq!(judged(&variables[..100], "variables.v99 == variables.v99"), Ok(true));
            let (mut compiler, mut compiled) = (Compiler::new(false, true), Vec::new());
            for (name, text) in &variables {
                let variable = compiler.variable(name, text);
                compiled.push(((*name).to_owned(), variable));
            }
            let first_refused = compiled.iter().position(|(_, own)| own.fault().is_some()).unwrap();
            let fault = compiled[first_refused].1.fault().unwrap();
            assert_eq!(fault, "compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded");
            let last = compiler.validation(&format!("[variables.v{}].size() == 1", first_refused - 10));
            assert_eq!(last.fault(), None, "{link}");
            let nothing = Value::Null;
            let facts = Facts {
                object: &nothing,
                old: &nothing,
                request: &nothing,
                namespace: &nothing,
                params: &nothing,
                interrupt: &Interrupt::default(),
            };
            assert_eq!(Evaluation::new(&compiled, &facts).is_true(&last), Ok(true), "{link}");
        }
    }

    #[test]
    fn names_that_are_not_there_do_not_compile() {
        for (variables, text, expected) in [
            (&[][..], "variables.a == 1", "undeclared reference to 'variables'"),
            (&[("a", "1")], "variables.b == 1", "undefined field 'b'"),
            (&[("a", "1")], "variables.a == 'x'", "found no matching overload"),
            (&[], "namespaceObject.metadata.uid == ''", "undefined field 'uid'"),
            (
                &[],
                "authorizer.group('').resource('pods').check('get').allowed()",
                "undeclared reference to 'authorizer'",
            ),
            (&[], "1", "must evaluate to bool but got int"),
        ] {
            let error = judged(variables, text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let annotation = Compiler::new(false, false).annotation("1");
        assert_eq!(annotation.fault(), Some("must evaluate to one of [string null_type] but got int"));
    }
}
