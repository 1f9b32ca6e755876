//! Whether a value fits its type: what an applied configuration must pass.

use std::collections::BTreeSet;

use serde_json::Value;

use super::types::{Atom, ListType, MapType, ScalarKind, Type};
use crate::fieldset::PathElement;
use setpoint_api::go_format;

/// One thing that does not fit, with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMismatch {
    path: String,
    message: String,
}

impl std::fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// All mismatches of one object, worded as one error.
pub(super) fn describe(errors: &[TypeMismatch]) -> String {
    if let [only] = errors {
        return only.to_string();
    }
    let mut lines = vec!["errors:".to_owned()];
    lines.extend(errors.iter().map(|error| format!("  {error}")));
    lines.join("\n")
}

/// Checks `value`; duplicates in keyed lists and sets are allowed in stored objects and refused in applied ones.
pub(super) fn check(value: &Value, ty: Type<'_>, allow_duplicates: bool) -> Result<(), Vec<TypeMismatch>> {
    let mut walk = Walk { allow_duplicates, errors: Vec::new() };
    walk.value(value, ty);
    if walk.errors.is_empty() { Ok(()) } else { Err(walk.errors) }
}

struct Walk {
    allow_duplicates: bool,
    errors: Vec<TypeMismatch>,
}

impl Walk {
    fn fail(&mut self, message: impl Into<String>) {
        self.errors.push(TypeMismatch { path: String::new(), message: message.into() });
    }

    fn value(&mut self, value: &Value, ty: Type<'_>) {
        match (ty.atom(Some(value)), value) {
            (_, Value::Null) => {}
            (Atom::Scalar(kind), value) => self.scalar(kind, value),
            (Atom::List(list), Value::Array(items)) => self.list(list, items),
            (Atom::List(_), other) => {
                self.fail(format!("expected list, got &{{{}}}", go_format::plain(other)))
            }
            (Atom::Map(map), Value::Object(fields)) => self.map(map, fields),
            (Atom::Map(_), other) => self.fail(format!("expected map, got &{{{}}}", go_format::plain(other))),
        }
    }

    fn scalar(&mut self, kind: ScalarKind, value: &Value) {
        match (kind, value) {
            (ScalarKind::Numeric, Value::Number(_))
            | (ScalarKind::String, Value::String(_))
            | (ScalarKind::Boolean, Value::Bool(_))
            | (ScalarKind::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => {}
            (ScalarKind::Numeric, other) => {
                self.fail(format!("expected numeric (int or float), got {}", go_format::type_name(other)));
            }
            (ScalarKind::String, other) => {
                self.fail(format!(
                    "expected string, got &value.valueUnstructured{{Value:{}}}",
                    go_format::syntax(other)
                ));
            }
            (ScalarKind::Boolean, other) => {
                self.fail(format!("expected boolean, got &{{{}}}", go_format::plain(other)))
            }
            (ScalarKind::Untyped, other) => {
                self.fail(format!("expected any scalar, got &{{{}}}", go_format::plain(other)));
            }
        }
    }

    fn below(&mut self, element: impl Fn() -> PathElement, check: impl FnOnce(&mut Self)) {
        let before = self.errors.len();
        check(self);
        if self.errors.len() > before {
            let prefix = element().to_string();
            for error in &mut self.errors[before..] {
                error.path.insert_str(0, &prefix);
            }
        }
    }

    fn list(&mut self, list: ListType<'_>, items: &[Value]) {
        if list.atomic() {
            for (at, item) in items.iter().enumerate() {
                let index = i64::try_from(at).unwrap_or(i64::MAX);
                self.below(|| PathElement::Index(index), |walk| walk.value(item, list.item));
            }
            return;
        }
        let mut seen: BTreeSet<PathElement> = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let element = match list.element_of(item) {
                Ok(element) => element,
                // Nothing deeper can be named without the element.
                Err(why) => return self.fail(format!("element {at}: {why}")),
            };
            if !self.allow_duplicates && !seen.insert(element.clone()) {
                self.fail(format!("duplicate entries for key {element}"));
            }
            self.below(|| element.clone(), |walk| walk.value(item, list.item));
        }
    }

    fn map(&mut self, map: MapType<'_>, fields: &serde_json::Map<String, Value>) {
        for (name, value) in fields {
            let Some(ty) = map.child(name) else {
                self.below(|| PathElement::field(name), |walk| walk.fail("field not declared in schema"));
                continue;
            };
            self.below(|| PathElement::field(name), |walk| walk.value(value, ty));
        }
    }
}
