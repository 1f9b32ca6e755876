//! Expressions over a request. `matchConditions` say whether a webhook is asked.

use std::sync::Arc;

use kube_cel::cel::Value as Cel;
use serde_json::Value;
use setpoint_machinery::Interrupt;

use super::budget::Budget;
use super::program::Program;
use super::run::Names;
use super::ty::Ty;
use super::value;

/// The error of an evaluation after the budget of the whole object is spent.
pub(super) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// One expression.
#[derive(Debug)]
pub struct Condition {
    text: String,
    /// The program, or what is wrong with the expression.
    expr: Result<Program, String>,
    /// The type of the expression's value.
    pub(super) ty: Ty,
}

impl Condition {
    /// Compiles an expression over `object`, `oldObject`, `request` and `namespaceObject`.
    pub fn new(text: &str) -> Self {
        let variables = [
            ("object", Ty::Dyn),
            ("oldObject", Ty::Dyn),
            ("namespaceObject", Ty::Dyn),
            ("request", request()),
        ];
        Condition::compile(text, &variables, 0, &[Ty::Bool])
    }

    /// Compiles an expression over these variables that gives one of these types; if none is named, anything.
    /// The variables nest so many levels.
    pub(super) fn compile(text: &str, variables: &[(&str, Ty)], below: usize, wanted: &[Ty]) -> Self {
        let compiled =
            Program::compile(text, variables, below).map_err(|error| format!("compilation failed: {error}"));
        let ty = compiled.as_ref().map_or(Ty::Dyn, |compiled| compiled.ty.clone());
        let expr = compiled.and_then(|compiled| {
            if !wanted.is_empty() && !wanted.contains(&compiled.ty) {
                return Err(unwanted(wanted, &compiled.ty));
            }
            let mut program = compiled.program;
            program.plan().map_err(|error| format!("program instantiation failed: {error}"))?;
            Ok(program)
        });
        Condition { text: text.to_owned(), expr, ty }
    }

    /// The levels by which it nests, with the variables that it uses.
    pub(super) fn levels(&self) -> usize {
        self.expr.as_ref().map_or(0, |expr| expr.depth().levels())
    }

    /// The error of an expression that does not compile.
    pub fn fault(&self) -> Option<&str> {
        self.expr.as_ref().err().map(String::as_str)
    }

    /// Runs the expression.
    pub(super) fn run(&self, names: &dyn Names, budget: &Budget) -> Result<Cel, String> {
        let result = self.result(names, budget)?;
        result.map_err(|error| format!("expression '{}' resulted in error: {error}", self.text))
    }

    /// Runs the expression. The inner error is in cel-go's own words.
    ///
    /// # Errors
    /// The expression does not compile, or the budget of the whole object is spent.
    pub(super) fn result(&self, names: &dyn Names, budget: &Budget) -> Result<Result<Cel, String>, String> {
        let expr = self.expr.as_ref().map_err(Clone::clone)?;
        budget.begin();
        let result = expr.run(names, budget);
        if budget.settle() { Ok(result) } else { Err(OUT_OF_BUDGET.to_owned()) }
    }
}

/// The values of variables, by their names.
pub(super) struct Values<'v>(pub(super) &'v [(&'static str, Cel)]);

impl Names for Values<'_> {
    fn value(&self, name: &str) -> Option<Cel> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| value.clone())
    }
}

fn unwanted(wanted: &[Ty], ty: &Ty) -> String {
    let name = |ty: &Ty| if *ty == Ty::Null { "null_type".to_owned() } else { ty.to_string() };
    match wanted {
        [only] => format!("must evaluate to {} but got {}", name(only), name(ty)),
        several => {
            let names: Vec<String> = several.iter().map(name).collect();
            format!("must evaluate to one of [{}] but got {}", names.join(" "), name(ty))
        }
    }
}

pub(super) fn fields(fields: &[(&str, Ty)]) -> Ty {
    Ty::Object(Arc::new(fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect()))
}

/// The type of `request`: an AdmissionRequest without its objects.
pub(super) fn request() -> Ty {
    let texts = |names: &[&str]| fields(&names.iter().map(|name| (*name, Ty::String)).collect::<Vec<_>>());
    let (kind, resource) = (texts(&["group", "version", "kind"]), texts(&["group", "version", "resource"]));
    let extra = Ty::Map(Arc::new(Ty::String), Arc::new(Ty::list(Ty::String)));
    let groups = Ty::list(Ty::String);
    let user = [("username", Ty::String), ("uid", Ty::String), ("groups", groups), ("extra", extra)];
    fields(&[
        ("kind", kind.clone()),
        ("resource", resource.clone()),
        ("subResource", Ty::String),
        ("requestKind", kind),
        ("requestResource", resource),
        ("requestSubResource", Ty::String),
        ("name", Ty::String),
        ("namespace", Ty::String),
        ("operation", Ty::String),
        ("userInfo", fields(&user)),
        ("dryRun", Ty::Bool),
        ("options", Ty::Dyn),
    ])
}

/// Whether none of the conditions is false. The answer is void once the interrupt is raised.
///
/// # Errors
/// None is false, but some could not be evaluated.
pub fn hold(
    conditions: &[Condition],
    object: &Value,
    old: &Value,
    request: &Value,
    interrupt: &Interrupt,
) -> Result<bool, String> {
    let variables = [
        ("object", value::untyped(object)),
        ("oldObject", value::untyped(old)),
        ("namespaceObject", Cel::Null),
        ("request", value::untyped(request)),
    ];
    let budget = Budget::until(interrupt);
    all_hold(conditions, |condition| condition.run(&Values(&variables), &budget))
}

/// Whether none of the conditions is false, however they are run.
///
/// # Errors
/// None is false, but some could not be evaluated.
pub(super) fn all_hold(
    conditions: &[Condition],
    run: impl Fn(&Condition) -> Result<Cel, String>,
) -> Result<bool, String> {
    let mut errors = Vec::new();
    for condition in conditions {
        match run(condition) {
            Ok(Cel::Bool(true)) => {}
            Ok(Cel::Bool(false)) => return Ok(false),
            Ok(_) => errors.push("cel expression must evaluate to a bool".to_owned()),
            Err(error) => errors.push(error),
        }
    }
    match errors.as_slice() {
        [] => Ok(true),
        [only] => Err(only.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As kube-apiserver 1.37 answered.
    #[test]
    fn one_false_condition_is_enough_and_errors_count_only_without_one() {
        let object = json!({"metadata": {"labels": {"a": "b"}}, "data": {"n": 1}});
        let request = json!({"operation": "CREATE", "dryRun": false});
        let judged = |texts: &[&str]| {
            let conditions: Vec<Condition> = texts.iter().map(|text| Condition::new(text)).collect();
            hold(&conditions, &object, &Value::Null, &request, &Interrupt::default())
        };
        assert_eq!(judged(&[]), Ok(true));
        assert_eq!(judged(&["request.operation == 'CREATE'", "oldObject == null"]), Ok(true));
        assert_eq!(judged(&["object.metadata.labels['a'] == 'b' && object.data.n == 1"]), Ok(true));
        assert_eq!(judged(&["!has(object.metadata.annotations)"]), Ok(true));
        let wrong = "object.data.zzz == 'x'";
        let error = "expression 'object.data.zzz == 'x'' resulted in error: no such key: zzz".to_owned();
        assert_eq!(judged(&[wrong]), Err(error.clone()));
        assert_eq!(judged(&[wrong, "request.operation == 'DELETE'"]), Ok(false));
        assert_eq!(judged(&[wrong, wrong]), Err(format!("[{error}, {error}]")));
    }

    /// As kube-apiserver 1.37 answered.
    #[test]
    fn expressions_are_checked_when_they_are_written() {
        let fault = |text: &str| Condition::new(text).fault().map(str::to_owned);
        assert_eq!(fault("request.userInfo.extra['a'][0] == 'b' && request.dryRun"), None);
        assert_eq!(fault("object.x == 1 && oldObject == null && namespaceObject == null"), None);
        for (text, expected) in [
            ("1", "must evaluate to bool but got int"),
            ("object.x", "must evaluate to bool but got dyn"),
            ("request.userInfo.groups", "must evaluate to bool but got list(string)"),
            (
                "zork == 1",
                "compilation failed: ERROR: <input>:1:1: undeclared reference to 'zork' (in container '')\n | zork == 1\n | ^",
            ),
            (
                "request.uid == ''",
                "compilation failed: ERROR: <input>:1:8: undefined field 'uid'\n | request.uid == ''\n | .......^",
            ),
        ] {
            assert_eq!(fault(text).as_deref(), Some(expected));
        }
    }
}
