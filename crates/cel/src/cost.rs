//! The highest cost of a rule, estimated from the bounds in its schema. The units are those of kube-apiserver, where
//! one is about 50 ns. A definition is refused when it is written if a rule's objects have no bounds.
//!
//! The figures follow kube-apiserver's for fields, operators, comprehensions and the functions of text and lists. They
//! are approximate where a size is known only at run time there.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};
use setpoint_machinery::structural::Props;

use super::functions::FUNCTIONS;
use super::macros::{self, Kind};
use super::ty::{Ty, escape};

/// One rule may cost this much.
pub(super) const RULE_LIMIT: u64 = 10_000_000;
/// All rules of a schema together may cost this much.
pub(super) const SCHEMA_LIMIT: u64 = 100_000_000;
/// The longest request.
const REQUEST_BYTES: u64 = 3 * 1024 * 1024;
const UNKNOWN: u64 = u64::MAX;
const STRING_FACTOR: f64 = 0.1;
const REGEX_FACTOR: f64 = 0.25;

/// By how much a limit is passed, as kube-apiserver words it.
pub(super) fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "shown with a digit or two")]
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// How often a place can be in one object when a list or map above it has no bound.
pub(super) fn most_places(props: &Props) -> u64 {
    REQUEST_BYTES / (least_bytes(props) + 1)
}

/// How many values a list or map may hold, where the schema says so.
pub(super) fn bound(props: &Props) -> Option<u64> {
    let most = if props.items.is_some() { props.max_items } else { props.max_properties };
    most.map(|most| u64::try_from(most).unwrap_or(0))
}

/// The shortest JSON that such a value can be.
fn least_bytes(props: &Props) -> u64 {
    if props.int_or_string {
        return 1;
    }
    match (props.kind.as_str(), props.format.as_str()) {
        ("boolean", _) => 4,
        ("number" | "integer", _) => 1,
        ("string", "duration") => 3,
        ("string", "date") => 12,
        ("string", "date-time") => 21,
        ("object", _) if props.additional.as_ref().is_none_or(|more| more.schema.is_none()) => {
            let needed = props.required.iter().filter_map(|name| Some((name, props.properties.get(name)?)));
            let needed = needed.filter(|(_, property)| property.default.is_none());
            2 + needed.map(|(name, property)| name.len() as u64 + least_bytes(property) + 4).sum::<u64>()
        }
        _ => 2,
    }
}

/// The largest size that a value can have: letters, items or entries. Zero for what has none.
fn largest(props: &Props) -> u64 {
    let longest = |most: Option<i64>, bytes: u64| most.map(|most| u64::try_from(most).unwrap_or(0) * bytes);
    if props.int_or_string {
        return longest(props.max_length, 4).unwrap_or(REQUEST_BYTES - 2);
    }
    match (props.kind.as_str(), props.format.as_str()) {
        ("string", "duration" | "date-time") => 32,
        ("string", "date") => 12,
        ("string", "byte") => longest(props.max_length, 1).unwrap_or(REQUEST_BYTES - 2),
        ("string", _) => longest(props.max_length, 4).unwrap_or_else(|| {
            let longest =
                props.enumeration.iter().filter_map(|value| Some(value.as_str()?.len() as u64)).max();
            longest.unwrap_or(REQUEST_BYTES - 2)
        }),
        ("array", _) => bound(props).unwrap_or_else(|| {
            let item = props.items.as_deref().map_or(2, least_bytes);
            (REQUEST_BYTES - 2) / (item + 1)
        }),
        ("object", _) => match props.additional.as_ref().and_then(|more| more.schema.as_deref()) {
            Some(value) => bound(props).unwrap_or_else(|| (REQUEST_BYTES - 2) / (least_bytes(value) + 6)),
            None => 0,
        },
        _ => 0,
    }
}

/// The place of a value in the object.
#[derive(Clone, Copy)]
enum Place<'p> {
    /// Nowhere: it was computed.
    Computed,
    /// At a place that this describes.
    At(&'p Props),
    /// A key of a map, or metadata that every object has.
    Text,
}

/// The highest cost and size of an expression.
#[derive(Clone, Copy)]
struct Estimate<'p> {
    cost: u64,
    size: u64,
    /// The size of the items of a computed list.
    item: u64,
    place: Place<'p>,
}

impl<'p> Estimate<'p> {
    fn computed(cost: u64, size: u64) -> Self {
        Estimate { cost, size, item: UNKNOWN, place: Place::Computed }
    }

    fn at(cost: u64, props: &'p Props) -> Self {
        Estimate { cost, size: largest(props), item: UNKNOWN, place: Place::At(props) }
    }

    /// A value of this list, or the value of a key of this map.
    fn within(&self, cost: u64) -> Self {
        match self.place {
            Place::At(props) => match inner(props) {
                Some(inner) => Estimate::at(cost, inner),
                None => Estimate::computed(cost, UNKNOWN),
            },
            _ => Estimate::computed(cost, self.item),
        }
    }

    /// The items that a comprehension with one variable goes over.
    fn each(&self) -> Self {
        match self.place {
            Place::At(props) if props.items.is_none() => {
                Estimate { cost: 1, size: 0, item: UNKNOWN, place: Place::Text }
            }
            _ => self.within(1),
        }
    }
}

fn inner(props: &Props) -> Option<&Props> {
    props.items.as_deref().or_else(|| props.additional.as_ref()?.schema.as_deref())
}

fn times(size: u64, factor: f64) -> u64 {
    if size == UNKNOWN {
        return UNKNOWN;
    }
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes of requests are far from the bounds, and the cast saturates"
    )]
    let product = (size as f64 * factor).ceil() as u64;
    product
}

/// The highest cost of the expression, on values that the schema describes.
pub(super) fn estimate(expr: &IdedExpr, props: &Props) -> u64 {
    let own = Estimate::at(1, props);
    let scopes = vec![("self".to_owned(), own), ("oldSelf".to_owned(), own)];
    Estimator { scopes }.expr(expr).cost
}

struct Estimator<'p> {
    scopes: Vec<(String, Estimate<'p>)>,
}

impl<'p> Estimator<'p> {
    fn expr(&mut self, expr: &IdedExpr) -> Estimate<'p> {
        match &expr.expr {
            Expr::Ident(name) => {
                let found = self.scopes.iter().rev().find(|(own, _)| own == name);
                found.map_or(Estimate::computed(1, UNKNOWN), |(_, found)| Estimate { cost: 1, ..*found })
            }
            Expr::Literal(literal) => Estimate::computed(0, literal_size(literal)),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => match macros::read(call) {
                Some(found) => self.unexpanded(&found),
                None => self.call(call),
            },
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                let items: Vec<Estimate<'p>> = list.elements.iter().map(|item| self.expr(item)).collect();
                let cost = items.iter().fold(10, |cost: u64, item| cost.saturating_add(item.cost));
                let item = items.iter().map(|item| item.size).max().unwrap_or(0);
                Estimate { item, ..Estimate::computed(cost, items.len() as u64) }
            }
            Expr::Map(map) => {
                let mut cost = 30_u64;
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        cost = cost.saturating_add(self.expr(&entry.key).cost);
                        cost = cost.saturating_add(self.expr(&entry.value).cost);
                    }
                }
                Estimate::computed(cost, map.entries.len() as u64)
            }
            Expr::Struct(_) | Expr::Unspecified => Estimate::computed(0, UNKNOWN),
        }
    }

    fn select(&mut self, select: &SelectExpr) -> Estimate<'p> {
        let operand = self.expr(&select.operand);
        if select.test {
            return Estimate::computed(operand.cost.saturating_add(1), 1);
        }
        self.field(&operand, &select.field)
    }

    fn field(&self, operand: &Estimate<'p>, field: &str) -> Estimate<'p> {
        let cost = operand.cost.saturating_add(1);
        let Place::At(props) = operand.place else { return Estimate::computed(cost, UNKNOWN) };
        if let Some(value) = props.additional.as_ref().and_then(|more| more.schema.as_deref()) {
            return Estimate::at(cost, value);
        }
        let found = props.properties.iter().find(|(name, _)| escape(name).as_deref() == Some(field));
        match found {
            Some((_, property)) => Estimate::at(cost, property),
            None => Estimate { place: Place::Text, ..Estimate::computed(cost, REQUEST_BYTES - 2) },
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Estimate<'p> {
        let range = self.expr(&comprehension.iter_range);
        let init = self.expr(&comprehension.accu_init);
        self.scopes.push((comprehension.accu_var.clone(), init));
        self.scopes.push((comprehension.iter_var.clone(), range.each()));
        let condition = self.expr(&comprehension.loop_cond);
        let step = self.expr(&comprehension.loop_step);
        self.scopes.pop();
        let result = self.expr(&comprehension.result);
        self.scopes.pop();
        let each = condition.cost.saturating_add(step.cost);
        let cost = range.cost.saturating_add(init.cost).saturating_add(result.cost);
        let cost = cost.saturating_add(range.size.saturating_mul(each));
        let makes_list = matches!(comprehension.accu_init.expr, Expr::List(_));
        let size = if makes_list { range.size } else { 1 };
        Estimate { item: step.item, ..Estimate::computed(cost, size) }
    }

    /// A macro that is no loop yet.
    fn unexpanded(&mut self, found: &macros::Macro<'_>) -> Estimate<'p> {
        let range = self.expr(found.range);
        let depth = self.scopes.len();
        let once = matches!(found.kind, Kind::OptMap | Kind::OptFlatMap);
        let (first, second) = match (once, found.variables.len()) {
            (true, _) => (range, range),
            (false, 1) => (range.each(), range.within(1)),
            (false, _) => (Estimate::computed(1, 1), range.within(1)),
        };
        for (variable, estimate) in found.variables.iter().zip([first, second]) {
            self.scopes.push(((*variable).to_owned(), estimate));
        }
        let bodies: Vec<Estimate<'p>> = found.bodies.iter().map(|body| self.expr(body)).collect();
        self.scopes.truncate(depth);
        let body = bodies.iter().fold(0, |cost: u64, body| cost.saturating_add(body.cost));
        let last = bodies.last().map_or(UNKNOWN, |body| body.size);
        let step = match found.kind {
            Kind::OptMap | Kind::OptFlatMap => {
                return Estimate::computed(range.cost.saturating_add(body).saturating_add(2), last);
            }
            Kind::All | Kind::Exists | Kind::ExistsOne => 3,
            Kind::TransformList | Kind::SortBy => 12,
            Kind::TransformMap => 3,
            Kind::TransformMapEntry => 2,
        };
        let cost =
            range.cost.saturating_add(range.size.saturating_mul(body.saturating_add(step))).saturating_add(1);
        let cost = if found.kind == Kind::SortBy { cost.saturating_add(squared(range.size)) } else { cost };
        let size =
            if matches!(found.kind, Kind::All | Kind::Exists | Kind::ExistsOne) { 1 } else { range.size };
        Estimate { item: last, ..Estimate::computed(cost, size) }
    }

    fn call(&mut self, call: &CallExpr) -> Estimate<'p> {
        let target = match &call.target {
            // A namespace of functions is no value.
            Some(target) if self.is_namespace(target) => None,
            Some(target) => Some(self.expr(target)),
            None => None,
        };
        if let (operators::OPT_SELECT, [operand, field]) = (call.func_name.as_str(), call.args.as_slice())
            && let Expr::Literal(LiteralValue::String(field)) = &field.expr
        {
            let operand = self.expr(operand);
            return self.field(&operand, field.inner());
        }
        let args: Vec<Estimate<'p>> = call.args.iter().map(|arg| self.expr(arg)).collect();
        let before = target.iter().chain(&args).fold(0, |cost: u64, own| cost.saturating_add(own.cost));
        let mut made = function(&call.func_name, target.as_ref(), &args);
        made.cost = match (call.func_name.as_str(), args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => {
                condition.cost.saturating_add(yes.cost.max(no.cost))
            }
            _ => made.cost.saturating_add(before),
        };
        made
    }

    fn is_namespace(&self, target: &IdedExpr) -> bool {
        matches!(&target.expr, Expr::Ident(name) if self.scopes.iter().all(|(own, _)| own != name))
    }
}

/// A sort compares each item with each.
fn squared(size: u64) -> u64 {
    size.saturating_mul(size).saturating_mul(2).saturating_add(11)
}

fn literal_size(literal: &LiteralValue) -> u64 {
    match literal {
        LiteralValue::String(text) => text.inner().chars().count() as u64,
        LiteralValue::Bytes(bytes) => bytes.inner().len() as u64,
        _ => 1,
    }
}

/// The cost of a call beside its arguments.
fn function<'p>(name: &str, target: Option<&Estimate<'p>>, args: &[Estimate<'p>]) -> Estimate<'p> {
    let (cost, size) = match (name, target, args) {
        ("sort" | "distinct", Some(list), _) => (squared(list.size), list.size),
        ("reverse" | "flatten" | "slice", Some(list), _) => (list.size.saturating_add(11), list.size),
        (operators::LOGICAL_AND | operators::LOGICAL_OR, ..) => (0, 1),
        (operators::CONDITIONAL, _, [_, yes, no]) => {
            return Estimate { size: yes.size.max(no.size), item: yes.item.max(no.item), ..*yes };
        }
        (operators::INDEX | operators::OPT_INDEX, _, [operand, _]) => return operand.within(1),
        (operators::EQUALS | operators::NOT_EQUALS, _, [left, right]) => {
            (times(left.size.min(right.size), STRING_FACTOR), 1)
        }
        (
            operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
            _,
            [left, right],
        ) => (times(left.size.min(right.size), STRING_FACTOR).max(1), 1),
        (operators::ADD, _, [left, right]) => {
            let size = left.size.saturating_add(right.size);
            let is_list = left.item != UNKNOWN || right.item != UNKNOWN;
            let cost = if is_list { 1 } else { times(size, STRING_FACTOR) };
            return Estimate { item: left.item.max(right.item), ..Estimate::computed(cost.max(1), size) };
        }
        (operators::IN, _, [_, list]) => (list.size, 1),
        ("startsWith" | "endsWith", Some(_), [part]) => (times(part.size, STRING_FACTOR), 1),
        ("contains", Some(text), [part]) => {
            (times(text.size, STRING_FACTOR).saturating_mul(times(part.size, STRING_FACTOR)), 1)
        }
        ("matches" | "find" | "findAll", Some(text), [pattern, ..]) | ("matches", None, [text, pattern]) => {
            let walk = times(text.size.saturating_add(1), STRING_FACTOR);
            let size = if name == "matches" { 1 } else { text.size };
            (walk.saturating_mul(times(pattern.size, REGEX_FACTOR)), size)
        }
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(list), _) => {
            let each = times(list.within(0).size, STRING_FACTOR);
            let cost = match list.place {
                Place::At(props) if props.kind == "string" => times(list.size, STRING_FACTOR),
                _ => list.size.saturating_mul(each.saturating_add(1)),
            };
            (cost, 1)
        }
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
            (times(text.size, STRING_FACTOR), text.size)
        }
        ("replace" | "split", Some(text), _) => (times(text.size, 2.0 * STRING_FACTOR), text.size),
        ("join", Some(list), _) => {
            // The texts of a list that was computed may be of any length.
            let item = if matches!(list.place, Place::Computed) { UNKNOWN } else { list.within(0).size };
            let size = list.size.saturating_mul(item);
            (times(size, STRING_FACTOR), size)
        }
        ("format", Some(text), _) => (times(text.size, STRING_FACTOR), UNKNOWN),
        (
            "url" | "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver"
            | "isURL",
            None,
            [text, ..],
        ) => (times(text.size, STRING_FACTOR), text.size),
        ("validate", Some(_), [text]) => (times(text.size, STRING_FACTOR).saturating_mul(32), UNKNOWN),
        ("string" | "bytes", None, [text]) => (times(text.size, STRING_FACTOR).max(1), text.size),
        _ => (1, if gives_scalar(name) { 1 } else { UNKNOWN }),
    };
    Estimate::computed(cost, size)
}

/// Whether the result of a function always has one size.
fn gives_scalar(name: &str) -> bool {
    let scalar =
        |ty: &Ty| matches!(ty, Ty::Bool | Ty::Int | Ty::Uint | Ty::Double | Ty::Timestamp | Ty::Duration);
    FUNCTIONS.get(name).is_some_and(|overloads| overloads.iter().all(|overload| scalar(&overload.result)))
}
