//! The cost of an evaluation while it runs, in the units of kube-apiserver: 1,000,000 a rule, 10,000,000 an object.
//!
//! The evaluator has no hook for cost, but it asks for the values of variables. [`meter`] therefore makes every turn
//! of a loop ask for a variable whose name says what the turn costs. No rule can write that name. Once the budget is
//! spent, the variable's value is false, which ends the loop and soon the evaluation. The figures are lower bounds:
//! an evaluation that kube-apiserver finishes also finishes here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, operators};
use kube_cel::cel::context::VariableResolver;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, ResolveResult, Value};

use super::macros;

/// The cost limit of one evaluation.
const CALL_LIMIT: u64 = 1_000_000;
/// The cost limit of all evaluations on one object together.
const OBJECT_LIMIT: u64 = 10_000_000;

/// Prefix of the variables that stand for costs.
const SPEND: &str = "@spend:";
/// Prefix of the variables that stand for memory.
const HOLD: &str = "@hold:";
/// The function that takes the size of its argument from the budget.
const SIZED: &str = "@sized";
/// The function that puts texts or lists together and pays for them.
pub(super) const CONCATENATED: &str = "@concatenated";
/// The function that pays for the memory of what a list or a map will hold.
const KEPT: &str = "@kept";

/// The number of bytes that one evaluation may copy into new values. kube-apiserver shares the parts of a value that
/// it puts together, and counts a list as one unit however long it is. Copies need this bound here, because the cost
/// limits do not bound them.
const HOLD_LIMIT: u64 = 256 * 1024 * 1024;

/// The error of an evaluation that costs too much, as cel-go words it.
pub(super) const EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

/// The cost that remains for one object, and for the evaluation that runs.
#[derive(Debug)]
pub(super) struct Budget {
    object: AtomicU64,
    call: AtomicU64,
    /// The bytes that the evaluation may still copy.
    held: AtomicU64,
    exceeded: AtomicBool,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            object: AtomicU64::new(OBJECT_LIMIT),
            call: AtomicU64::new(CALL_LIMIT),
            held: AtomicU64::new(HOLD_LIMIT),
            exceeded: AtomicBool::new(false),
        }
    }
}

impl Budget {
    /// Begins an evaluation, which costs this much beside its loops.
    pub(super) fn begin(&self, cost: u64) {
        self.call.store(CALL_LIMIT, Ordering::Relaxed);
        self.held.store(HOLD_LIMIT, Ordering::Relaxed);
        self.exceeded.store(false, Ordering::Relaxed);
        self.spend(cost);
    }

    /// Whether the evaluation spent more than it may.
    pub(super) fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }

    /// Ends the evaluation. Returns whether the object's budget held.
    pub(super) fn settle(&self) -> bool {
        let spent = CALL_LIMIT - self.call.load(Ordering::Relaxed);
        let left = self.object.load(Ordering::Relaxed).checked_sub(spent);
        self.object.store(left.unwrap_or(0), Ordering::Relaxed);
        left.is_some()
    }

    /// Deducts the cost that `other` has spent from this object's budget.
    pub(super) fn pay_for(&self, other: &Budget) {
        let spent = OBJECT_LIMIT - other.object.load(Ordering::Relaxed);
        let left = self.object.load(Ordering::Relaxed).saturating_sub(spent);
        self.object.store(left, Ordering::Relaxed);
    }

    fn spend(&self, cost: u64) -> bool {
        self.take(&self.call, cost)
    }

    fn take(&self, from: &AtomicU64, amount: u64) -> bool {
        let left = from.load(Ordering::Relaxed).checked_sub(amount);
        from.store(left.unwrap_or(0), Ordering::Relaxed);
        if left.is_none() {
            self.exceeded.store(true, Ordering::Relaxed);
        }
        left.is_some()
    }
}

impl VariableResolver for Budget {
    fn resolve(&self, variable: &str) -> Option<Value> {
        if let Some(cost) = variable.strip_prefix(SPEND) {
            return Some(Value::Bool(self.spend(cost.parse().ok()?)));
        }
        let size = variable.strip_prefix(HOLD)?.parse().ok()?;
        Some(Value::Bool(self.take(&self.held, size)))
    }
}

pub(super) fn register(context: &mut Context<'_>) {
    context.add_function(SIZED, |call: &FunctionContext<'_, '_>, value: Value| -> ResolveResult {
        let cost = match &value {
            Value::String(text) => text.len() as u64 / 10,
            Value::Bytes(bytes) => bytes.len() as u64 / 10,
            Value::List(items) => items.len() as u64,
            _ => 0,
        };
        spend(call, cost)?;
        Ok(value)
    });
    context.add_function(
        CONCATENATED,
        |call: &FunctionContext<'_, '_>, left: Value, right: Value| -> ResolveResult {
            match (letters(&left), letters(&right)) {
                (Some(left), Some(right)) => spend(call, (left + right).div_ceil(10))?,
                _ => hold(call, footprint(&left) + footprint(&right))?,
            }
            match (left, right) {
                (Value::Bytes(left), Value::Bytes(right)) => {
                    Ok(Value::Bytes(Arc::new([left.as_slice(), right.as_slice()].concat())))
                }
                (left, right) => left + right,
            }
        },
    );
    context.add_function(KEPT, |call: &FunctionContext<'_, '_>, value: Value| -> ResolveResult {
        hold(call, footprint(&value))?;
        Ok(value)
    });
}

/// The length of what is put together letter by letter.
fn letters(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => Some(text.chars().count() as u64),
        Value::Bytes(bytes) => Some(bytes.len() as u64),
        _ => None,
    }
}

/// About how many bytes a value takes.
pub(super) fn footprint(value: &Value) -> u64 {
    let own = match value {
        Value::String(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(items) => items.iter().map(footprint).sum(),
        Value::Map(map) => map.map.values().map(|value| 64 + footprint(value)).sum(),
        _ => 0,
    };
    64 + own
}

/// Takes a cost from the budget of the evaluation that calls a function.
pub(super) fn spend(call: &FunctionContext<'_, '_>, cost: u64) -> Result<(), ExecutionError> {
    take(call, SPEND, cost)
}

/// Takes memory from the budget of the evaluation that calls a function.
pub(super) fn hold(call: &FunctionContext<'_, '_>, size: u64) -> Result<(), ExecutionError> {
    take(call, HOLD, size)
}

fn take(call: &FunctionContext<'_, '_>, what: &str, amount: u64) -> Result<(), ExecutionError> {
    // Without a budget no resolver knows the name.
    let answer = if amount > 0 { call.ptx.get_variable(format!("{what}{amount}")) } else { None };
    let within = answer.is_none_or(|answer| Value::try_from(&*answer).ok() != Some(Value::Bool(false)));
    if within { Ok(()) } else { Err(ExecutionError::function_error("cost", EXCEEDED)) }
}

/// Lets what a list or a map will hold pay for its memory.
pub(super) fn keep(expr: &mut IdedExpr) {
    let value = std::mem::take(expr);
    *expr = IdedExpr {
        id: value.id,
        expr: Expr::Call(CallExpr { func_name: KEPT.to_owned(), target: None, args: vec![value] }),
    };
}

/// Lets every turn of a loop pay for itself.
pub(super) fn meter(comprehension: &mut ComprehensionExpr) {
    let turn = least(&comprehension.loop_cond) + least(&comprehension.loop_step);
    let condition = std::mem::take(&mut comprehension.loop_cond);
    let spend = IdedExpr { id: 0, expr: Expr::Ident(format!("{SPEND}{turn}")) };
    comprehension.loop_cond = IdedExpr {
        id: condition.id,
        expr: Expr::Call(CallExpr {
            func_name: operators::LOGICAL_AND.to_owned(),
            target: None,
            args: vec![spend, condition],
        }),
    };
}

/// Lets a call that reads a text or a list to its end pay for its length.
pub(super) fn weigh(call: &mut CallExpr) {
    let read = match (call.func_name.as_str(), call.args.len()) {
        ("contains", 1)
        | ("matches" | "find" | "findAll" | "replace" | "split" | "indexOf" | "lastIndexOf" | "join", _)
        | (
            "lowerAscii" | "upperAscii" | "trim" | "isSorted" | "sum" | "min" | "max" | "sort" | "distinct",
            0,
        ) => match &mut call.target {
            Some(target) => &mut **target,
            None => match call.args.first_mut() {
                Some(text) => text,
                None => return,
            },
        },
        (operators::IN, 2) => &mut call.args[1],
        _ => return,
    };
    let value = std::mem::take(read);
    *read = IdedExpr {
        id: value.id,
        expr: Expr::Call(CallExpr { func_name: SIZED.to_owned(), target: None, args: vec![value] }),
    };
}

/// The least cost of running an expression, without the turns of its loops. Counts the cheaper of two branches, and
/// no right side of `&&` and `||`.
pub(super) fn least(expr: &IdedExpr) -> u64 {
    let each = |all: &[IdedExpr]| all.iter().map(least).sum::<u64>();
    match &expr.expr {
        Expr::Ident(name) => u64::from(!name.starts_with(SPEND) && !name.starts_with(macros::RANGE)),
        Expr::Select(select) => 1 + least(&select.operand),
        Expr::List(list) => 10 + each(&list.elements),
        Expr::Map(map) => {
            let entries = map.entries.iter().map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => least(&entry.key) + least(&entry.value),
                EntryExpr::StructField(_) => 0,
            });
            30 + entries.sum::<u64>()
        }
        Expr::Comprehension(inner) => {
            least(&inner.iter_range) + least(&inner.accu_init) + least(&inner.result)
        }
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => match &left.expr {
                // The left side is the accumulator of a loop: the right side is the loop's body, which runs.
                Expr::Ident(_) => least(left) + least(right),
                _ => least(left),
            },
            (operators::CONDITIONAL, [condition, yes, no]) => least(condition) + least(yes).min(least(no)),
            (SIZED | KEPT, [value]) => least(value),
            (CONCATENATED | macros::NAMED, args) => each(args),
            // The cost of the list that the loop begins with, and of the list that it gives.
            (macros::COLLECT, [range, ..]) => 11 + least(range),
            (_, args) => 1 + call.target.as_deref().map_or(0, least) + each(args),
        },
        Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => 0,
    }
}
