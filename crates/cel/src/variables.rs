//! The names of variables in the expressions of policies, which are resolved when they are needed.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use super::macros;

/// Prefix of the names that stand for variables. No expression can write them.
pub(super) const VARIABLE: &str = "@variable:";
/// The variables that may be null. The evaluator would say that null cannot have fields; a field of these is merely
/// absent.
const NULLABLE: [&str; 4] = ["object", "oldObject", "namespaceObject", "params"];

/// Replaces `variables.name` by a name that is resolved when it is needed. Wraps a nullable variable whose field is
/// read, so that null counts as a map without entries. Adds no cost, because expressions are weighed before.
pub(super) fn rewrite(expr: &mut IdedExpr) {
    let is_variables = |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if name == "variables");
    match &mut expr.expr {
        // Only `has(variables.name)` is still a select, because other field reads became indexes. A variable always
        // exists.
        Expr::Select(select) if is_variables(&select.operand) => expr.expr = macros::boolean(true).expr,
        Expr::Select(select) => rewrite(&mut select.operand),
        Expr::Call(call) => {
            if let [operand, field] = call.args.as_slice()
                && is_variables(operand)
                && let Expr::Literal(LiteralValue::String(name)) = &field.expr
            {
                let name = macros::ident(&format!("{VARIABLE}{}", name.inner()));
                match call.func_name.as_str() {
                    operators::INDEX => expr.expr = name.expr,
                    operators::OPT_INDEX => expr.expr = macros::optional("of", vec![name]).expr,
                    _ => {}
                }
                return;
            }
            let is_index = matches!(call.func_name.as_str(), operators::INDEX | operators::OPT_INDEX);
            if let Some(operand) = call.args.first_mut().filter(|_| is_index)
                && matches!(&operand.expr, Expr::Ident(name) if NULLABLE.contains(&name.as_str()))
            {
                *operand = macros::fields_of(std::mem::take(operand));
                call.args.iter_mut().skip(1).for_each(rewrite);
                return;
            }
            call.target.iter_mut().for_each(|target| rewrite(target));
            // A loop's own variable of this name hides the policy's.
            let hides = call.func_name == macros::COLLECT && call.args.get(1).is_some_and(is_variables);
            let seen = if hides { 1 } else { call.args.len() };
            call.args[..seen].iter_mut().for_each(rewrite);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(rewrite),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    rewrite(&mut entry.key);
                    rewrite(&mut entry.value);
                }
            }
        }
        Expr::Comprehension(inner) => {
            rewrite(&mut inner.iter_range);
            rewrite(&mut inner.accu_init);
            // A loop's own variable of this name hides the policy's.
            if inner.iter_var != "variables" {
                rewrite(&mut inner.loop_cond);
                rewrite(&mut inner.loop_step);
                rewrite(&mut inner.result);
            }
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
}
