//! Macros that the parser does not know, as loops that the evaluator does: comprehensions with two variables, and
//! `optMap`.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators,
};

/// A call that is one of these macros.
pub(super) struct Macro<'e> {
    pub(super) kind: Kind,
    pub(super) range: &'e IdedExpr,
    pub(super) variables: Vec<&'e str>,
    pub(super) bodies: &'e [IdedExpr],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    All,
    Exists,
    ExistsOne,
    TransformList,
    TransformMap,
    TransformMapEntry,
    SortBy,
    OptMap,
    OptFlatMap,
}

/// Reads a call as a macro, if it is one.
pub(super) fn read(call: &CallExpr) -> Option<Macro<'_>> {
    let kind = match call.func_name.as_str() {
        "all" => Kind::All,
        "exists" => Kind::Exists,
        "existsOne" | "exists_one" => Kind::ExistsOne,
        "transformList" => Kind::TransformList,
        "transformMap" => Kind::TransformMap,
        "transformMapEntry" => Kind::TransformMapEntry,
        "sortBy" => Kind::SortBy,
        "optMap" => Kind::OptMap,
        "optFlatMap" => Kind::OptFlatMap,
        _ => return None,
    };
    let count = if matches!(kind, Kind::OptMap | Kind::OptFlatMap | Kind::SortBy) { 1 } else { 2 };
    let (variables, bodies) = call.args.split_at_checked(count)?;
    let transforms = matches!(kind, Kind::TransformList | Kind::TransformMap | Kind::TransformMapEntry);
    let allowed = if transforms { 1..=2 } else { 1..=1 };
    if !allowed.contains(&bodies.len()) {
        return None;
    }
    let variables = variables.iter().map(|arg| match &arg.expr {
        Expr::Ident(name) => Some(name.as_str()),
        _ => None,
    });
    Some(Macro { kind, range: call.target.as_deref()?, variables: variables.collect::<Option<_>>()?, bodies })
}

/// Whether the call is one of these macros.
pub(super) fn is_macro(call: &CallExpr) -> bool {
    read(call).is_some()
}

/// The loop that a macro stands for. `maps` holds the calls whose range is a map. The range is written once: a chain of
/// macros would otherwise double with every link.
pub(super) fn expand(mut call: CallExpr, id: u64, maps: &BTreeSet<u64>) -> Expr {
    let range = call.target.take().map_or_else(IdedExpr::default, |range| *range);
    let name = format!("{RANGE}{id}");
    call.target = Some(Box::new(ident(&name)));
    let Some(found) = read(&call) else { return Expr::Call(call) };
    let body = over(&ident(&name), &found, maps.contains(&id));
    call_of(NAMED, vec![ident(&name), range, body]).expr
}

/// The result of a macro over the range that has this name.
fn over(range: &IdedExpr, found: &Macro<'_>, is_map: bool) -> IdedExpr {
    let first = found.variables[0];
    if matches!(found.kind, Kind::OptMap | Kind::OptFlatMap) {
        let value = method(range.clone(), "value");
        let mapped = item(mapped(list(vec![value]), first, found.bodies[0].clone()));
        let some = if found.kind == Kind::OptMap { optional("of", vec![mapped]) } else { mapped };
        let parts = vec![method(range.clone(), "hasValue"), some, optional("none", Vec::new())];
        return call_of(operators::CONDITIONAL, parts);
    }
    if found.kind == Kind::SortBy {
        let keys = mapped(range.clone(), first, found.bodies[0].clone());
        return call_of(SORTED, vec![range.clone(), keys]);
    }
    let second = found.variables[1];
    let value = list(vec![call_of(operators::INDEX, vec![range.clone(), ident(first)])]);
    let keys = if is_map { range.clone() } else { indexes(range.clone()) };
    let body = found.bodies[found.bodies.len() - 1].clone();
    match found.kind {
        Kind::All => all(keys, first, all(value, second, body)),
        Kind::Exists => exists(keys, first, exists(value, second, body)),
        Kind::ExistsOne => exists_one(keys, first, exists(value, second, body)),
        kind => {
            let made = item(mapped(value.clone(), second, body));
            // The parts of a map: its keys and what became of their values.
            let made = if kind == Kind::TransformMap { list(vec![ident(first), made]) } else { made };
            let all = match found.bodies {
                [wanted, _] => filtered(keys, first, exists(value, second, wanted.clone()), made),
                _ => mapped(keys, first, made),
            };
            match kind {
                Kind::TransformMap => call_of(MAP_OF_PAIRS, vec![all]),
                Kind::TransformMapEntry => call_of(MAP_OF_MAPS, vec![all]),
                _ => all,
            }
        }
    }
}

/// The beginning of the names of ranges.
pub(super) const RANGE: &str = "@range:";
/// The function that runs a loop that makes a list: of a range, a variable, what a turn costs, and what becomes of an item. A fifth
/// argument says which items count.
pub(super) const COLLECT: &str = "@collect";
/// The function that gives a value a name: of the name, the value, and what is made of it.
pub(super) const NAMED: &str = "@named";

const RESULT: &str = "@result";

/// Functions of ours that macros become; no rule can name them.
pub(super) const SORTED: &str = "@sorted";
pub(super) const MAP_OF_PAIRS: &str = "@pairs";
pub(super) const MAP_OF_MAPS: &str = "@entries";

fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

pub(super) fn ident(name: &str) -> IdedExpr {
    node(Expr::Ident(name.to_owned()))
}

fn list(elements: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::List(ListExpr::new(elements)))
}

fn call_of(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

fn method_of(target: IdedExpr, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: name.to_owned(), target: Some(Box::new(target)), args }))
}

fn method(target: IdedExpr, name: &str) -> IdedExpr {
    method_of(target, name, Vec::new())
}

pub(super) fn optional(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    method_of(ident("optional"), name, args)
}

pub(super) fn boolean(value: bool) -> IdedExpr {
    node(Expr::Literal(LiteralValue::Boolean(value.into())))
}

fn int(value: i64) -> IdedExpr {
    node(Expr::Literal(LiteralValue::Int(value.into())))
}

/// A field.
pub(super) fn field(operand: IdedExpr, name: &str) -> IdedExpr {
    let name = node(Expr::Literal(LiteralValue::String(name.into())));
    call_of(operators::INDEX, vec![operand, name])
}

/// The value, or an empty map if it is null.
pub(super) fn fields_of(value: IdedExpr) -> IdedExpr {
    let null = node(Expr::Literal(LiteralValue::Null));
    let is_null = call_of(operators::EQUALS, vec![value.clone(), null]);
    let empty = node(Expr::Map(MapExpr::default()));
    call_of(operators::CONDITIONAL, vec![is_null, empty, value])
}

/// The first item.
fn item(list: IdedExpr) -> IdedExpr {
    call_of(operators::INDEX, vec![list, int(0)])
}

/// The positions of a list.
fn indexes(list: IdedExpr) -> IdedExpr {
    method_of(ident("lists"), "range", vec![call_of("size", vec![list])])
}

/// A loop over `range`; `result` is what it gives in the end.
fn comprehension(
    range: IdedExpr,
    variable: &str,
    [init, condition, step, result]: [IdedExpr; 4],
) -> IdedExpr {
    node(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: range,
        iter_var: variable.to_owned(),
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init: init,
        loop_cond: condition,
        loop_step: step,
        result,
    })))
}

fn all(range: IdedExpr, variable: &str, body: IdedExpr) -> IdedExpr {
    let go_on = call_of(operators::NOT_STRICTLY_FALSE, vec![ident(RESULT)]);
    let step = call_of(operators::LOGICAL_AND, vec![ident(RESULT), body]);
    comprehension(range, variable, [boolean(true), go_on, step, ident(RESULT)])
}

fn exists(range: IdedExpr, variable: &str, body: IdedExpr) -> IdedExpr {
    let not_yet = call_of(operators::LOGICAL_NOT, vec![ident(RESULT)]);
    let go_on = call_of(operators::NOT_STRICTLY_FALSE, vec![not_yet]);
    let step = call_of(operators::LOGICAL_OR, vec![ident(RESULT), body]);
    comprehension(range, variable, [boolean(false), go_on, step, ident(RESULT)])
}

fn exists_one(range: IdedExpr, variable: &str, body: IdedExpr) -> IdedExpr {
    let more = call_of(operators::ADD, vec![ident(RESULT), int(1)]);
    let step = call_of(operators::CONDITIONAL, vec![body, more, ident(RESULT)]);
    let is_one = call_of(operators::EQUALS, vec![ident(RESULT), int(1)]);
    comprehension(range, variable, [int(0), boolean(true), step, is_one])
}

fn mapped(range: IdedExpr, variable: &str, body: IdedExpr) -> IdedExpr {
    let step = call_of(operators::ADD, vec![ident(RESULT), list(vec![body])]);
    comprehension(range, variable, [list(Vec::new()), boolean(true), step, ident(RESULT)])
}

fn filtered(range: IdedExpr, variable: &str, wanted: IdedExpr, body: IdedExpr) -> IdedExpr {
    let more = call_of(operators::ADD, vec![ident(RESULT), list(vec![body])]);
    let step = call_of(operators::CONDITIONAL, vec![wanted, more, ident(RESULT)]);
    comprehension(range, variable, [list(Vec::new()), boolean(true), step, ident(RESULT)])
}
