//! A type as merging sees it: a scalar, a list or a map, decided by the schema or, where it says nothing, by the
//! value.

use std::sync::Arc;

use serde_json::Value;

use crate::fieldset::{PathElement, values_equal};
use setpoint_schema::{Codec, ListKind, Scalar, Schema, Shape, Struct};

/// The type at one place of an object.
#[derive(Clone, Copy)]
pub(super) enum Type<'s> {
    /// The schema, and whether a parent preserves unknown fields.
    Known(&'s Schema, bool),
    /// Objects merge by key, lists are atomic.
    Deduced,
    /// Everything is atomic.
    Untyped,
}

/// The form as which a value is merged.
#[derive(Clone, Copy)]
pub(super) enum Atom<'s> {
    Scalar(ScalarKind),
    List(ListType<'s>),
    Map(MapType<'s>),
}

/// The demand of validation on a scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarKind {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Clone, Copy)]
pub(super) struct ListType<'s> {
    pub(super) item: Type<'s>,
    pub(super) kind: &'s ListKind,
}

#[derive(Clone, Copy)]
pub(super) struct MapType<'s> {
    fields: Option<&'s Struct>,
    preserve: bool,
    element: Option<Type<'s>>,
    pub(super) atomic: bool,
}

static ATOMIC: ListKind = ListKind::Atomic;

impl<'s> Type<'s> {
    pub(super) fn root(schema: &'s Schema) -> Self {
        Type::Known(schema, false)
    }

    /// Returns the form as which `value` is merged. Absent and null values fit any form. The map form comes first, as
    /// in Kubernetes.
    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'s> {
        let (schema, preserve) = match self {
            Type::Known(schema, preserve) => (schema, preserve),
            Type::Deduced => return undeclared(value, Type::Deduced, false),
            Type::Untyped => return undeclared(value, Type::Untyped, true),
        };
        match &schema.shape {
            Shape::Any if schema.codec == Codec::RawExtension => undeclared(value, Type::Untyped, true),
            // The published schema gives these no type.
            Shape::Any | Shape::Scalar(Scalar::IntOrString) => undeclared(value, Type::Deduced, false),
            Shape::Scalar(scalar) => Atom::Scalar(scalar_kind(*scalar)),
            Shape::Struct(fields) => {
                let preserve = preserve || fields.preserve_unknown;
                let free = preserve || fields.fields.is_empty();
                Atom::Map(MapType {
                    fields: Some(fields),
                    preserve,
                    element: free.then_some(Type::Deduced),
                    atomic: fields.atomic,
                })
            }
            Shape::Map { value, atomic } => Atom::Map(MapType {
                fields: None,
                preserve,
                element: Some(Type::Known(value.get(), preserve)),
                atomic: *atomic,
            }),
            Shape::List { item, kind } => {
                Atom::List(ListType { item: Type::Known(item.get(), preserve), kind })
            }
        }
    }
}

fn undeclared<'s>(value: Option<&Value>, element: Type<'s>, atomic: bool) -> Atom<'s> {
    match value {
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Atom::Scalar(ScalarKind::Untyped),
        Some(Value::Array(_)) => Atom::List(ListType { item: Type::Untyped, kind: &ATOMIC }),
        _ => Atom::Map(MapType { fields: None, preserve: false, element: Some(element), atomic }),
    }
}

fn scalar_kind(scalar: Scalar) -> ScalarKind {
    match scalar {
        Scalar::String | Scalar::Bytes | Scalar::Duration => ScalarKind::String,
        Scalar::Int32 | Scalar::Int64 | Scalar::Double => ScalarKind::Numeric,
        Scalar::Bool => ScalarKind::Boolean,
        Scalar::IntOrString | Scalar::Quantity | Scalar::Time | Scalar::MicroTime => ScalarKind::Untyped,
    }
}

impl<'s> MapType<'s> {
    /// The declared field of that name.
    pub(super) fn declared(&self, name: &str) -> Option<(&'s Arc<str>, Type<'s>)> {
        let field = self.fields?.field(name)?;
        let ty = field.ty.get();
        // A type that preserves unknown fields does so in its inline types, not in named ones such as metadata.
        Some((&field.name, Type::Known(ty, self.preserve && ty.name.is_none())))
    }

    /// The type below `name`: the declared field's or that of all other entries; none if there may be none.
    pub(super) fn child(&self, name: &str) -> Option<Type<'s>> {
        self.declared(name).map(|(_, ty)| ty).or(self.element)
    }

    /// Nothing is declared and everything is allowed.
    pub(super) fn is_deduced(&self) -> bool {
        matches!(self.element, Some(Type::Deduced))
            && self.fields.is_none_or(|fields| fields.fields.is_empty())
    }

    /// The element that selects `name`.
    pub(super) fn element_of(&self, name: &str) -> PathElement {
        match self.declared(name) {
            Some((name, _)) => PathElement::Field(name.clone()),
            None => PathElement::field(name),
        }
    }
}

/// An item that no element of a path selects, in the words of Go's library.
#[derive(Debug, thiserror::Error)]
pub(super) enum ElementError {
    #[error("invalid indexing of non-associative list")]
    Atomic,
    #[error("associative list without keys has an element that's a map type")]
    MapInSet,
    #[error("not supported: associative list with lists as elements")]
    ListInSet,
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
    #[error("associative list with keys may not have a null element")]
    NullInMap,
    #[error("associative list with keys may not have non-map elements")]
    ScalarInMap,
    #[error(
        "associative list with keys has an element that omits all key fields [{0}] (and doesn't have default values \
         for any key fields)"
    )]
    NoKeys(String),
}

impl<'s> ListType<'s> {
    pub(super) fn atomic(&self) -> bool {
        *self.kind == ListKind::Atomic
    }

    /// The element that selects `item`.
    pub(super) fn element_of(&self, item: &Value) -> Result<PathElement, ElementError> {
        match self.kind {
            ListKind::Atomic => Err(ElementError::Atomic),
            ListKind::Set => match item {
                Value::Object(_) => Err(ElementError::MapInSet),
                Value::Array(_) => Err(ElementError::ListInSet),
                Value::Null => Err(ElementError::NullInSet),
                scalar => Ok(PathElement::Value(Arc::new(scalar.clone()))),
            },
            ListKind::Map(keys) => self.keyed(keys, item),
        }
    }

    /// Whether two items have the same element, without building it.
    pub(super) fn is_same_item<'v>(&self, left: &'v Value, right: &'v Value) -> bool
    where
        's: 'v,
    {
        match self.kind {
            ListKind::Atomic => false,
            ListKind::Set => values_equal(left, right),
            ListKind::Map(keys) => keys.iter().all(|key| {
                let field = |item: &'v Value| -> Option<&'v Value> {
                    let Value::Object(item) = item else { return None };
                    item.get(&**key).or_else(|| self.key_default(key))
                };
                match (field(left), field(right)) {
                    (Some(left), Some(right)) => values_equal(left, right),
                    (None, None) => true,
                    _ => false,
                }
            }),
        }
    }

    fn keyed(&self, keys: &[Arc<str>], item: &Value) -> Result<PathElement, ElementError> {
        let Value::Object(item) = item else {
            return Err(if item.is_null() { ElementError::NullInMap } else { ElementError::ScalarInMap });
        };
        let mut fields: Vec<(Arc<str>, Value)> = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(value) = item.get(&**key) {
                fields.push((key.clone(), value.clone()));
            } else if let Some(default) = self.key_default(key) {
                fields.push((key.clone(), default.clone()));
            }
        }
        if fields.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| setpoint_api::go_format::quote(key)).collect();
            return Err(ElementError::NoKeys(keys.join(" ")));
        }
        Ok(PathElement::key(fields))
    }

    fn key_default(&self, key: &str) -> Option<&'s Value> {
        let Type::Known(schema, _) = self.item else { return None };
        let Shape::Struct(fields) = &schema.shape else { return None };
        fields.field(key)?.default.as_ref()
    }
}

/// Absent, null, or without entries: such containers are leaves when both sides are like that.
pub(super) fn is_empty(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        _ => true,
    }
}
