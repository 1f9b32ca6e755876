//! The highest cost of an expression, as cel-go's checker estimates it with the sizes that a schema declares. A
//! definition is refused when it is written if a rule's values have no bounds.
//!
//! The estimate is part of Kubernetes' API: it decides which rules may be written. The steps are therefore cel-go's,
//! with their surprises: for example, an item of a list that is not in the object has the size of the whole object.

use kube_cel::cel::Value;

use super::declaration::{Declaration, declared};
use super::estimate_call::{self, Argument};
use super::functions::Cost;
use super::size::{Entries, Place, Size};
use super::tree::{Call, Fold, Kind, Node, Optional, RESULT, Select};
use super::ty::Ty;

const LIST: u64 = 10;
const MAP: u64 = 30;

/// The highest cost of the expression, on values of this declaration.
pub(super) fn estimate(node: &Node, root: &Declaration) -> u64 {
    Estimator { root, variables: Vec::new(), known: Vec::new() }.cost(node)
}

/// A variable of a loop.
struct Variable {
    name: String,
    place: Place,
    size: Option<Size>,
    entries: Option<Entries>,
}

/// The facts about one node.
#[derive(Clone, Default)]
struct Known {
    place: Place,
    size: Option<Size>,
    entries: Option<Entries>,
}

struct Estimator<'d> {
    root: &'d Declaration,
    variables: Vec<Variable>,
    known: Vec<Known>,
}

/// Whether values of the type have one size.
fn is_scalar(ty: &Ty) -> bool {
    match ty {
        Ty::Bool | Ty::Double | Ty::Duration | Ty::Int | Ty::Timestamp | Ty::Uint => true,
        Ty::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

impl Estimator<'_> {
    fn known(&mut self, node: &Node) -> &mut Known {
        if self.known.len() <= node.id {
            self.known.resize(node.id + 1, Known::default());
        }
        &mut self.known[node.id]
    }

    fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().rev().find(|variable| variable.name == name)
    }

    fn cost(&mut self, node: &Node) -> u64 {
        match &node.kind {
            Kind::Literal(_) => 0,
            Kind::Type(name, _) | Kind::Variable(name) => {
                let place = self.variable(name).map(|variable| variable.place.clone());
                self.known(node).place = place.unwrap_or_else(|| Place::root(name));
                1
            }
            Kind::Select(select) => self.select(node, select),
            Kind::Call(call) => self.call(node, call),
            Kind::List(items) => {
                let mut value = Size { least: if items.is_empty() { 0 } else { u64::MAX }, most: 0 };
                let mut cost = LIST;
                for item in items {
                    cost = cost.saturating_add(self.cost(&item.value));
                    value = value.union(self.size_or_unknown(&item.value));
                }
                self.known(node).entries = Some(Entries { is_list: true, key: Size::exactly(1), value });
                cost
            }
            Kind::Map(entries) => {
                let start = Size { least: if entries.is_empty() { 0 } else { u64::MAX }, most: 0 };
                let (mut key, mut value, mut cost) = (start, start, MAP);
                for entry in entries {
                    cost = cost.saturating_add(self.cost(&entry.key));
                    cost = cost.saturating_add(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.known(node).entries = Some(Entries { is_list: false, key, value });
                cost
            }
            Kind::Fold(fold) if fold.is_binding() => self.binding(node, fold),
            Kind::Fold(fold) => self.fold(node, fold),
            Kind::Optional(optional) => self.optional(node, optional),
        }
    }

    fn select(&mut self, node: &Node, select: &Select) -> u64 {
        let operand = self.cost(&select.operand);
        if select.test {
            return operand;
        }
        let place = self.place(&select.operand).then(&select.field);
        self.known(node).place = place;
        let has_fields = matches!(select.operand.ty, Ty::Map(..) | Ty::Object(_));
        operand.saturating_add(u64::from(has_fields))
    }

    fn call(&mut self, node: &Node, call: &Call) -> u64 {
        if let ("dyn", [value]) = (call.name.as_str(), call.args.as_slice()) {
            let cost = self.cost(value).saturating_add(1);
            self.copy(node, value);
            return cost;
        }
        let mut costs = Vec::with_capacity(call.args.len());
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            costs.push(self.cost(arg));
            args.push(self.argument(arg));
        }
        let before = call.target.as_deref().map_or(0, |target| self.cost(target));
        let target = call.target.as_deref().map(|target| self.argument(target));
        let (mut most, mut size) = (0, None);
        for overload in &call.overloads {
            let own = self.overload(node, call, *overload, target.as_ref(), &args, &costs);
            most = most.max(own.0);
            size = match (size, own.1) {
                (Some(one), Some(other)) => Some(Size::union(one, other)),
                (one, other) => one.or(other),
            };
            if let (Cost::IndexList | Cost::IndexMap, Some(indexed)) = (overload, call.args.first()) {
                size = self.entries(indexed).map(|entries| entries.value);
                let step = if *overload == Cost::IndexList { "@items" } else { "@values" };
                let place = self.place(indexed).then(step);
                self.known(node).place = place;
            }
            size = size.or_else(|| self.size(node));
        }
        if size.is_some() {
            self.known(node).size = size;
        }
        before.saturating_add(most)
    }

    /// The cost of one overload with its arguments, and the size of what it gives.
    fn overload(
        &mut self,
        node: &Node,
        call: &Call,
        overload: Cost,
        target: Option<&Argument<'_>>,
        args: &[Argument<'_>],
        costs: &[u64],
    ) -> (u64, Option<Size>) {
        let all = costs.iter().fold(0, |sum: u64, cost| sum.saturating_add(*cost));
        if let Some((cost, size)) = estimate_call::of(self.root, &call.name, overload, target, args) {
            return (cost.saturating_add(all), size);
        }
        match (overload, args, costs) {
            (Cost::Conditional, [_, yes, no], [condition, yes_cost, no_cost]) => {
                let size = yes.size_or_unknown().union(no.size_or_unknown());
                let entries = Entries::union(self.entries(yes.node), self.entries(no.node));
                self.set_entries(node, entries);
                (condition.saturating_add(*yes_cost.max(no_cost)), Some(size))
            }
            (Cost::AddText | Cost::AddList, [left, right], _) => {
                let size = left.size_or_unknown().add(right.size_or_unknown());
                let entries = Entries::union(self.entries(left.node), self.entries(right.node));
                self.set_entries(node, entries);
                let cost = if overload == Cost::AddList { 1 } else { size.cost(estimate_call::TEXT) };
                (cost.saturating_add(all), Some(size))
            }
            (Cost::Logical, ..) => (all, None),
            _ => {
                let (cost, size) = estimate_call::standard(overload, target, args);
                (cost.saturating_add(all), size)
            }
        }
    }

    fn argument<'n>(&mut self, node: &'n Node) -> Argument<'n> {
        let mut place = self.place(node);
        if place.names().first().is_some_and(|name| name == RESULT) {
            place = Place::default();
        }
        Argument { node, size: self.size(node), place }
    }

    fn fold(&mut self, node: &Node, fold: &Fold) -> u64 {
        let range = self.cost(&fold.range);
        let init = self.cost(&fold.init);
        self.bind(&fold.accumulator, &fold.init);
        let (place, entries) = (self.place(&fold.range), self.entries(&fold.range));
        let is_list = match &entries {
            Some(entries) => entries.is_list,
            None => matches!(fold.range.ty, Ty::List(_)),
        };
        let (key, value) = (entries.map(|entries| entries.key), entries.map(|entries| entries.value));
        let (keys, values) = if is_list { ("@indices", "@items") } else { ("@keys", "@values") };
        let mut push = |name: &str, step: &str, size: Option<Size>| {
            let (name, place) = (name.to_owned(), place.then(step));
            self.variables.push(Variable { name, place, size, entries: None });
        };
        match &fold.second {
            Some(second) => {
                push(&fold.variable, keys, key);
                push(second, values, value);
            }
            None if is_list => push(&fold.variable, values, value),
            None => push(&fold.variable, keys, key),
        }
        let condition = self.cost(&fold.condition);
        let step = self.cost(&fold.step);
        self.variables.truncate(self.variables.len() - 1 - usize::from(fold.second.is_some()));
        let result = self.cost(&fold.result);
        self.variables.pop();
        let turns = self.size_or_unknown(&fold.range);
        let cost = range.saturating_add(init).saturating_add(result);
        match &fold.init.kind {
            Kind::Literal(_) => {
                let size = self.size(&fold.init);
                self.set_size(node, size);
            }
            Kind::List(_) | Kind::Map(_) => {
                self.known(node).size = Some(turns);
                let entries = self.entries(&fold.step);
                self.set_entries(node, entries);
            }
            _ => {}
        }
        cost.saturating_add(turns.most.saturating_mul(condition.saturating_add(step)))
    }

    fn binding(&mut self, node: &Node, fold: &Fold) -> u64 {
        let cost = self.cost(&fold.range).saturating_add(self.cost(&fold.init));
        self.bind(&fold.accumulator, &fold.init);
        let result = self.cost(&fold.result);
        self.variables.pop();
        self.copy(node, &fold.result);
        cost.saturating_add(result)
    }

    /// `range.hasValue() ? optional.of(body) : optional.none()`, where the body sees `range.value()`.
    fn optional(&mut self, node: &Node, optional: &Optional) -> u64 {
        let range = self.cost(&optional.range);
        let inner = match &optional.range.ty {
            Ty::Optional(inner) => (**inner).clone(),
            _ => Ty::Dyn,
        };
        let size = is_scalar(&inner).then(|| Size::exactly(1));
        let name = optional.variable.clone();
        self.variables.push(Variable { name, place: Place::default(), size, entries: None });
        let body = self.cost(&optional.body);
        let known = if optional.flat { self.size(&optional.body) } else { None };
        self.variables.pop();
        let own = is_scalar(&node.ty).then(|| Size::exactly(1));
        let yes = known.or(own).unwrap_or(Size::UNKNOWN);
        self.known(node).size = Some(yes.union(own.unwrap_or(Size::UNKNOWN)));
        let call = range.saturating_add(1);
        let yes = call.saturating_add(body).saturating_add(LIST + u64::from(!optional.flat));
        call.saturating_add(yes.max(1))
    }

    fn bind(&mut self, name: &str, value: &Node) {
        let variable = Variable {
            name: name.to_owned(),
            place: self.place(value),
            entries: self.entries(value),
            size: self.size(value),
        };
        self.variables.push(variable);
    }

    fn place(&mut self, node: &Node) -> Place {
        if let Kind::Variable(name) | Kind::Type(name, _) = &node.kind
            && let Some(variable) = self.variable(name)
        {
            return variable.place.clone();
        }
        self.known(node).place.clone()
    }

    fn set_size(&mut self, node: &Node, size: Option<Size>) {
        if size.is_some() {
            self.known(node).size = size;
        }
    }

    fn set_entries(&mut self, node: &Node, entries: Option<Entries>) {
        if entries.is_some() {
            self.known(node).entries = entries;
        }
    }

    fn copy(&mut self, to: &Node, from: &Node) {
        let (size, entries) = (self.size(from), self.entries(from));
        self.set_size(to, size);
        self.set_entries(to, entries);
    }

    fn size_or_unknown(&mut self, node: &Node) -> Size {
        self.size(node).unwrap_or(Size::UNKNOWN)
    }

    fn size(&mut self, node: &Node) -> Option<Size> {
        if let Some(size) = self.known(node).size {
            return Some(size);
        }
        if let Some(size) = written_size(node) {
            return Some(Size::exactly(size));
        }
        let place = self.place(node);
        if let Some(size) = declared(self.root, &place) {
            self.known(node).size = Some(size);
            return Some(size);
        }
        if is_scalar(&node.ty) {
            return Some(Size::exactly(1));
        }
        match &node.kind {
            Kind::Variable(name) => self.variable(name)?.size,
            _ => None,
        }
    }

    fn entries(&mut self, node: &Node) -> Option<Entries> {
        if let Some(entries) = self.known(node).entries {
            return Some(entries);
        }
        match &node.kind {
            Kind::Variable(name) => self.variable(name)?.entries,
            _ => None,
        }
    }
}

/// The size of what stands in the expression itself.
fn written_size(node: &Node) -> Option<u64> {
    Some(match &node.kind {
        Kind::Literal(Value::String(text)) => text.chars().count() as u64,
        Kind::Literal(Value::Bytes(bytes)) => bytes.len() as u64,
        Kind::Literal(_) => 1,
        Kind::List(items) => items.len() as u64,
        Kind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}
