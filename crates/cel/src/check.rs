//! The type checker: an expression is refused when its schema is, not when an object meets it.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};

use super::functions::{FUNCTIONS, infix};
use super::macros::{self, Kind, Macro};
use super::source::{MOST_ERRORS, Source, told};
use super::ty::{Bindings, Ty, assignable, substitute};

/// The result of checking an expression.
pub(super) struct Checked {
    pub(super) ty: Ty,
    /// The macro calls that go over a map.
    pub(super) over_maps: BTreeSet<u64>,
    /// The additions that may put texts or lists together.
    pub(super) concatenations: BTreeSet<u64>,
    /// The values in lists and maps that may be large.
    pub(super) kept: BTreeSet<u64>,
    pub(super) uses_old_self: bool,
}

/// Checks an expression in which the variables have these types.
///
/// # Errors
/// All errors, formatted as cel-go formats them.
pub(super) fn check(expr: &IdedExpr, text: &str, variables: &[(&str, Ty)]) -> Result<Checked, String> {
    let mut checker = Checker {
        source: Source::new(text),
        scopes: variables.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect(),
        errors: Vec::new(),
        failures: 0,
        uses_old_self: false,
        over_maps: BTreeSet::new(),
        concatenations: BTreeSet::new(),
        kept: BTreeSet::new(),
    };
    let ty = checker.expr(expr);
    if checker.errors.is_empty() {
        let Checker { uses_old_self, over_maps, concatenations, kept, .. } = checker;
        return Ok(Checked { ty, over_maps, concatenations, kept, uses_old_self });
    }
    checker.errors.sort_by_key(|(at, _)| *at);
    let lines: Vec<String> =
        checker.errors.iter().map(|(at, text)| checker.source.describe(*at, text)).collect();
    Err(told(lines, checker.failures))
}

struct Checker<'s> {
    source: Source<'s>,
    scopes: Vec<(String, Ty)>,
    errors: Vec<(usize, String)>,
    /// The number of errors, including those that are not reported.
    failures: usize,
    uses_old_self: bool,
    over_maps: BTreeSet<u64>,
    concatenations: BTreeSet<u64>,
    kept: BTreeSet<u64>,
}

impl Checker<'_> {
    /// Notes an error. The faulty expression counts as `Dyn` from there on.
    fn fail(&mut self, at: usize, message: String) -> Ty {
        self.failures += 1;
        if self.errors.len() < MOST_ERRORS {
            self.errors.push((at, message));
        }
        Ty::Dyn
    }

    fn expr(&mut self, expr: &IdedExpr) -> Ty {
        match &expr.expr {
            Expr::Ident(name) => self.ident(name),
            Expr::Literal(literal) => self.literal(literal),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => match macros::read(call) {
                Some(found) => self.unexpanded(&found, &call.func_name, expr.id),
                None => {
                    let ty = self.call(call);
                    if call.func_name == operators::ADD && ty.may_be_large() {
                        self.concatenations.insert(expr.id);
                    }
                    ty
                }
            },
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                self.source.find("[");
                let mut item: Option<Ty> = None;
                for element in &list.elements {
                    let at = self.source.upcoming_value();
                    let ty = self.kept(element);
                    item = Some(self.join(item, ty, at));
                }
                self.source.find("]");
                Ty::list(item.unwrap_or(Ty::Param('_')))
            }
            Expr::Map(map) => {
                self.source.find("{");
                let (mut key, mut value) = (None, None);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let at = self.source.upcoming_value();
                    let ty = self.expr(&entry.key);
                    key = Some(self.join(key, ty, at));
                    self.source.find(":");
                    let at = self.source.upcoming_value();
                    let ty = self.kept(&entry.value);
                    value = Some(self.join(value, ty, at));
                }
                self.source.find("}");
                Ty::Map(Arc::new(key.unwrap_or(Ty::Param('_'))), Arc::new(value.unwrap_or(Ty::Param('_'))))
            }
            Expr::Struct(message) => {
                let at = self.source.upcoming_value();
                let text = format!("undeclared reference to '{}' (in container '')", message.type_name);
                self.fail(at, text)
            }
            Expr::Unspecified => Ty::Dyn,
        }
    }

    /// The type of a value that a list or a map will hold.
    fn kept(&mut self, expr: &IdedExpr) -> Ty {
        let ty = self.expr(expr);
        if ty.may_be_large() && !matches!(expr.expr, Expr::Literal(_)) {
            self.kept.insert(expr.id);
        }
        ty
    }

    /// The type of elements that must all have the same one.
    fn join(&mut self, so_far: Option<Ty>, ty: Ty, at: usize) -> Ty {
        let Some(wanted) = so_far else { return ty };
        if assignable(&wanted, &ty, &mut Bindings::new()) {
            return wanted;
        }
        if assignable(&ty, &wanted, &mut Bindings::new()) {
            return ty;
        }
        self.fail(at, format!("expected type '{wanted}' but found '{ty}'"))
    }

    fn variable(&mut self, name: &str) -> Option<Ty> {
        let found = self.scopes.iter().rev().find(|(own, _)| own == name).map(|(_, ty)| ty.clone())?;
        self.uses_old_self |= name == "oldSelf";
        Some(found)
    }

    fn ident(&mut self, name: &str) -> Ty {
        const TYPES: [&str; 10] =
            ["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"];
        let at = self.source.find(name);
        if let Some(ty) = self.variable(name) {
            return ty;
        }
        if TYPES.contains(&name) {
            return Ty::Type;
        }
        self.fail(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn literal(&mut self, literal: &LiteralValue) -> Ty {
        self.source.skip_literal();
        match literal {
            LiteralValue::Boolean(_) => Ty::Bool,
            LiteralValue::Bytes(_) => Ty::Bytes,
            LiteralValue::Double(_) => Ty::Double,
            LiteralValue::Int(_) => Ty::Int,
            LiteralValue::Null => Ty::Null,
            LiteralValue::String(_) => Ty::String,
            LiteralValue::UInt(_) => Ty::Uint,
        }
    }

    fn select(&mut self, select: &SelectExpr) -> Ty {
        if let Some(name) = well_known_type(select) {
            self.source.find(name.rsplit('.').next().unwrap_or_default());
            return Ty::Type;
        }
        let macro_at = select.test.then(|| {
            self.source.find("has");
            self.source.find("(")
        });
        let operand = self.expr(&select.operand);
        let dot = self.source.find_member(&select.field);
        let found = self.field(&operand, &select.field, macro_at.unwrap_or(dot));
        if select.test { Ty::Bool } else { found }
    }

    fn field(&mut self, operand: &Ty, field: &str, at: usize) -> Ty {
        match operand {
            Ty::Dyn | Ty::Param(_) => Ty::Dyn,
            Ty::Map(_, value) => (**value).clone(),
            Ty::Object(fields) => match fields.get(field) {
                Some(ty) => ty.clone(),
                None => self.fail(at, format!("undefined field '{field}'")),
            },
            Ty::Optional(inner) => {
                let found = self.field(inner, field, at);
                Ty::Optional(Arc::new(found))
            }
            other => self.fail(at, format!("type '{other}' does not support field selection")),
        }
    }

    fn call(&mut self, call: &CallExpr) -> Ty {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => {
                let condition = self.expr(condition);
                let at = self.source.find("?");
                let yes = self.expr(yes);
                self.source.find(":");
                let no = self.expr(no);
                self.resolve(name, &[condition, yes, no], false, at)
            }
            (operators::LOGICAL_NOT | operators::NEGATE, [operand]) => {
                let at = self.source.find(if name == operators::NEGATE { "-" } else { "!" });
                let operand = self.expr(operand);
                self.resolve(name, &[operand], false, at)
            }
            (operators::INDEX | operators::OPT_INDEX, [operand, index]) => {
                let operand = self.expr(operand);
                let at = self.source.find(if name == operators::INDEX { "[" } else { "[?" });
                let index = self.expr(index);
                self.source.find("]");
                self.resolve(name, &[operand, index], false, at)
            }
            (operators::OPT_SELECT, [operand, field]) => {
                let operand = self.expr(operand);
                let Expr::Literal(LiteralValue::String(field)) = &field.expr else { return Ty::Dyn };
                let at = self.source.find(".?");
                self.source.find(field.inner());
                match self.field(&operand, field.inner(), at) {
                    optional @ Ty::Optional(_) => optional,
                    plain => Ty::Optional(Arc::new(plain)),
                }
            }
            (_, [left, right]) if call.target.is_none() && infix(name).is_some() => {
                let left = self.expr(left);
                let at = self.source.find(infix(name).unwrap_or_default());
                let right = self.expr(right);
                self.resolve(name, &[left, right], false, at)
            }
            _ => self.function(call),
        }
    }

    fn function(&mut self, call: &CallExpr) -> Ty {
        let name = call.func_name.as_str();
        let qualified = call.target.as_ref().and_then(|target| match &target.expr {
            Expr::Ident(prefix) if self.variable_is_unknown(prefix) => {
                Some((prefix.clone(), format!("{prefix}.{name}")))
            }
            _ => None,
        });
        if let Some((prefix, full)) = qualified.filter(|(_, full)| FUNCTIONS.contains_key(full)) {
            self.source.find(&prefix);
            self.source.find_member(name);
            let at = self.source.find("(");
            let args: Vec<Ty> = call.args.iter().map(|arg| self.expr(arg)).collect();
            return self.resolve(&full, &args, false, at);
        }
        let mut args = Vec::with_capacity(call.args.len() + 1);
        match &call.target {
            Some(target) => {
                args.push(self.expr(target));
                self.source.find_member(name);
            }
            None => drop(self.source.find(name)),
        }
        let at = self.source.find("(");
        for arg in &call.args {
            let ty = match &arg.expr {
                // Arguments of `format` may be of several types.
                Expr::List(list) if name == "format" => {
                    for element in &list.elements {
                        self.kept(element);
                    }
                    Ty::list(Ty::Dyn)
                }
                _ => self.expr(arg),
            };
            args.push(ty);
        }
        self.check_literals(call, at);
        self.resolve(name, &args, call.target.is_some(), at)
    }

    fn variable_is_unknown(&self, name: &str) -> bool {
        !self.scopes.iter().any(|(own, _)| own == name)
    }

    /// A macro that the parser left as a call.
    fn unexpanded(&mut self, found: &Macro<'_>, name: &str, id: u64) -> Ty {
        let range = self.expr(found.range);
        let range_at = self.source.last_dot().unwrap_or_default();
        self.source.find_member(name);
        let at = self.source.find("(");
        let scopes = match (found.kind, &range) {
            (Kind::OptMap | Kind::OptFlatMap, Ty::Optional(value)) => vec![(**value).clone()],
            (Kind::SortBy, Ty::List(item)) => vec![(**item).clone()],
            (Kind::SortBy, Ty::Dyn | Ty::Param(_)) => vec![Ty::Dyn],
            (_, Ty::Dyn | Ty::Param(_)) => vec![Ty::Dyn, Ty::Dyn],
            (Kind::OptMap | Kind::OptFlatMap, other) => {
                let text = format!("found no matching overload for '{name}' applied to '{other}'");
                vec![self.fail(at, text)]
            }
            (_, Ty::List(item)) => vec![Ty::Int, (**item).clone()],
            (_, Ty::Map(key, value)) => {
                self.over_maps.insert(id);
                vec![(**key).clone(), (**value).clone()]
            }
            (_, other) => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                let any = self.fail(range_at, text);
                vec![any.clone(), any]
            }
        };
        let depth = self.scopes.len();
        for (variable, ty) in found.variables.iter().zip(scopes) {
            self.source.find(variable);
            self.scopes.push(((*variable).to_owned(), ty));
        }
        let bodies: Vec<Ty> = found.bodies.iter().map(|body| self.expr(body)).collect();
        self.scopes.truncate(depth);
        let last = bodies.last().cloned().unwrap_or(Ty::Dyn);
        match found.kind {
            Kind::All => self.resolve(operators::LOGICAL_AND, &[Ty::Bool, last], false, at),
            Kind::Exists | Kind::ExistsOne => {
                self.resolve(operators::LOGICAL_OR, &[Ty::Bool, last], false, at)
            }
            Kind::TransformList | Kind::TransformMap | Kind::TransformMapEntry => {
                if let [wanted, _] = bodies.as_slice() {
                    self.resolve(operators::LOGICAL_AND, &[Ty::Bool, wanted.clone()], false, at);
                }
                self.transformed(found.kind, &range, last, at)
            }
            Kind::SortBy => {
                let keys = Ty::list(last);
                self.resolve("@sortByAssociatedKeys", &[range, keys], true, at)
            }
            Kind::OptMap => Ty::Optional(Arc::new(last)),
            Kind::OptFlatMap => last,
        }
    }

    /// The type that `transformList` and the other transform macros make of results of this type.
    fn transformed(&mut self, kind: Kind, range: &Ty, result: Ty, at: usize) -> Ty {
        match (kind, result) {
            (Kind::TransformList, result) => Ty::list(result),
            (Kind::TransformMap, result) => {
                let key = match range {
                    Ty::List(_) => Ty::Int,
                    Ty::Map(key, _) => (**key).clone(),
                    _ => Ty::Dyn,
                };
                Ty::Map(Arc::new(key), Arc::new(result))
            }
            (_, entries @ (Ty::Map(..) | Ty::Dyn)) => entries,
            (_, other) => {
                let any = format!("(map(dyn, dyn), {other})");
                let text = format!("found no matching overload for 'cel.@mapInsert' applied to '{any}'");
                self.fail(at, text)
            }
        }
    }

    /// Refuses invalid literal patterns, times and durations.
    fn check_literals(&mut self, call: &CallExpr, open: usize) {
        let Some(Expr::Literal(LiteralValue::String(text))) = call.args.last().map(|arg| &arg.expr) else {
            return;
        };
        let text = text.inner();
        let valid = match call.func_name.as_str() {
            "matches" => setpoint_machinery::structural::is_pattern(text),
            "timestamp" if call.target.is_none() => text.parse::<jiff::Timestamp>().is_ok(),
            _ => true,
        };
        if !valid {
            self.fail(open + 1, format!("invalid {} argument", call.func_name));
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Ty {
        let range_at = self.source.upcoming_value();
        let range = self.expr(&comprehension.iter_range);
        let range_end = self.source.last_dot().unwrap_or(range_at);
        self.source.find(".");
        self.source.skip();
        let at = self.source.find("(");
        let item = match &range {
            Ty::List(item) => (**item).clone(),
            Ty::Map(key, _) => (**key).clone(),
            Ty::Dyn | Ty::Param(_) => Ty::Dyn,
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.fail(range_end, text)
            }
        };
        self.source.find(&comprehension.iter_var);
        self.scopes.push((comprehension.iter_var.clone(), item.clone()));
        let ty = self.loop_step(comprehension, &item, at);
        self.scopes.pop();
        ty
    }

    /// The type of the macro's result. The macro's own arguments are read off the loop that it became.
    fn loop_step(&mut self, comprehension: &ComprehensionExpr, item: &Ty, at: usize) -> Ty {
        let Expr::Call(step) = &comprehension.loop_step.expr else { return Ty::Dyn };
        match (step.func_name.as_str(), step.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [_, predicate]) => {
                let predicate = self.expr(predicate);
                self.resolve(&step.func_name, &[Ty::Bool, predicate], false, at)
            }
            (operators::ADD, [_, element]) => self.mapped(element),
            (operators::CONDITIONAL, [predicate, grown, _]) => {
                let predicate = self.expr(predicate);
                let Expr::Call(CallExpr { args, .. }) = &grown.expr else { return Ty::Dyn };
                let counts = matches!(args.get(1).map(|arg| &arg.expr), Some(Expr::Literal(_)));
                let is_item = args.get(1).is_some_and(|arg| is_only(arg, &comprehension.iter_var));
                let result = match args.get(1) {
                    _ if counts => Ty::Int,
                    Some(_) if is_item => Ty::list(item.clone()),
                    Some(element) => self.mapped(element),
                    None => Ty::Dyn,
                };
                let checked =
                    self.resolve(operators::CONDITIONAL, &[predicate, result.clone(), result], false, at);
                if counts { Ty::Bool } else { checked }
            }
            _ => Ty::Dyn,
        }
    }

    /// The list that a `map` makes of its one-element step.
    fn mapped(&mut self, element: &IdedExpr) -> Ty {
        match &element.expr {
            Expr::List(list) => match list.elements.as_slice() {
                [only] => Ty::list(self.expr(only)),
                _ => Ty::Dyn,
            },
            _ => Ty::Dyn,
        }
    }

    fn resolve(&mut self, name: &str, args: &[Ty], method: bool, at: usize) -> Ty {
        let Some(overloads) = FUNCTIONS.get(name) else {
            return self.fail(at, format!("undeclared reference to '{name}' (in container '')"));
        };
        let mut results: Vec<Ty> = Vec::new();
        for overload in overloads.iter().filter(|own| own.method == method && own.args.len() == args.len()) {
            let mut bindings = Bindings::new();
            if overload.args.iter().zip(args).all(|(wanted, given)| assignable(wanted, given, &mut bindings))
            {
                let result = substitute(&overload.result, &bindings);
                if !results.contains(&result) {
                    results.push(result);
                }
            }
        }
        match results.len() {
            1 => results.remove(0),
            0 => {
                let shown: Vec<String> = args.iter().map(ToString::to_string).collect();
                let applied = match shown.split_first() {
                    Some((receiver, rest)) if method => format!("{receiver}.({})", rest.join(", ")),
                    _ => format!("({})", shown.join(", ")),
                };
                self.fail(at, format!("found no matching overload for '{name}' applied to '{applied}'"))
            }
            _ => Ty::Dyn,
        }
    }
}

/// `[item]`, as `filter` adds it.
fn is_only(element: &IdedExpr, name: &str) -> bool {
    let Expr::List(list) = &element.expr else { return false };
    matches!(list.elements.as_slice(), [IdedExpr { expr: Expr::Ident(own), .. }] if own == name)
}

/// `google.protobuf.Timestamp` and its like name types.
fn well_known_type(select: &SelectExpr) -> Option<String> {
    let Expr::Select(inner) = &select.operand.expr else { return None };
    let Expr::Ident(root) = &inner.operand.expr else { return None };
    let is_type = root == "google"
        && inner.field == "protobuf"
        && ["Timestamp", "Duration"].contains(&select.field.as_str());
    is_type.then(|| format!("google.protobuf.{}", select.field))
}
