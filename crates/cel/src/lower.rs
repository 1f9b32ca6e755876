//! From the parser's tree to the one that is costed and run. Macros that the parser does not know are expanded here as
//! cel-go expands them.

use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};

use super::check::{Called, Checked, well_known_type};
use super::functions::Cost;
use super::macros::{self, Macro};
use super::tree::{Call, Entry, Fold, INSERT, Item, Kind, Node, Optional, RESULT, Select};
use super::ty::{Ty, keyword};
use super::types::type_value;

/// The name of the list that `sortBy` sorts.
const SORTED: &str = "@__sortBy_input__";

/// The tree of an expression that was checked.
pub(super) fn lower(expr: &IdedExpr, checked: &Checked) -> Node {
    Lowering { checked, nodes: 0, loops: Vec::new(), names: Vec::new() }.expr(expr)
}

struct Lowering<'c> {
    checked: &'c Checked,
    nodes: usize,
    /// The types of the results of the loops around, and of the items that each goes over.
    loops: Vec<(Ty, Ty)>,
    /// The variables of the loops around.
    names: Vec<String>,
}

impl Lowering<'_> {
    fn node(&mut self, ty: Ty, kind: Kind) -> Node {
        self.nodes += 1;
        Node { id: self.nodes - 1, ty, kind }
    }

    fn literal(&mut self, value: Value) -> Node {
        let ty = match value {
            Value::Bool(_) => Ty::Bool,
            Value::Int(_) => Ty::Int,
            _ => Ty::Dyn,
        };
        self.node(ty, Kind::Literal(value))
    }

    fn variable(&mut self, name: &str, ty: Ty) -> Node {
        self.node(ty, Kind::Variable(name.to_owned()))
    }

    fn call(&mut self, ty: Ty, name: &str, cost: Cost, args: Vec<Node>) -> Node {
        let call = Call { name: name.to_owned(), target: None, args, overloads: vec![cost] };
        self.node(ty, Kind::Call(call))
    }

    fn list(&mut self, values: Vec<Node>) -> Node {
        let ty = Ty::list(values.first().map_or(Ty::Dyn, |value| value.ty.clone()));
        let items = values.into_iter().map(|value| Item { value, optional: false }).collect();
        self.node(ty, Kind::List(items))
    }

    fn ty(&self, expr: &IdedExpr) -> Option<Ty> {
        self.checked.types.get(&expr.id).cloned()
    }

    fn expr(&mut self, expr: &IdedExpr) -> Node {
        let ty = self.ty(expr);
        match &expr.expr {
            Expr::Literal(literal) => {
                let (value, own) = literal_value(literal);
                self.node(own, Kind::Literal(value))
            }
            Expr::Ident(name) => self.ident(name, ty),
            Expr::Select(select) => self.select(select, ty.unwrap_or(Ty::Dyn)),
            Expr::Call(call) => match macros::read(call) {
                Some(found) => self.expand(&found, expr, ty.unwrap_or(Ty::Dyn)),
                None => self.called(call, expr, ty),
            },
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, ty.unwrap_or(Ty::Dyn)),
            Expr::List(list) => {
                let items: Vec<Item> = list
                    .elements
                    .iter()
                    .enumerate()
                    .map(|(at, item)| Item {
                        value: self.expr(item),
                        optional: list.optional_indices.contains(&at),
                    })
                    .collect();
                let own = Ty::list(items.first().map_or(Ty::Dyn, |item| item.value.ty.clone()));
                self.node(ty.unwrap_or(own), Kind::List(items))
            }
            Expr::Map(map) => {
                let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => Some(entry),
                    EntryExpr::StructField(_) => None,
                });
                let entries = entries.map(|entry| Entry {
                    key: self.expr(&entry.key),
                    value: self.expr(&entry.value),
                    optional: entry.optional,
                });
                let entries = entries.collect();
                self.node(ty.unwrap_or(Ty::Dyn), Kind::Map(entries))
            }
            // The checker refuses messages.
            Expr::Struct(_) | Expr::Unspecified => self.node(Ty::Dyn, Kind::Literal(Value::Null)),
        }
    }

    fn ident(&mut self, name: &str, ty: Option<Ty>) -> Node {
        let ty = ty.unwrap_or_else(|| match self.loops.last() {
            Some((result, _)) if name == RESULT => result.clone(),
            Some((_, item)) => item.clone(),
            None => Ty::Dyn,
        });
        if ty == Ty::Type && !self.names.iter().any(|own| own == name) {
            return self.node(ty, Kind::Type(name.to_owned(), type_value(name)));
        }
        self.variable(name, ty)
    }

    fn select(&mut self, select: &SelectExpr, ty: Ty) -> Node {
        if let Some(name) = well_known_type(select) {
            let value = type_value(&name);
            return self.node(Ty::Type, Kind::Type(name, value));
        }
        let operand = Box::new(self.expr(&select.operand));
        let key = field_key(&operand.ty, &select.field);
        self.node(ty, Kind::Select(Select { operand, field: select.field.clone(), key, test: select.test }))
    }

    fn called(&mut self, call: &CallExpr, expr: &IdedExpr, ty: Option<Ty>) -> Node {
        let name = call.func_name.as_str();
        let known = self.checked.calls.get(&expr.id).cloned();
        // Calls that the parser made of macros were not checked one by one.
        let known = known.unwrap_or_else(|| Called {
            name: name.to_owned(),
            method: false,
            overloads: vec![self.made_by_macro(name)],
        });
        let target = match &call.target {
            Some(target) if known.method => Some(Box::new(self.expr(target))),
            _ => None,
        };
        let args = call.args.iter().map(|arg| self.expr(arg)).collect();
        let ty = ty.unwrap_or_else(|| match (name, self.loops.last()) {
            (operators::ADD | operators::CONDITIONAL, Some((result, _))) => result.clone(),
            _ => Ty::Bool,
        });
        self.node(ty, Kind::Call(Call { name: known.name, target, args, overloads: known.overloads }))
    }

    fn made_by_macro(&self, name: &str) -> Cost {
        match name {
            operators::LOGICAL_AND | operators::LOGICAL_OR => Cost::Logical,
            operators::CONDITIONAL => Cost::Conditional,
            operators::EQUALS => Cost::Equals,
            operators::ADD if matches!(self.loops.last(), Some((Ty::List(_), _))) => Cost::AddList,
            _ => Cost::Other,
        }
    }

    /// A loop that the parser made.
    fn comprehension(&mut self, made: &ComprehensionExpr, ty: Ty) -> Node {
        let range = self.expr(&made.iter_range);
        let init = self.expr(&made.accu_init);
        let so_far = match &init.kind {
            Kind::List(_) => ty.clone(),
            _ => init.ty.clone(),
        };
        let item = match &range.ty {
            Ty::List(item) => (**item).clone(),
            Ty::Map(key, _) => (**key).clone(),
            _ => Ty::Dyn,
        };
        self.loops.push((so_far, item));
        self.names.push(made.iter_var.clone());
        let condition = self.expr(&made.loop_cond);
        let step = self.expr(&made.loop_step);
        self.names.pop();
        let result = self.expr(&made.result);
        self.loops.pop();
        let fold = Fold {
            range,
            variable: made.iter_var.clone(),
            second: None,
            accumulator: made.accu_var.clone(),
            init,
            condition,
            step,
            result,
        };
        self.node(ty, Kind::Fold(Box::new(fold)))
    }

    fn expand(&mut self, found: &Macro<'_>, expr: &IdedExpr, ty: Ty) -> Node {
        match found.kind {
            macros::Kind::OptMap | macros::Kind::OptFlatMap => {
                let range = self.expr(found.range);
                let body = self.body(found, &found.bodies[0]);
                let flat = found.kind == macros::Kind::OptFlatMap;
                let optional = Optional { range, variable: found.variables[0].to_owned(), body, flat };
                self.node(ty, Kind::Optional(Box::new(optional)))
            }
            macros::Kind::SortBy => {
                let overloads = self.checked.calls.get(&expr.id).map(|called| called.overloads.clone());
                self.sorted(found, ty, overloads.unwrap_or_default())
            }
            _ => {
                let range = self.expr(found.range);
                let bodies = found.bodies.iter().map(|body| self.body(found, body)).collect();
                self.two_variables(found, range, bodies, ty)
            }
        }
    }

    fn body(&mut self, found: &Macro<'_>, body: &IdedExpr) -> Node {
        let depth = self.names.len();
        self.names.extend(found.variables.iter().map(|&name| name.to_owned()));
        let body = self.expr(body);
        self.names.truncate(depth);
        body
    }

    fn sorted(&mut self, found: &Macro<'_>, ty: Ty, overloads: Vec<Cost>) -> Node {
        let input = self.expr(found.range);
        let list = input.ty.clone();
        let key = self.body(found, &found.bodies[0]);
        let keys_ty = Ty::list(key.ty.clone());
        let range = self.variable(SORTED, list.clone());
        let keys = self.collected(range, found, key, keys_ty);
        let target = Some(Box::new(self.variable(SORTED, list.clone())));
        let call = Call { name: "@sortByAssociatedKeys".to_owned(), target, args: vec![keys], overloads };
        let result = self.node(ty.clone(), Kind::Call(call));
        let fold = Fold {
            range: self.list(Vec::new()),
            variable: "#unused".to_owned(),
            second: None,
            accumulator: SORTED.to_owned(),
            init: input,
            condition: self.literal(Value::Bool(false)),
            step: self.variable(SORTED, list),
            result,
        };
        self.node(ty, Kind::Fold(Box::new(fold)))
    }

    /// The list of what a body gives for each item.
    fn collected(&mut self, range: Node, found: &Macro<'_>, body: Node, ty: Ty) -> Node {
        let made = self.list(vec![body]);
        let so_far = self.variable(RESULT, ty.clone());
        let step = self.call(ty.clone(), operators::ADD, Cost::AddList, vec![so_far, made]);
        let init = self.list(Vec::new());
        let condition = self.literal(Value::Bool(true));
        let result = self.variable(RESULT, ty.clone());
        self.fold(ty, range, found, [init, condition, step, result])
    }

    fn fold(&mut self, ty: Ty, range: Node, found: &Macro<'_>, parts: [Node; 4]) -> Node {
        let [init, condition, step, result] = parts;
        let fold = Fold {
            range,
            variable: found.variables[0].to_owned(),
            second: found.variables.get(1).map(|&name| name.to_owned()),
            accumulator: RESULT.to_owned(),
            init,
            condition,
            step,
            result,
        };
        self.node(ty, Kind::Fold(Box::new(fold)))
    }

    fn two_variables(&mut self, found: &Macro<'_>, range: Node, mut bodies: Vec<Node>, ty: Ty) -> Node {
        let Some(body) = bodies.pop() else { return range };
        match found.kind {
            macros::Kind::All => {
                let condition = self.go_on(false);
                self.quantifier(found, range, (true, operators::LOGICAL_AND), condition, body)
            }
            macros::Kind::Exists => {
                let condition = self.go_on(true);
                self.quantifier(found, range, (false, operators::LOGICAL_OR), condition, body)
            }
            macros::Kind::ExistsOne => {
                let (so_far, one) = (self.variable(RESULT, Ty::Int), self.literal(Value::Int(1)));
                let more = self.call(Ty::Int, operators::ADD, Cost::Other, vec![so_far, one]);
                let step = self.either(body, more, Ty::Int);
                let (count, one) = (self.variable(RESULT, Ty::Int), self.literal(Value::Int(1)));
                let result = self.call(Ty::Bool, operators::EQUALS, Cost::Equals, vec![count, one]);
                let (init, condition) = (self.literal(Value::Int(0)), self.literal(Value::Bool(true)));
                self.fold(ty, range, found, [init, condition, step, result])
            }
            kind => {
                let so_far = self.variable(RESULT, ty.clone());
                let (mut step, init) = if kind == macros::Kind::TransformList {
                    let made = self.list(vec![body]);
                    let step = self.call(ty.clone(), operators::ADD, Cost::AddList, vec![so_far, made]);
                    (step, self.list(Vec::new()))
                } else {
                    let mut args = vec![so_far];
                    if kind == macros::Kind::TransformMap {
                        args.push(self.variable(found.variables[0], Ty::Dyn));
                    }
                    args.push(body);
                    let step = self.call(ty.clone(), INSERT, Cost::Other, args);
                    (step, self.node(ty.clone(), Kind::Map(Vec::new())))
                };
                if let Some(wanted) = bodies.pop() {
                    step = self.either(wanted, step, ty.clone());
                }
                let condition = self.literal(Value::Bool(true));
                let result = self.variable(RESULT, ty.clone());
                self.fold(ty, range, found, [init, condition, step, result])
            }
        }
    }

    /// `wanted ? step : @result`.
    fn either(&mut self, wanted: Node, step: Node, ty: Ty) -> Node {
        let so_far = self.variable(RESULT, ty.clone());
        self.call(ty, operators::CONDITIONAL, Cost::Conditional, vec![wanted, step, so_far])
    }

    /// Whether a quantifier is still undecided.
    fn go_on(&mut self, negated: bool) -> Node {
        let mut so_far = self.variable(RESULT, Ty::Bool);
        if negated {
            so_far = self.call(Ty::Bool, operators::LOGICAL_NOT, Cost::Other, vec![so_far]);
        }
        self.call(Ty::Bool, operators::NOT_STRICTLY_FALSE, Cost::Other, vec![so_far])
    }

    fn quantifier(
        &mut self,
        found: &Macro<'_>,
        range: Node,
        (start, operator): (bool, &str),
        condition: Node,
        body: Node,
    ) -> Node {
        let so_far = self.variable(RESULT, Ty::Bool);
        let step = self.call(Ty::Bool, operator, Cost::Logical, vec![so_far, body]);
        let (init, result) = (self.literal(Value::Bool(start)), self.variable(RESULT, Ty::Bool));
        self.fold(Ty::Bool, range, found, [init, condition, step, result])
    }
}

/// The name under which a value of this type has the field.
fn field_key(operand: &Ty, field: &str) -> String {
    let declared = match operand {
        Ty::Object(fields) if !fields.contains_key(field) => {
            keyword(field).filter(|name| fields.contains_key(name))
        }
        Ty::Optional(inner) => return field_key(inner, field),
        _ => None,
    };
    declared.unwrap_or_else(|| field.to_owned())
}

fn literal_value(literal: &LiteralValue) -> (Value, Ty) {
    match literal {
        LiteralValue::Boolean(flag) => (Value::Bool(*flag.inner()), Ty::Bool),
        LiteralValue::Bytes(bytes) => (Value::Bytes(Arc::new(bytes.inner().to_vec())), Ty::Bytes),
        LiteralValue::Double(number) => (Value::Float(*number.inner()), Ty::Double),
        LiteralValue::Int(number) => (Value::Int(*number.inner()), Ty::Int),
        LiteralValue::Null => (Value::Null, Ty::Null),
        LiteralValue::String(text) => (Value::String(Arc::new(text.inner().to_owned())), Ty::String),
        LiteralValue::UInt(number) => (Value::UInt(*number.inner()), Ty::Uint),
    }
}
