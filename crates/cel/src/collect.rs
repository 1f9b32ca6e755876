//! Loops that make lists, and values that have names. The evaluator would copy what there is of the list in every turn,
//! and takes an optional value out of what it names.

use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators,
};
use kube_cel::cel::{Context, ExecutionError, FunctionContext, ResolveResult, Value};

use super::budget;
use super::macros::{COLLECT, NAMED};

/// The loop as a call, if it makes a list.
pub(super) fn read(comprehension: &mut ComprehensionExpr) -> Option<CallExpr> {
    let is_result =
        |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if *name == comprehension.accu_var);
    let starts_empty = matches!(&comprehension.accu_init.expr, Expr::List(list) if list.elements.is_empty());
    let goes_on =
        matches!(&comprehension.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(flag)) if *flag.inner());
    if !starts_empty || !goes_on || !is_result(&comprehension.result) {
        return None;
    }
    let adds = |expr: &IdedExpr| match &expr.expr {
        Expr::Call(call) if call.func_name == operators::ADD => match call.args.as_slice() {
            [so_far, more] => is_result(so_far) && is_single(more),
            _ => false,
        },
        _ => false,
    };
    let filters = match &comprehension.loop_step.expr {
        Expr::Call(call) if call.func_name == operators::CONDITIONAL => match call.args.as_slice() {
            [_, yes, no] => adds(yes) && is_result(no),
            _ => false,
        },
        _ => false,
    };
    if !filters && !adds(&comprehension.loop_step) {
        return None;
    }
    let turn = budget::least(&comprehension.loop_step);
    let mut step = std::mem::take(&mut comprehension.loop_step);
    let mut wanted = None;
    if filters && let Expr::Call(mut call) = std::mem::take(&mut step.expr) {
        step = call.args.swap_remove(1);
        wanted = Some(call.args.swap_remove(0));
    }
    let variable = Expr::Ident(comprehension.iter_var.clone());
    let turn = Expr::Literal(LiteralValue::Int(i64::try_from(turn).unwrap_or(i64::MAX).into()));
    let range = std::mem::take(&mut comprehension.iter_range);
    let mut args =
        vec![range, IdedExpr { id: 0, expr: variable }, IdedExpr { id: 0, expr: turn }, single(step)?];
    args.extend(wanted);
    Some(CallExpr { func_name: COLLECT.to_owned(), target: None, args })
}

fn is_single(expr: &IdedExpr) -> bool {
    matches!(&expr.expr, Expr::List(ListExpr { elements, optional_indices })
        if elements.len() == 1 && optional_indices.is_empty())
}

/// The item in `result + [item]`.
fn single(step: IdedExpr) -> Option<IdedExpr> {
    let Expr::Call(mut call) = step.expr else { return None };
    let Expr::List(mut list) = call.args.pop()?.expr else { return None };
    list.elements.pop()
}

pub(super) fn register(context: &mut Context<'_>) {
    context.add_function(COLLECT, |call: &FunctionContext<'_, '_>| -> ResolveResult { collect(call) });
    context.add_function(NAMED, |call: &FunctionContext<'_, '_>| -> ResolveResult { named(call) });
}

fn named(call: &FunctionContext<'_, '_>) -> ResolveResult {
    let [IdedExpr { expr: Expr::Ident(name), .. }, value, body] = call.args else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let mut scope = call.ptx.new_inner_scope();
    scope.add_variable_from_value(name.as_str(), Value::resolve(value, call.ptx)?);
    Value::resolve(body, &scope)
}

fn collect(call: &FunctionContext<'_, '_>) -> ResolveResult {
    let [range, variable, turn, item, wanted @ ..] = call.args else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let (Expr::Ident(variable), Value::Int(turn)) = (&variable.expr, Value::resolve(turn, call.ptx)?) else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let range: Arc<Vec<Value>> = match Value::resolve(range, call.ptx)? {
        Value::List(items) => items,
        Value::Map(map) => Arc::new(map.map.keys().map(Value::from).collect()),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let mut made = Vec::new();
    for own in range.iter() {
        budget::spend(call, turn.unsigned_abs())?;
        let mut scope = call.ptx.new_inner_scope();
        scope.add_variable_from_value(variable.as_str(), own.clone());
        if let [wanted] = wanted {
            match Value::resolve(wanted, &scope)? {
                Value::Bool(true) => {}
                Value::Bool(false) => continue,
                _ => return Err(ExecutionError::NoSuchOverload),
            }
        }
        let value = Value::resolve(item, &scope)?;
        budget::hold(call, budget::footprint(&value))?;
        made.push(value);
    }
    Ok(Value::List(Arc::new(made)))
}
