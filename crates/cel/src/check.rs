//! The type checker: an expression is refused when its schema is, not when an object meets it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};

use super::functions::{Cost, FUNCTIONS, infix};
use super::macros;
use super::source::{MOST_ERRORS, Source, told};
use super::ty::{Bindings, Ty, assignable, equivalent, is_open, keyword, substitute};

/// The result of checking an expression.
pub(super) struct Checked {
    pub(super) ty: Ty,
    /// The type of each expression, by its id.
    pub(super) types: BTreeMap<u64, Ty>,
    /// The function of each call, by the call's id.
    pub(super) calls: BTreeMap<u64, Called>,
    pub(super) uses_old_self: bool,
}

/// The function that a call means.
#[derive(Clone, Debug, Default)]
pub(super) struct Called {
    /// Its name, with its namespace.
    pub(super) name: String,
    pub(super) method: bool,
    /// The overloads that the call may mean. Where a type is known only at run time there are several.
    pub(super) overloads: Vec<Cost>,
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
        types: BTreeMap::new(),
        calls: BTreeMap::new(),
        called: Called::default(),
    };
    let ty = checker.expr(expr);
    if checker.errors.is_empty() {
        let Checker { uses_old_self, types, calls, .. } = checker;
        return Ok(Checked { ty, types, calls, uses_old_self });
    }
    checker.errors.sort_by_key(|(at, _)| *at);
    let lines: Vec<String> =
        checker.errors.iter().map(|(at, text)| checker.source.describe(*at, text)).collect();
    Err(told(lines, checker.failures))
}

pub(super) struct Checker<'s> {
    pub(super) source: Source<'s>,
    pub(super) scopes: Vec<(String, Ty)>,
    errors: Vec<(usize, String)>,
    /// The number of errors, including those that are not reported.
    failures: usize,
    uses_old_self: bool,
    types: BTreeMap<u64, Ty>,
    calls: BTreeMap<u64, Called>,
    /// The function that was resolved last.
    called: Called,
}

impl Checker<'_> {
    /// Notes an error. The faulty expression counts as `Dyn` from there on.
    pub(super) fn fail(&mut self, at: usize, message: String) -> Ty {
        self.failures += 1;
        if self.errors.len() < MOST_ERRORS {
            self.errors.push((at, message));
        }
        Ty::Dyn
    }

    pub(super) fn expr(&mut self, expr: &IdedExpr) -> Ty {
        let ty = self.type_of(expr);
        if matches!(expr.expr, Expr::Call(_)) {
            self.calls.insert(expr.id, std::mem::take(&mut self.called));
        }
        self.types.insert(expr.id, ty.clone());
        ty
    }

    fn type_of(&mut self, expr: &IdedExpr) -> Ty {
        match &expr.expr {
            Expr::Ident(name) => self.ident(name),
            Expr::Literal(literal) => self.literal(literal),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => match macros::read(call) {
                Some(found) => self.unexpanded(&found, &call.func_name),
                None => self.call(call),
            },
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                self.source.find("[");
                let mut item: Option<Ty> = None;
                for (index, element) in list.elements.iter().enumerate() {
                    let at = self.source.upcoming_value();
                    let ty = self.expr(element);
                    let ty = self.present(ty, list.optional_indices.contains(&index), at);
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
                    let ty = self.expr(&entry.value);
                    let ty = self.present(ty, entry.optional, at);
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

    /// The type of a value in a list or a map: that of what is in an optional if it stands behind a question mark.
    fn present(&mut self, ty: Ty, optional: bool, at: usize) -> Ty {
        match ty {
            Ty::Optional(inner) if optional => (*inner).clone(),
            Ty::Dyn | Ty::Param(_) if optional => Ty::Dyn,
            other if optional => {
                self.fail(at, format!("expected type 'optional_type({other})' but found '{other}'"))
            }
            other => other,
        }
    }

    /// The type of elements that must all have the same one.
    fn join(&mut self, so_far: Option<Ty>, ty: Ty, at: usize) -> Ty {
        let Some(wanted) = so_far else { return ty };
        // Kubernetes' own check comes after cel-go's, and only if cel-go has found no error.
        if self.failures == 0 && !equivalent(&wanted, &ty) {
            return self.fail(at, format!("expected type '{wanted}' but found '{ty}'"));
        }
        if is_open(&wanted) && !is_open(&ty) && assignable(&ty, &wanted, &mut Bindings::new()) {
            return ty;
        }
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
            Ty::Object(fields) => match fields.get(field).or_else(|| fields.get(&keyword(field)?)) {
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
                self.called = Called { name: name.to_owned(), method: false, overloads: vec![Cost::Other] };
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
                        self.expr(element);
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

    pub(super) fn resolve(&mut self, name: &str, args: &[Ty], method: bool, at: usize) -> Ty {
        let Some(overloads) = FUNCTIONS.get(name) else {
            return self.fail(at, format!("undeclared reference to '{name}' (in container '')"));
        };
        let mut results: Vec<Ty> = Vec::new();
        let mut called = Vec::new();
        for overload in overloads.iter().filter(|own| own.method == method && own.args.len() == args.len()) {
            let mut bindings = Bindings::new();
            if overload.args.iter().zip(args).all(|(wanted, given)| assignable(wanted, given, &mut bindings))
            {
                called.push(overload.cost);
                let result = substitute(&overload.result, &bindings);
                if !results.contains(&result) {
                    results.push(result);
                }
            }
        }
        self.called = Called { name: name.to_owned(), method, overloads: called };
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

/// `google.protobuf.Timestamp` and its like name types.
pub(super) fn well_known_type(select: &SelectExpr) -> Option<String> {
    let Expr::Select(inner) = &select.operand.expr else { return None };
    let Expr::Ident(root) = &inner.operand.expr else { return None };
    let is_type = root == "google"
        && inner.field == "protobuf"
        && ["Timestamp", "Duration"].contains(&select.field.as_str());
    is_type.then(|| format!("google.protobuf.{}", select.field))
}
