//! `matchConditions`: expressions over a request that say whether a webhook is asked.

use std::sync::Arc;

use kube_cel::cel::Value as Cel;
use kube_cel::cel::common::ast::IdedExpr;
use serde_json::Value;

use super::budget::{self, Budget};
use super::rules::compile;
use super::ty::Ty;
use super::{evaluate, value};

/// One expression.
#[derive(Debug)]
pub(crate) struct Condition {
    text: String,
    /// With what it costs at least; or what is wrong with it.
    expr: Result<(IdedExpr, u64), String>,
}

impl Condition {
    /// Compiles an expression over `object`, `oldObject`, `request` and `namespaceObject`.
    pub(crate) fn new(text: &str) -> Self {
        let variables = [
            ("object", Ty::Dyn),
            ("oldObject", Ty::Dyn),
            ("namespaceObject", Ty::Dyn),
            ("request", request()),
        ];
        let compiled = compile(text, &variables).map_err(|error| format!("compilation failed: {error}"));
        let expr = compiled.and_then(|(mut expr, checked)| {
            if checked.ty != Ty::Bool {
                return Err(format!("must evaluate to bool but got {}", checked.ty));
            }
            evaluate::prepare(&mut expr, &checked.over_maps);
            let cost = budget::least(&expr);
            Ok((expr, cost))
        });
        Condition { text: text.to_owned(), expr }
    }

    /// What is wrong with the expression.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.expr.as_ref().err().map(String::as_str)
    }

    fn run(&self, variables: &[(&str, Cel)], budget: &Budget) -> Result<Cel, String> {
        let (expr, cost) = self.expr.as_ref().map_err(Clone::clone)?;
        budget.begin(*cost);
        let result = evaluate::run_with(expr, variables, budget);
        if !budget.settle() {
            return Err("validation failed due to running out of cost budget, no further validation rules will be run".to_owned());
        }
        result.map_err(|error| format!("expression '{}' resulted in error: {error}", self.text))
    }
}

/// The type of `request`: an AdmissionRequest without its objects.
fn request() -> Ty {
    let fields = |fields: &[(&str, Ty)]| {
        Ty::Object(Arc::new(fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect()))
    };
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

/// Whether none of the conditions is false.
///
/// # Errors
/// None is false, but some could not be evaluated.
pub(crate) fn hold(
    conditions: &[Condition],
    object: &Value,
    old: &Value,
    request: &Value,
) -> Result<bool, String> {
    let variables = [
        ("object", value::untyped(object)),
        ("oldObject", value::untyped(old)),
        ("namespaceObject", Cel::Null),
        ("request", value::untyped(request)),
    ];
    let budget = Budget::default();
    let mut errors = Vec::new();
    for condition in conditions {
        match condition.run(&variables, &budget) {
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
            hold(&conditions, &object, &Value::Null, &request)
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
