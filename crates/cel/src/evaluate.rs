//! The library's parser and functions, with errors in cel-go's words.

use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};

/// The operator `in` on a list that is written in the expression: it costs nothing. No rule can write the name.
pub(super) const MEMBER: &str = "@member";

/// The functions. Shared by all evaluations.
static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    context.add_function("bool", |value: Value| -> ResolveResult { to_bool(value) });
    context.add_function("string", |value: Value| -> ResolveResult { to_string(value) });
    context.add_function("timestamp", |value: Value| -> ResolveResult { to_timestamp(value) });
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

/// Calls a function of the library. The first value of a method is its target.
///
/// # Errors
/// The error as cel-go words it.
pub(super) fn call(name: &str, method: bool, args: Vec<Value>) -> Result<Value, String> {
    let node = |expr: Expr| IdedExpr { id: 0, expr };
    let mut context = FUNCTIONS.new_inner_scope();
    let mut idents = Vec::with_capacity(args.len());
    for (at, value) in args.into_iter().enumerate() {
        let name = format!("@{at}");
        context.add_variable_from_value(name.as_str(), value);
        idents.push(node(Expr::Ident(name)));
    }
    let target = if method && !idents.is_empty() { Some(Box::new(idents.remove(0))) } else { None };
    let expr = node(Expr::Call(CallExpr { func_name: name.to_owned(), target, args: idents }));
    Value::resolve(&expr, &context).map_err(|error| describe(&error))
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
