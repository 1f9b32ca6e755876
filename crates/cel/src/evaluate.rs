//! Running expressions, with errors in cel-go's words.

use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, operators};
use kube_cel::cel::context::VariableResolver;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};

use super::budget::{self, Budget};
use super::check::Checked;
use super::{collect, macros, more};

/// The functions, and the names of types. Shared by all evaluations.
static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    context.add_function("type", |value: Value| -> ResolveResult {
        Ok(Value::String(Arc::new(type_name(&value).to_owned())))
    });
    context.add_function("dyn", |value: Value| -> ResolveResult { Ok(value) });
    context.add_function("bool", |value: Value| -> ResolveResult { to_bool(value) });
    context.add_function("string", |value: Value| -> ResolveResult { to_string(value) });
    context.add_function("timestamp", |value: Value| -> ResolveResult { to_timestamp(value) });
    for name in ["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"] {
        context.add_variable_from_value(name, marker(name));
    }
    more::register(&mut context);
    budget::register(&mut context);
    collect::register(&mut context);
    context
});

/// The functions that the evaluator itself has. Ours are made of them.
static BASE: LazyLock<Context<'static>> = LazyLock::new(Context::default);

/// The functions that the evaluator and its Kubernetes libraries have.
static EXTENDED: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

/// The evaluator's own function knows no booleans, and reports an argument that is an error as one of a wrong type.
fn to_string(value: Value) -> ResolveResult {
    static CALL: LazyLock<IdedExpr> = LazyLock::new(|| parse("string(value)").expect("it is an expression"));
    if let Value::Bool(flag) = value {
        return Ok(Value::String(Arc::new(flag.to_string())));
    }
    let mut context = EXTENDED.new_inner_scope();
    context.add_variable_from_value("value", value);
    Value::resolve(&CALL, &context)
}

/// Times are in UTC whatever offset they were written with: so are their years, days and hours.
fn to_timestamp(value: Value) -> ResolveResult {
    let invalid = || {
        ExecutionError::function_error(
            "timestamp",
            "type conversion error from 'string' to 'google.protobuf.Timestamp'",
        )
    };
    let time = match &value {
        Value::String(text) => text.parse::<jiff::Timestamp>().map_err(|_| invalid())?,
        Value::Int(seconds) => jiff::Timestamp::from_second(*seconds).map_err(|_| invalid())?,
        _ => return Ok(value),
    };
    let expr = parse(&format!("timestamp('{time}')")).map_err(|_| invalid())?;
    Value::resolve(&expr, &BASE)
}

fn to_bool(value: Value) -> ResolveResult {
    let Value::String(text) = &value else { return Ok(value) };
    match text.as_str() {
        "true" | "True" | "TRUE" | "t" | "1" => Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" | "f" | "0" => Ok(Value::Bool(false)),
        _ => Err(ExecutionError::function_error("bool", "type conversion error from 'string' to 'bool'")),
    }
}

/// Types are compared by name; the mark keeps them apart from text.
fn marker(name: &str) -> String {
    format!("type:{name}")
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "type:list",
        Value::Map(_) => "type:map",
        Value::Int(_) => "type:int",
        Value::UInt(_) => "type:uint",
        Value::Float(_) => "type:double",
        Value::String(_) => "type:string",
        Value::Bytes(_) => "type:bytes",
        Value::Bool(_) => "type:bool",
        Value::Null => "type:null_type",
        Value::Timestamp(_) => "type:google.protobuf.Timestamp",
        Value::Duration(_) => "type:google.protobuf.Duration",
        _ => "type:unknown",
    }
}

/// A position (line and column from one) and a message.
pub(super) type SyntaxError = ((isize, isize), String);

/// Deeper than any expression that is parsed: [`super::depth`] bounds them.
const RECURSION: u16 = 2000;

/// Parses an expression. It recurses as deep as the expression nests.
///
/// # Errors
/// The errors with their positions.
pub(super) fn parse(text: &str) -> Result<IdedExpr, Vec<SyntaxError>> {
    let parsed = Parser::new().enable_optional_syntax(true).max_recursion_depth(RECURSION).parse(text);
    parsed.map_err(|errors| errors.errors.into_iter().map(|error| (error.pos, error.msg)).collect())
}

/// Brings an expression into the form that the evaluator runs. Macros that the evaluator does not know become loops.
/// Optional field selection becomes optional indexing, which treats an absent field as absent.
pub(super) fn prepare(expr: &mut IdedExpr, checked: &Checked) {
    let (is_kept, concatenates) =
        (checked.kept.contains(&expr.id), checked.concatenations.contains(&expr.id));
    if let Expr::Call(call) = &mut expr.expr {
        if concatenates {
            budget::CONCATENATED.clone_into(&mut call.func_name);
        } else if macros::is_macro(call) {
            expr.expr = macros::expand(std::mem::take(call), expr.id, &checked.over_maps);
        }
    }
    match &mut expr.expr {
        Expr::Call(call) => {
            if call.func_name == operators::OPT_SELECT {
                call.func_name = operators::OPT_INDEX.to_owned();
            }
            more::rename(call);
            call.target.iter_mut().for_each(|target| prepare(target, checked));
            call.args.iter_mut().for_each(|arg| prepare(arg, checked));
            budget::weigh(call);
        }
        Expr::Select(select) => {
            prepare(&mut select.operand, checked);
            // The evaluator gives false for a field of a value without fields, so a field is read by index, which is
            // an error there.
            if !select.test {
                let operand = std::mem::take(&mut *select.operand);
                expr.expr = macros::field(operand, &select.field).expr;
            }
        }
        Expr::List(list) => list.elements.iter_mut().for_each(|element| prepare(element, checked)),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    prepare(&mut entry.key, checked);
                    prepare(&mut entry.value, checked);
                }
            }
        }
        Expr::Comprehension(comprehension) => {
            for part in [
                &mut comprehension.iter_range,
                &mut comprehension.accu_init,
                &mut comprehension.loop_cond,
                &mut comprehension.loop_step,
                &mut comprehension.result,
            ] {
                prepare(part, checked);
            }
            if let Some(collected) = collect::read(comprehension) {
                expr.expr = Expr::Call(collected);
            } else {
                budget::meter(comprehension);
            }
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
    if is_kept {
        budget::keep(expr);
    }
}

/// Runs an expression in which these variables have values, and the resolver knows the others.
///
/// # Errors
/// The error as cel-go words it.
pub(super) fn run(
    expr: &IdedExpr,
    variables: &[(&str, Value)],
    budget: &Budget,
    resolver: &dyn VariableResolver,
) -> Result<Value, String> {
    let mut context = FUNCTIONS.new_inner_scope();
    context.set_variable_resolver(resolver);
    for (name, value) in variables {
        context.add_variable_from_value(*name, value.clone());
    }
    let result = Value::resolve(expr, &context).map_err(|error| describe(&error));
    if budget.is_exceeded() { Err(budget::EXCEEDED.to_owned()) } else { result }
}

/// An optional old value.
pub(super) fn optional(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// Runs an expression that needs no variables.
pub(super) fn standalone(text: &str) -> Option<Value> {
    let expr = parse(text).ok()?;
    Value::resolve(&expr, &FUNCTIONS).ok()
}

fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(name) => format!("no such key: {name}"),
        ExecutionError::IndexOutOfBounds(Value::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::DivisionByZero(_) => "division by zero".into(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".into(),
        ExecutionError::Overflow(..) => "integer overflow".into(),
        ExecutionError::FunctionError { function, message } => match function.as_str() {
            "int" | "uint" | "double" if message.starts_with("string parse error") => {
                format!("type conversion error from 'string' to '{function}'")
            }
            _ => message.clone(),
        },
        ExecutionError::UndeclaredReference(name) => format!("no such attribute(s): {name}"),
        _ => "no such overload".into(),
    }
}
