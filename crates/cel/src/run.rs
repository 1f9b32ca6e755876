//! Runs an expression. Each step is paid for when cel-go pays for it, so that an evaluation costs the same here and
//! there, and ends at the same step if it costs too much.

use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::operators;
use kube_cel::cel::objects::{Key, OptionalValue};

use super::attribute::{self, Reader};
use super::budget::{self, Budget};
use super::charge::{self, Seen};
use super::functions::Cost;
use super::outcome::{Fault, Outcome, fault, none, some};
use super::tree::{Call, Entry, Fold, INSERT, Item, Kind, Node, Optional, RESULT};
use super::turns::{Sorted, Turns};
use super::{evaluate, operate};

const LIST: u64 = 10;
const MAP: u64 = 30;

/// The values of names.
pub(super) trait Names {
    /// The value of a variable of the expression.
    fn value(&self, name: &str) -> Option<Value>;

    /// The value of a variable that is an expression itself: `variables.name`.
    fn composed(&self, _name: &str) -> Option<Result<Value, String>> {
        None
    }
}

/// Runs an expression and takes its cost from the budget.
///
/// # Errors
/// The error as cel-go words it.
pub(super) fn run(node: &Node, names: &dyn Names, budget: &Budget) -> Result<Value, String> {
    let mut run = Run { names, budget, locals: Vec::new(), sorted: Sorted::default() };
    match run.eval(node) {
        Ok(value) => Ok(value),
        Err(Fault::Error(words)) => Err(words),
        Err(Fault::Exceeded) => Err(budget::EXCEEDED.to_owned()),
    }
}

/// A variable of a loop.
struct Local<'n> {
    name: &'n str,
    held: Held<'n>,
}

enum Held<'n> {
    Value(Value),
    /// It failed, which is no error until it is used.
    Failed(String),
    /// It is evaluated when it is first used.
    Lazy(&'n Node),
    /// It is paid for when it is first used.
    Unpaid(Value, u64),
}

pub(super) struct Run<'n, 'r> {
    names: &'r dyn Names,
    budget: &'r Budget,
    locals: Vec<Local<'n>>,
    sorted: Sorted,
}

impl<'n> Reader<'n> for Run<'n, '_> {
    fn charge(&self, cost: u64) -> Result<(), Fault> {
        if self.budget.spend(cost) { Ok(()) } else { Err(Fault::Exceeded) }
    }

    fn refund(&self, cost: u64) {
        self.budget.refund(cost);
    }

    fn eval(&mut self, node: &'n Node) -> Outcome {
        match &node.kind {
            Kind::Literal(value) | Kind::Type(_, value) => Ok(value.clone()),
            Kind::Select(select) if select.test => attribute::is_there(self, node),
            Kind::Variable(_) | Kind::Select(_) => attribute::value(self, node),
            Kind::Call(call) if attribute::is_step(call) => attribute::value(self, node),
            Kind::Call(call) => self.call(call),
            Kind::List(items) => {
                let made = self.list(items);
                self.charge(LIST)?;
                made
            }
            Kind::Map(entries) => {
                let made = self.map(entries);
                self.charge(MAP)?;
                made
            }
            Kind::Fold(fold) => self.fold(fold),
            Kind::Optional(optional) => self.optional(optional),
        }
    }

    fn composed(&self, name: &str) -> Option<Outcome> {
        if self.locals.iter().any(|local| local.name == "variables") {
            return None;
        }
        Some(self.names.composed(name)?.map_err(Fault::Error))
    }

    fn variable(&mut self, name: &str) -> Outcome {
        let Some(at) = self.locals.iter().rposition(|local| local.name == name) else {
            return match self.names.value(name) {
                Some(value) => Ok(value),
                None => fault(format!("no such attribute(s): {name}")),
            };
        };
        let (value, paid) = match &self.locals[at].held {
            Held::Value(value) => return Ok(value.clone()),
            Held::Failed(words) => return fault(words.clone()),
            Held::Unpaid(value, cost) => {
                self.charge(*cost)?;
                (Ok(value.clone()), true)
            }
            Held::Lazy(node) => {
                let (node, inner) = (*node, self.locals.split_off(at));
                let value = self.eval(node);
                self.locals.extend(inner);
                (value, true)
            }
        };
        if paid {
            self.locals[at].held = match &value {
                Ok(value) => Held::Value(value.clone()),
                Err(Fault::Error(words)) => Held::Failed(words.clone()),
                Err(Fault::Exceeded) => return Err(Fault::Exceeded),
            };
        }
        value
    }
}

impl<'n> Run<'n, '_> {
    /// Takes the memory of a value that a list or map will hold.
    fn hold(&self, value: &Value) -> Result<(), Fault> {
        let small =
            matches!(value, Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::Null);
        if small || self.budget.hold(budget::footprint(value)) { Ok(()) } else { Err(Fault::Exceeded) }
    }

    fn list(&mut self, items: &'n [Item]) -> Outcome {
        let mut made = Vec::with_capacity(items.len());
        for item in items {
            let value = self.eval(&item.value)?;
            let value = if item.optional { present(value)? } else { Some(value) };
            if let Some(value) = value {
                self.hold(&value)?;
                made.push(value);
            }
        }
        Ok(Value::List(Arc::new(made)))
    }

    fn map(&mut self, entries: &'n [Entry]) -> Outcome {
        let mut made = operate::Entries::new();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            let value = if entry.optional { present(value)? } else { Some(value) };
            let Some(key) = operate::key(&key) else { return fault("unsupported key type") };
            match value {
                Some(value) => {
                    self.hold(&value)?;
                    made.insert(key, value);
                }
                None => drop(made.remove(&key)),
            }
        }
        Ok(operate::map(made))
    }

    fn call(&mut self, call: &'n Call) -> Outcome {
        match (call.name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND, [left, right]) => self.logical(left, right, false),
            (operators::LOGICAL_OR, [left, right]) => self.logical(left, right, true),
            (operators::NOT_STRICTLY_FALSE, [value]) => {
                let value = match self.eval(value) {
                    Err(Fault::Exceeded) => return Err(Fault::Exceeded),
                    Ok(Value::Bool(flag)) => flag,
                    _ => true,
                };
                self.charge(1)?;
                Ok(Value::Bool(value))
            }
            ("or" | "orValue", [other]) if call.target.is_some() => self.otherwise(call, other),
            (evaluate::MEMBER, [value, list]) => {
                let value = self.eval(value)?;
                let Kind::Literal(list) = &list.kind else { return fault("no such overload") };
                operate::contains(&value, list)
            }
            (operators::ADD, [so_far, more]) if is_result(so_far) && call.overloads == [Cost::AddList] => {
                self.append(so_far, more)
            }
            (INSERT, [so_far, rest @ ..]) => self.insert(so_far, rest),
            _ => self.function(call),
        }
    }

    fn function(&mut self, call: &'n Call) -> Outcome {
        let nodes: Vec<&'n Node> = call.target.as_deref().into_iter().chain(&call.args).collect();
        let mut args = Vec::with_capacity(nodes.len());
        let mut first_fault = None;
        let stops = nodes.len() > 2 || has_constant_pattern(call, &nodes) || is_dispatched(call);
        for &node in &nodes {
            match self.eval(node) {
                Ok(value) => args.push(Some(value)),
                Err(Fault::Exceeded) => return Err(Fault::Exceeded),
                // Some functions stop at the first error, and are not paid for.
                Err(found) if stops && args.len() + 1 < nodes.len() => return Err(found),
                Err(found) => {
                    first_fault = first_fault.or(Some(found));
                    args.push(None);
                }
            }
        }
        let overload = match call.overloads.as_slice() {
            [only] => Some(*only),
            [Cost::Equals, ..] => Some(Cost::Equals),
            _ => None,
        };
        let seen: Vec<Seen<'_>> = args.iter().map(Option::as_ref).collect();
        // cel-go charges after the call. A call that compares all pairs would end too late for that.
        if overload.is_some_and(Cost::is_of_pairs)
            && !self.budget.affords(charge::cost(&call.name, overload, &seen, None))
        {
            return Err(Fault::Exceeded);
        }
        let result =
            match first_fault {
                Some(fault) => Err(fault),
                None if !self.budget.hold(operate::expected(&call.name, &args)) => Err(Fault::Exceeded),
                None => {
                    let values = args.iter().flatten().cloned().collect();
                    let result = operate::call(&call.name, call.target.is_some(), values, self.budget);
                    result.map_err(|words| {
                        if words == budget::EXCEEDED { Fault::Exceeded } else { Fault::Error(words) }
                    })
                }
            };
        if matches!(result, Err(Fault::Exceeded)) {
            return result;
        }
        self.charge(charge::cost(&call.name, overload, &seen, result.as_ref().ok()))?;
        result
    }

    /// `&&`, or `||` if `wanted` is true: the first side with that value decides, whatever the other is.
    fn logical(&mut self, left: &'n Node, right: &'n Node, wanted: bool) -> Outcome {
        let mut first_fault = None;
        for side in [left, right] {
            let found = match self.eval(side) {
                Ok(Value::Bool(flag)) if flag == wanted => return Ok(Value::Bool(wanted)),
                Ok(Value::Bool(_)) => continue,
                Ok(_) => Fault::Error("no such overload".into()),
                Err(Fault::Exceeded) => return Err(Fault::Exceeded),
                Err(found) => found,
            };
            first_fault = first_fault.or(Some(found));
        }
        first_fault.map_or(Ok(Value::Bool(!wanted)), Err)
    }

    /// `or` and `orValue` cost nothing themselves.
    fn otherwise(&mut self, call: &'n Call, other: &'n Node) -> Outcome {
        let Some(target) = &call.target else { return fault("no such overload") };
        let value = self.eval(target)?;
        match <&OptionalValue>::try_from(&value) {
            Ok(optional) => match optional.value() {
                Some(inner) if call.name == "orValue" => Ok(inner.clone()),
                Some(_) => Ok(value),
                None => self.eval(other),
            },
            Err(_) => fault("no such overload"),
        }
    }

    /// Adds to the list that a loop makes, in place.
    fn append(&mut self, so_far: &'n Node, more: &'n Node) -> Outcome {
        let list = self.eval(so_far).map(drop);
        if matches!(list, Err(Fault::Exceeded)) {
            return Err(Fault::Exceeded);
        }
        let more = self.eval(more);
        if matches!(more, Err(Fault::Exceeded)) {
            return more;
        }
        self.charge(1)?;
        list?;
        let Value::List(more) = more? else { return fault("no such overload") };
        if !self.budget.hold(budget::ITEM * more.len() as u64) {
            return Err(Fault::Exceeded);
        }
        let Value::List(mut made) = self.take_result() else { return fault("no such overload") };
        Arc::make_mut(&mut made).extend(more.iter().cloned());
        Ok(Value::List(made))
    }

    /// Adds to the map that a loop makes, in place.
    fn insert(&mut self, so_far: &'n Node, rest: &'n [Node]) -> Outcome {
        let so_far = self.eval(so_far).map(drop);
        if rest.len() > 1 {
            so_far.clone()?;
        }
        let mut added = Vec::with_capacity(rest.len());
        let mut failed = None;
        for (at, node) in rest.iter().enumerate() {
            match self.eval(node) {
                Ok(value) => added.push(value),
                Err(Fault::Exceeded) => return Err(Fault::Exceeded),
                Err(fault) if at + 1 < rest.len() => return Err(fault),
                Err(fault) => failed = Some(fault),
            }
        }
        self.charge(1)?;
        so_far?;
        if let Some(fault) = failed {
            return Err(fault);
        }
        let entries: Vec<(Key, Value)> = match added.as_slice() {
            [key, value] => operate::key(key).map(|key| (key, value.clone())).into_iter().collect(),
            [Value::Map(map)] => map.map.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            _ => return fault("no such overload"),
        };
        let Value::Map(mut made) = self.take_result() else { return fault("no such overload") };
        for (key, value) in entries {
            self.hold(&value)?;
            let map = Arc::make_mut(&mut made.map);
            if map.contains_key(&key) {
                return fault(format!("insert failed: key {} already exists", operate::shown_key(&key)));
            }
            map.insert(key, value);
        }
        Ok(Value::Map(made))
    }

    /// Takes the result so far out of its variable: the step of the loop gives it the next value.
    fn take_result(&mut self) -> Value {
        let local = self.locals.iter_mut().rev().find(|local| local.name == RESULT);
        match local.map(|local| std::mem::replace(&mut local.held, Held::Value(Value::Null))) {
            Some(Held::Value(value)) => value,
            _ => Value::Null,
        }
    }

    fn fold(&mut self, fold: &'n Fold) -> Outcome {
        let range = self.eval(&fold.range)?;
        let depth = self.locals.len();
        let result = self.turns(fold, &range);
        self.locals.truncate(depth);
        result
    }

    fn turns(&mut self, fold: &'n Fold, range: &Value) -> Outcome {
        let turns = match (range, &fold.second) {
            (Value::List(items), _) => Turns::List(items.clone()),
            (Value::Map(map), _) => Turns::Map(self.sorted.entries(map)),
            (other, None) => {
                return fault(format!("got '{}', expected iterable type", operate::go_type(other)));
            }
            (other, Some(_)) => {
                return fault(format!("unsupported comprehension range type: {}", operate::go_type(other)));
            }
        };
        self.locals.push(Local { name: &fold.accumulator, held: Held::Lazy(&fold.init) });
        let result = self.locals.len() - 1;
        for at in 0..turns.count() {
            let (first, second) = turns.values(at, fold.second.is_some());
            self.locals.push(Local { name: &fold.variable, held: Held::Value(first) });
            if let Some((name, value)) = fold.second.as_deref().zip(second) {
                self.locals.push(Local { name, held: Held::Value(value) });
            }
            match self.eval(&fold.condition) {
                Ok(Value::Bool(false)) => {
                    self.locals.truncate(result + 1);
                    break;
                }
                Err(Fault::Exceeded) => return Err(Fault::Exceeded),
                _ => {}
            }
            let step = self.eval(&fold.step);
            self.locals.truncate(result + 1);
            self.locals[result].held = match step {
                Ok(value) => Held::Value(value),
                Err(Fault::Error(words)) => Held::Failed(words),
                Err(Fault::Exceeded) => return Err(Fault::Exceeded),
            };
        }
        self.eval(&fold.result)
    }

    /// The macro stands for `range.hasValue() ? optional.of(body) : optional.none()`, and its variable for
    /// `range.value()`: the range costs as much again when the variable is first used.
    fn optional(&mut self, optional: &'n Optional) -> Outcome {
        let before = self.budget.spent();
        let range = self.eval(&optional.range);
        let cost = self.budget.spent() - before;
        if matches!(range, Err(Fault::Exceeded)) {
            return range;
        }
        self.charge(1)?;
        let range = range?;
        let Ok(found) = <&OptionalValue>::try_from(&range) else { return fault("no such overload") };
        let Some(value) = found.value() else {
            self.charge(1)?;
            return Ok(none());
        };
        let held = Held::Unpaid(value.clone(), cost + 1);
        self.locals.push(Local { name: &optional.variable, held });
        let body = self.eval(&optional.body);
        self.locals.pop();
        if optional.flat || matches!(body, Err(Fault::Exceeded)) {
            return body;
        }
        self.charge(1)?;
        body.map(some)
    }
}

/// Whether cel-go compiles the pattern of the call with the expression. It then calls another function.
fn has_constant_pattern(call: &Call, nodes: &[&Node]) -> bool {
    matches!(call.name.as_str(), "matches" | "find" | "findAll")
        && matches!(nodes.get(1), Some(Node { kind: Kind::Literal(Value::String(_)), .. }))
}

/// Whether cel-go chooses the overload when the call runs. Operators have one function for all their overloads.
fn is_dispatched(call: &Call) -> bool {
    call.overloads.len() > 1 && call.name.starts_with(|letter: char| letter.is_ascii_alphabetic())
}

fn is_result(node: &Node) -> bool {
    matches!(&node.kind, Kind::Variable(name) if name == RESULT)
}

fn present(value: Value) -> Result<Option<Value>, Fault> {
    match <&OptionalValue>::try_from(&value) {
        Ok(optional) => Ok(optional.value().cloned()),
        Err(_) => fault("cannot initialize optional list element from non-optional value"),
    }
}
