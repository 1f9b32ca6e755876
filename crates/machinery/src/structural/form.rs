//! A structural schema in the one form that everything else walks.

use std::sync::Arc;

use super::metadata::object_meta;
use super::props::Props;
use setpoint_schema::{Field, ListKind, Node, Omit, PatchStrategy, Scalar, Schema, Shape, Struct, TypeRef};

/// The type of a kind whose schema this is.
pub(super) fn kind(props: &Props) -> Schema {
    Schema::of(Node { default: props.default.clone(), ..Node::new(Shape::Struct(structure(props, true))) })
}

fn schema(props: &Props) -> Schema {
    let node = Node::new(shape(props));
    Schema::of(Node { nullable: props.nullable, default: props.default.clone(), ..node })
}

fn inline(props: &Props) -> TypeRef {
    TypeRef::Inline(schema(props))
}

fn scalar(scalar: Scalar) -> TypeRef {
    TypeRef::Inline(Schema::of(Node::new(Shape::Scalar(scalar))))
}

fn shape(props: &Props) -> Shape {
    // No type at all: apply takes what it finds, and validation refuses what is neither.
    if props.int_or_string {
        return Shape::Any;
    }
    match props.kind.as_str() {
        // A text with a format is any scalar to apply, as a quantity is.
        "string" if !matches!(props.format.as_str(), "" | "byte") => Shape::Scalar(Scalar::Quantity),
        "string" => Shape::Scalar(Scalar::String),
        "integer" => Shape::Scalar(Scalar::Int64),
        "number" => Shape::Scalar(Scalar::Double),
        "boolean" => Shape::Scalar(Scalar::Bool),
        "array" => {
            let item = props.items.as_deref().map_or_else(|| TypeRef::Inline(Schema::any()), inline);
            Shape::List { item, kind: list_kind(props) }
        }
        "object" => match &props.additional {
            Some(additional) if props.properties.is_empty() && !props.embedded_resource => {
                let value =
                    additional.schema.as_deref().map_or_else(|| TypeRef::Inline(Schema::any()), inline);
                Shape::Map { value, atomic: props.map_type.as_deref() == Some("atomic") }
            }
            _ => Shape::Struct(structure(props, props.embedded_resource)),
        },
        _ => Shape::Any,
    }
}

fn list_kind(props: &Props) -> ListKind {
    match props.list_type.as_deref() {
        Some("set") => ListKind::Set,
        Some("map") => ListKind::Map(props.list_map_keys.iter().map(|key| Arc::from(key.as_str())).collect()),
        _ => ListKind::Atomic,
    }
}

fn structure(props: &Props, is_resource: bool) -> Struct {
    let mut fields: Vec<Field> = props
        .properties
        .iter()
        .map(|(name, property)| Field {
            required: props.required.contains(name),
            default: property.default.clone(),
            ..field(name, inline(property))
        })
        .collect();
    if is_resource {
        fields.retain(|field| !["apiVersion", "kind", "metadata"].contains(&&*field.name));
        fields.push(field("apiVersion", scalar(Scalar::String)));
        fields.push(field("kind", scalar(Scalar::String)));
        fields.push(field("metadata", TypeRef::Inline(object_meta())));
        fields.sort_by(|left, right| left.name.cmp(&right.name));
    }
    let mut out = Struct::of(fields);
    out.atomic = props.map_type.as_deref() == Some("atomic");
    out.preserve_unknown = props.preserves();
    out.embedded_resource = props.embedded_resource;
    out
}

fn field(name: &str, ty: TypeRef) -> Field {
    Field {
        name: Arc::from(name),
        ty,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        proto: None,
        omit: Omit::Empty,
        pointer: false,
    }
}
