//! Variables with the fields and indexes behind them. cel-go reads such a chain in one step: each field and index costs
//! one unit, and the whole chain one more. A branch of a condition costs only its fields and indexes.

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::operators;
use kube_cel::cel::objects::OptionalValue;

use super::operate;
use super::outcome::{Fault, Outcome, fault, none, some};
use super::tree::{Call, Kind, Node};

/// A field or an index.
#[derive(Clone, Copy)]
enum Qualifier<'n> {
    Field {
        shown: &'n str,
        key: &'n str,
    },
    Index {
        node: &'n Node,
        optional: bool,
    },
    /// Whether there is such a field.
    Test {
        key: &'n str,
    },
}

/// The evaluation that reads a chain.
pub(super) trait Reader<'n> {
    /// Adds to the cost.
    ///
    /// # Errors
    /// The evaluation costs too much.
    fn charge(&self, cost: u64) -> Result<(), Fault>;

    /// Takes back a part of the cost.
    fn refund(&self, cost: u64);

    fn eval(&mut self, node: &'n Node) -> Outcome;

    /// The value of a variable. That costs nothing: its use does.
    fn variable(&mut self, name: &str) -> Outcome;

    /// The value of `variables.name`, if the variables of a policy are in reach.
    fn composed(&self, name: &str) -> Option<Outcome>;
}

/// The value of an index that is computed: its cost without that of its last step.
fn computed<'n, R: Reader<'n>>(run: &mut R, node: &'n Node) -> Outcome {
    if is_attribute(node) { resolve(run, node, &mut Vec::new()) } else { run.eval(node) }
}

/// Whether the call is a step of a chain, or a condition.
pub(super) fn is_step(call: &Call) -> bool {
    matches!(
        call.name.as_str(),
        operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT | operators::CONDITIONAL
    )
}

/// Whether the expression is a chain.
fn is_attribute(node: &Node) -> bool {
    match &node.kind {
        Kind::Variable(_) => true,
        Kind::Select(select) => !select.test,
        Kind::Call(call) => is_step(call),
        _ => false,
    }
}

/// The value of a chain, with the cost of reading it.
pub(super) fn value<'n, R: Reader<'n>>(run: &mut R, node: &'n Node) -> Outcome {
    let mut steps = Vec::new();
    let found = resolve(run, node, &mut steps);
    if matches!(found, Err(Fault::Exceeded)) {
        return found;
    }
    run.charge(u64::from(!begins_with_condition(node)))?;
    found
}

/// `has(…)`: a chain that costs nothing but its steps.
pub(super) fn is_there<'n, R: Reader<'n>>(run: &mut R, node: &'n Node) -> Outcome {
    let found = tested(run, node);
    if let Kind::Select(select) = &node.kind
        && !matches!(found, Err(Fault::Exceeded))
        && begins_with_condition(&select.operand)
    {
        // cel-go takes back the cost of reading the chain, which it has not charged.
        run.refund(1);
    }
    found
}

fn tested<'n, R: Reader<'n>>(run: &mut R, node: &'n Node) -> Outcome {
    let Kind::Select(select) = &node.kind else { return fault("no such overload") };
    let mut steps = vec![Qualifier::Test { key: &select.key }];
    let found = resolve(run, &select.operand, &mut steps)?;
    Ok(match <&OptionalValue>::try_from(&found) {
        Ok(optional) => Value::Bool(optional.value().is_some()),
        Err(_) => found,
    })
}

fn begins_with_condition(node: &Node) -> bool {
    match &node.kind {
        Kind::Select(select) if !select.test => begins_with_condition(&select.operand),
        Kind::Call(call) if call.name == operators::CONDITIONAL => true,
        Kind::Call(call) if is_step(call) => call.args.first().is_some_and(begins_with_condition),
        _ => false,
    }
}

/// The value of a chain, without the cost of reading it as a whole. The steps are those behind the chain, the last
/// one first.
fn resolve<'n, R: Reader<'n>>(run: &mut R, mut node: &'n Node, steps: &mut Vec<Qualifier<'n>>) -> Outcome {
    let base = loop {
        match &node.kind {
            Kind::Select(select) if !select.test => {
                steps.push(Qualifier::Field { shown: &select.field, key: &select.key });
                node = &select.operand;
            }
            Kind::Call(call) if is_step(call) => match call.args.as_slice() {
                [condition, yes, no] => {
                    node = match run.eval(condition)? {
                        Value::Bool(true) => yes,
                        Value::Bool(false) => no,
                        _ => return fault("no such overload"),
                    };
                }
                [operand, index] => {
                    let optional = call.name != operators::INDEX;
                    steps.push(Qualifier::Index { node: index, optional });
                    node = operand;
                }
                _ => return fault("no such overload"),
            },
            Kind::Variable(name) => {
                if name == "variables"
                    && let Some(found) = composed(run, steps)
                {
                    break found?;
                }
                break run.variable(name)?;
            }
            // A branch of a condition.
            Kind::Select(_) => break tested(run, node)?,
            _ => break run.eval(node)?,
        }
    };
    apply(run, base, steps)
}

/// The value of `variables.name`, whose field is the first step.
fn composed<'n, R: Reader<'n>>(run: &mut R, steps: &mut Vec<Qualifier<'n>>) -> Option<Outcome> {
    match *steps.last()? {
        Qualifier::Field { key, .. } => {
            let found = run.composed(key)?;
            steps.pop();
            Some(run.charge(1).and(found))
        }
        Qualifier::Index { node, optional } => {
            let Kind::Literal(Value::String(name)) = &node.kind else { return None };
            let found = run.composed(name)?;
            steps.pop();
            let found = run.charge(1).and(found);
            Some(if optional { found.map(some) } else { found })
        }
        Qualifier::Test { key } => {
            run.composed(key)?.ok();
            steps.pop();
            Some(run.charge(1).map(|()| Value::Bool(true)))
        }
    }
}

fn apply<'n, R: Reader<'n>>(run: &mut R, base: Value, steps: &mut Vec<Qualifier<'n>>) -> Outcome {
    let (mut value, mut optional) = match <&OptionalValue>::try_from(&base) {
        Ok(found) if !steps.is_empty() => match found.value() {
            Some(inner) => (inner.clone(), true),
            None => return Ok(base),
        },
        _ => (base, false),
    };
    while let Some(step) = steps.pop() {
        optional |= matches!(step, Qualifier::Index { optional: true, .. });
        let found = read(run, &value, step);
        match (found, optional) {
            (Err(Fault::Exceeded), _) => return Err(Fault::Exceeded),
            (Err(fault), false) => {
                run.charge(1)?;
                return Err(fault);
            }
            (Err(fault), true) => return Err(fault),
            (Ok(Found::Value(next)), _) => {
                run.charge(1)?;
                value = next;
            }
            (Ok(Found::Missing(_)), true) => return Ok(none()),
            (Ok(Found::Missing(words)), false) => {
                run.charge(1)?;
                return fault(words);
            }
            (Ok(Found::Tested(there)), true) => {
                if !there {
                    return Ok(none());
                }
                run.charge(1)?;
                value = Value::Bool(true);
            }
            (Ok(Found::Tested(there)), false) => {
                run.charge(1)?;
                value = Value::Bool(there);
            }
        }
    }
    Ok(if optional { some(value) } else { value })
}

enum Found {
    Value(Value),
    /// The error if it must be there.
    Missing(String),
    Tested(bool),
}

fn read<'n, R: Reader<'n>>(run: &mut R, value: &Value, step: Qualifier<'n>) -> Result<Found, Fault> {
    match step {
        Qualifier::Field { shown, key } => Ok(match operate::field(value, key) {
            Some(found) => Found::Value(found.clone()),
            None => Found::Missing(format!("no such key: {shown}")),
        }),
        Qualifier::Test { key } => Ok(Found::Tested(operate::field(value, key).is_some())),
        Qualifier::Index { node, .. } => {
            let index = computed(run, node)?;
            match operate::index(value, &index) {
                Ok(Some(found)) => Ok(Found::Value(found)),
                Ok(None) => {
                    let shown = operate::shown(&index);
                    let what = match value {
                        Value::List(_) => "index out of bounds",
                        _ => "no such key",
                    };
                    Ok(Found::Missing(format!("{what}: {shown}")))
                }
                Err(words) => fault(words),
            }
        }
    }
}
