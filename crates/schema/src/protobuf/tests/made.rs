//! Objects made from a seed, by the schema.

use serde_json::{Map, Value, json};

use super::*;
use crate::Schema;

/// A small generator: the tests need variety and a seed, not quality.
pub(super) struct Draw(pub u64);

impl Draw {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    fn pick(&mut self, from: &[&str]) -> String {
        from[self.below(from.len())].to_owned()
    }
}

pub(super) fn object(schema: &Schema, draw: &mut Draw) -> Value {
    value(schema, draw, 0)
}

fn value(ty: &Schema, draw: &mut Draw, depth: usize) -> Value {
    match &ty.shape {
        Shape::Any => match ty.codec {
            Codec::PropsOrBool(props) | Codec::PropsOrArray(props) | Codec::PropsOrStringArray(props) => {
                alternatives(ty.codec, builtin().type_at(props), draw, depth)
            }
            _ => [json!({"a": [1, null, "x"], "b": {"c": 1.5}}), json!([true]), json!("t")]
                [draw.below(if ty.codec == Codec::FieldsV1 { 1 } else { 3 })]
            .clone(),
        },
        Shape::Scalar(scalar) => leaf(*scalar, draw),
        Shape::Struct(fields) => {
            let mut out = Map::new();
            for field in &fields.fields {
                // The type of an object within another one stands in no message.
                if field.proto.is_none() {
                    continue;
                }
                let many = depth > 3 && fields.fields.len() > 12;
                if draw.below(if many { 8 } else { 2 }) == 0 && depth < 14 {
                    out.insert(field.name.to_string(), value(field.ty.get(), draw, depth + 1));
                }
            }
            Value::Object(out)
        }
        Shape::Map { value: item, .. } => {
            let count = draw.below(3);
            (0..count)
                .map(|_| (draw.pick(&["a", "b.c/d", "Ü", ""]), value(item.get(), draw, depth + 1)))
                .collect()
        }
        Shape::List { item, .. } => (0..draw.below(3)).map(|_| value(item.get(), draw, depth + 1)).collect(),
    }
}

fn alternatives(codec: Codec, props: &Schema, draw: &mut Draw, depth: usize) -> Value {
    match (codec, draw.below(2)) {
        (Codec::PropsOrBool(_), 0) => json!(draw.below(2) == 0),
        (Codec::PropsOrArray(_), 0) => json!([{"type": "string"}]),
        (Codec::PropsOrStringArray(_), 0) => json!(["a", "b"]),
        _ => value(props, draw, depth + 1),
    }
}

fn leaf(scalar: Scalar, draw: &mut Draw) -> Value {
    match scalar {
        Scalar::String | Scalar::Duration => json!(draw.pick(&["", "x", "ünï\u{1F600}", "a\nb\"c\\", "<&>"])),
        Scalar::Int32 => json!([0, 1, -1, i32::MAX, i32::MIN][draw.below(5)]),
        Scalar::Int64 => json!([0, 1, -1, i64::MAX, i64::MIN][draw.below(5)]),
        Scalar::Double => json!([0.0, 1.0, -2.5, 1e300][draw.below(4)]),
        Scalar::Bool => json!(draw.below(2) == 0),
        Scalar::Bytes => json!(draw.pick(&["", "AA==", "/+8=", "aGVsbG8="])),
        Scalar::IntOrString => {
            [json!(0), json!(80), json!("http"), json!("25%"), json!("")][draw.below(5)].clone()
        }
        Scalar::Quantity => json!(draw.pick(&["0", "1", "100m", "1.5Gi", "1e3", "-5", "0.1", "12Ki"])),
        Scalar::Time => json!(draw.pick(&["2026-01-01T00:00:00Z", "1969-07-20T20:17:40+02:00"])),
        Scalar::MicroTime => {
            json!(draw.pick(&["2026-01-01T00:00:00.000001Z", "1969-07-20T20:17:40.123456Z"]))
        }
    }
}

/// Protobuf has no empty list or map: where Go's JSON keeps one (no `omitempty`), it comes back as `null`.
pub(super) fn without_empty(value: Value, ty: &Schema) -> Value {
    match (value, &ty.shape) {
        (Value::Object(map), Shape::Struct(fields)) => map
            .into_iter()
            .map(|(key, value)| {
                let field = fields.field(&key).expect("read by this schema");
                let ty = field.ty.get();
                let empty = matches!(ty.shape, Shape::List { .. } | Shape::Map { .. })
                    && (value == json!([]) || value == json!({}));
                let value = if empty { Value::Null } else { without_empty(value, ty) };
                (key, value)
            })
            .collect(),
        (Value::Object(map), Shape::Map { value: item, .. }) => {
            let each = |(key, value)| {
                let empty = matches!(item.get().codec, Codec::WrappedList) && value == json!([]);
                (key, if empty { Value::Null } else { without_empty(value, item.get()) })
            };
            map.into_iter().map(each).collect()
        }
        (Value::Array(items), Shape::List { item, .. }) => {
            items.into_iter().map(|value| without_empty(value, item.get())).collect()
        }
        (Value::Object(map), Shape::Any) => {
            let (Codec::PropsOrBool(props) | Codec::PropsOrArray(props) | Codec::PropsOrStringArray(props)) =
                ty.codec
            else {
                return Value::Object(map);
            };
            without_empty(Value::Object(map), builtin().type_at(props))
        }
        (Value::Array(items), Shape::Any) => {
            let Codec::PropsOrArray(props) = ty.codec else { return Value::Array(items) };
            items.into_iter().map(|value| without_empty(value, builtin().type_at(props))).collect()
        }
        (value, _) => value,
    }
}
