//! The types of macros.

use std::sync::Arc;

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, operators};

use super::check::Checker;
use super::macros::{Kind, Macro};
use super::ty::Ty;

impl Checker<'_> {
    /// A macro that the parser left as a call.
    pub(super) fn unexpanded(&mut self, found: &Macro<'_>, name: &str) -> Ty {
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
            (_, Ty::Map(key, value)) => vec![(**key).clone(), (**value).clone()],
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

    pub(super) fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Ty {
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
}

/// `[item]`, as `filter` adds it.
fn is_only(element: &IdedExpr, name: &str) -> bool {
    let Expr::List(list) = &element.expr else { return false };
    matches!(list.elements.as_slice(), [IdedExpr { expr: Expr::Ident(own), .. }] if own == name)
}
