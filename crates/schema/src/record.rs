//! One type of the embedded table, decoded. The table is ours and checked by its tests, so a malformed record is
//! a broken build, not an input error.

use std::sync::Arc;

use serde_json::Value;

use super::form::{
    Codec, Field, ListKind, Node, Omit, PatchStrategy, ProtoField, ProtoSlot, Scalar, Shape, Struct, TypeRef,
    prefix,
};

/// The texts of the table, by number.
pub(super) trait Texts {
    /// Returns a text of the table.
    fn text(&self, number: u32) -> &'static str;

    /// Returns a text that all types share.
    fn shared(&self, number: u32) -> Arc<str>;
}

/// A cursor over LEB128 numbers.
pub(super) struct Record<'a> {
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Record { bytes }
    }

    pub(super) fn number(&mut self) -> u32 {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let (first, rest) = self.bytes.split_first().expect("the embedded table is whole");
            self.bytes = rest;
            value |= u32::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }

    pub(super) fn optional(&mut self) -> Option<u32> {
        self.number().checked_sub(1)
    }

    fn id(&mut self) -> u16 {
        u16::try_from(self.number()).expect("type numbers are u16")
    }
}

pub(super) fn node(texts: &impl Texts, record: &mut Record<'_>) -> Node {
    let name = record.optional().map(|at| texts.shared(at));
    let go = record.optional().map(|at| texts.shared(at));
    let codec = record.number();
    let (mut props, mut values) = (0, Vec::new());
    let shape = match record.number() {
        0 => {
            if (4..=6).contains(&codec) {
                props = record.id();
            }
            Shape::Any
        }
        1 => {
            let scalar = scalar(record.number());
            values = (0..record.number()).map(|_| texts.shared(record.number())).collect();
            Shape::Scalar(scalar)
        }
        2 => Shape::Struct(structure(texts, record)),
        3 => {
            let atomic = record.number() == 1;
            Shape::Map { value: TypeRef::Builtin(record.id()), atomic }
        }
        4 => {
            let kind = match record.number() {
                0 => ListKind::Atomic,
                1 => ListKind::Set,
                _ => ListKind::Map((0..record.number()).map(|_| texts.shared(record.number())).collect()),
            };
            Shape::List { item: TypeRef::Builtin(record.id()), kind }
        }
        other => unreachable!("the embedded table has no shape {other}"),
    };
    Node { name, nullable: false, default: None, shape, go, codec: self::codec(codec, props), values }
}

fn codec(number: u32, props: u16) -> Codec {
    match number {
        0 => Codec::Plain,
        1 => Codec::RawExtension,
        2 => Codec::FieldsV1,
        3 => Codec::Json,
        4 => Codec::PropsOrBool(props),
        5 => Codec::PropsOrArray(props),
        6 => Codec::PropsOrStringArray(props),
        7 => Codec::WrappedList,
        8 => Codec::JsonOnly,
        other => unreachable!("the embedded table has no codec {other}"),
    }
}

fn scalar(number: u32) -> Scalar {
    match number {
        0 => Scalar::String,
        1 => Scalar::Int32,
        2 => Scalar::Int64,
        3 => Scalar::Double,
        4 => Scalar::Bool,
        5 => Scalar::Bytes,
        6 => Scalar::IntOrString,
        7 => Scalar::Quantity,
        8 => Scalar::Time,
        9 => Scalar::MicroTime,
        10 => Scalar::Duration,
        other => unreachable!("the embedded table has no scalar {other}"),
    }
}

fn structure(texts: &impl Texts, record: &mut Record<'_>) -> Struct {
    let atomic = record.number() == 1;
    let mut out = Struct { atomic, ..Struct::default() };
    for at in 0..record.id() {
        let (field, flags, under) = field(texts, record);
        if let Some(proto) = field.proto {
            out.proto.push(ProtoSlot { path: proto.path, field: at });
        }
        if flags & 1 << 7 != 0 {
            out.always.push(at);
        }
        if let Some(under) = under {
            out.inlined.push((at, under));
        }
        out.prefixes.push(prefix(&field.name));
        out.fields.push(field);
    }
    out.proto.sort_unstable();
    out
}

fn field(texts: &impl Texts, record: &mut Record<'_>) -> (Field, u32, Option<Arc<str>>) {
    let name = texts.shared(record.number());
    let ty = TypeRef::Builtin(record.id());
    let flags = record.number();
    let under = record.optional().map(|at| texts.shared(at));
    let default: Option<Value> = record
        .optional()
        .map(|at| serde_json::from_str(texts.text(at)).expect("the embedded table's defaults are JSON"));
    let merge_key = record.optional().map(|at| texts.shared(at));
    let mut path = [0; 3];
    let length = record.number() as usize;
    for slot in &mut path[..length] {
        *slot = record.id();
    }
    let field = Field {
        name,
        ty,
        required: flags & 1 != 0,
        pointer: flags & 2 != 0,
        omit: match flags >> 2 & 3 {
            0 => Omit::Never,
            1 => Omit::Empty,
            _ => Omit::Zero,
        },
        default,
        patch: PatchStrategy {
            merge: flags & 1 << 4 != 0,
            retain_keys: flags & 1 << 5 != 0,
            replace: flags & 1 << 6 != 0,
            merge_key,
        },
        proto: (length > 0).then_some(ProtoField { path }),
    };
    (field, flags, under)
}
