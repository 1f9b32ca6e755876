//! Constants, computed when an expression is compiled, as cel-go's planner does: they cost nothing when it runs.

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::operators;

use super::budget::Budget;
use super::evaluate::MEMBER;
use super::functions::Cost;
use super::run::{Names, run};
use super::tree::{Kind, Node};

/// Functions of one constant that are called when an expression is compiled.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

/// A place without variables.
struct Nothing;

impl Names for Nothing {
    fn value(&self, _name: &str) -> Option<Value> {
        None
    }
}

/// Computes the constants in an expression.
///
/// # Errors
/// A conversion of a constant fails: the error in cel-go's words.
pub(super) fn fold(node: &mut Node) -> Result<(), String> {
    for part in parts(node) {
        fold(part)?;
    }
    if is_computable(node) {
        return evaluate(node);
    }
    if let Kind::Call(call) = &mut node.kind
        && call.name == operators::IN
        && call.overloads == [Cost::InList]
        && let [_, Node { kind: Kind::Literal(Value::List(items)), .. }] = call.args.as_slice()
    {
        if items.is_empty() {
            node.kind = Kind::Literal(Value::Bool(false));
        } else if items.iter().all(is_member) {
            MEMBER.clone_into(&mut call.name);
        }
    }
    Ok(())
}

/// Whether cel-go computes the expression in advance: lists and maps of constants, and conversions of one.
fn is_computable(node: &Node) -> bool {
    match &node.kind {
        Kind::List(items) => items.iter().all(|item| !item.optional && is_constant(&item.value)),
        Kind::Map(entries) => entries
            .iter()
            .all(|entry| !entry.optional && is_constant(&entry.key) && is_constant(&entry.value)),
        Kind::Call(call) => {
            let converts = call.target.is_none() && CONVERSIONS.contains(&call.name.as_str());
            converts && matches!(call.args.as_slice(), [only] if is_constant(only))
        }
        _ => false,
    }
}

fn evaluate(node: &mut Node) -> Result<(), String> {
    let value = run(node, &Nothing, &Budget::default())?;
    node.kind = Kind::Literal(value);
    Ok(())
}

fn is_constant(node: &Node) -> bool {
    matches!(node.kind, Kind::Literal(_) | Kind::Type(..))
}

/// Whether cel-go looks the value up instead of comparing it.
fn is_member(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::String(_))
}

fn parts(node: &mut Node) -> Vec<&mut Node> {
    match &mut node.kind {
        Kind::Literal(_) | Kind::Type(..) | Kind::Variable(_) => Vec::new(),
        Kind::Select(select) => vec![&mut select.operand],
        Kind::Call(call) => {
            call.target.iter_mut().map(|target| &mut **target).chain(&mut call.args).collect()
        }
        Kind::List(items) => items.iter_mut().map(|item| &mut item.value).collect(),
        Kind::Map(entries) => {
            entries.iter_mut().flat_map(|entry| [&mut entry.key, &mut entry.value]).collect()
        }
        Kind::Fold(fold) => {
            let fold = &mut **fold;
            vec![&mut fold.range, &mut fold.init, &mut fold.condition, &mut fold.step, &mut fold.result]
        }
        Kind::Optional(optional) => vec![&mut optional.range, &mut optional.body],
    }
}
