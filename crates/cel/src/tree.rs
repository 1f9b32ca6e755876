//! A checked expression as it is costed and run: the tree that cel-go has after its macros are expanded. The costs of
//! an expression are defined on that tree.

use kube_cel::cel::Value;

use super::functions::Cost;
use super::ty::Ty;

/// The variable in which a loop collects its result.
pub(super) const RESULT: &str = "@result";
/// The function that adds to the map that a loop makes.
pub(super) const INSERT: &str = "cel.@mapInsert";

#[derive(Debug)]
pub(super) struct Node {
    /// The number of the node in its expression.
    pub(super) id: usize,
    pub(super) ty: Ty,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Literal(Value),
    /// The name of a type, with the value that stands for the type.
    Type(String, Value),
    Variable(String),
    Select(Select),
    Call(Call),
    List(Vec<Item>),
    Map(Vec<Entry>),
    Fold(Box<Fold>),
    Optional(Box<Optional>),
}

/// A field, or whether it is there.
#[derive(Debug)]
pub(super) struct Select {
    pub(super) operand: Box<Node>,
    /// The name as it is written.
    pub(super) field: String,
    /// The name under which a value has the field.
    pub(super) key: String,
    pub(super) test: bool,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) target: Option<Box<Node>>,
    pub(super) args: Vec<Node>,
    pub(super) overloads: Vec<Cost>,
}

#[derive(Debug)]
pub(super) struct Item {
    pub(super) value: Node,
    pub(super) optional: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Node,
    pub(super) value: Node,
    pub(super) optional: bool,
}

/// A loop. With an empty range and a condition that is false it gives a value a name.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) range: Node,
    pub(super) variable: String,
    pub(super) second: Option<String>,
    /// The name of the result so far.
    pub(super) accumulator: String,
    pub(super) init: Node,
    pub(super) condition: Node,
    pub(super) step: Node,
    pub(super) result: Node,
}

impl Fold {
    /// Whether it only gives `init` a name.
    pub(super) fn is_binding(&self) -> bool {
        matches!(&self.range.kind, Kind::List(items) if items.is_empty())
            && matches!(self.condition.kind, Kind::Literal(Value::Bool(false)))
    }
}

/// `optMap` or `optFlatMap`. The macro repeats its range, which would double the tree with every link of a chain.
#[derive(Debug)]
pub(super) struct Optional {
    pub(super) range: Node,
    pub(super) variable: String,
    pub(super) body: Node,
    /// Whether the body is optional itself.
    pub(super) flat: bool,
}
