//! A message to the JSON value that Go prints for it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::wire::{BYTES, FIXED64, VARINT, Wire, only_bytes};
use super::{DEPTH, DecodeError, MAGIC};
use crate::amount::canonical;
use crate::instant::Instant;
use crate::zero::{absent, float, written, zero};
use crate::{Codec, ProtoSlot, Scalar, Schema, Shape, Struct, builtin, untyped_json};

/// The object of a message without an envelope; without `apiVersion` and `kind`, which messages do not have.
///
/// # Errors
/// When the bytes are malformed or the type has no protobuf form.
pub fn decode_message(data: &[u8], schema: &Schema) -> Result<Value, DecodeError> {
    body(data, None, schema, Place { depth: 0, nulls: true })
}

/// As [`decode_message`], as reading the JSON of the object gives it: a pointer to a zero time is none.
pub(super) fn read_message(data: &[u8], schema: &Schema) -> Result<Value, DecodeError> {
    body(data, None, schema, Place { depth: 0, nulls: false })
}

/// The place of a message in its object.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    /// Whether a pointer that Go prints as `null` is kept.
    nulls: bool,
}

impl Place {
    fn below(self, levels: usize) -> Self {
        Place { depth: self.depth + levels, ..self }
    }
}

fn wrong<T>(field: &str, wire: u8) -> Result<T, DecodeError> {
    Err(DecodeError::Wire { field: field.to_owned(), wire })
}

/// The content of a type that is a message. Go reads the second message of a field over the first.
fn body(data: &[u8], before: Option<Value>, ty: &Schema, place: Place) -> Result<Value, DecodeError> {
    if place.depth > DEPTH {
        return Err(DecodeError::Depth);
    }
    match (&ty.shape, ty.codec) {
        (_, Codec::JsonOnly) => Err(DecodeError::NoForm(ty.go.as_deref().unwrap_or_default().to_owned())),
        (Shape::Struct(fields), _) => {
            let mut out = Object::new(fields, before);
            slots(data, &mut out, &fields.proto, 0, place)?;
            Ok(out.finish())
        }
        (Shape::List { item, .. }, _) => {
            let mut items = Vec::new();
            let mut wire = Wire(data);
            while let Some((number, kind)) = wire.tag()? {
                match number {
                    1 => items.push(single(&mut wire, kind, None, item.get(), "items", place.below(1))?),
                    _ => wire.skip(number, kind)?,
                }
            }
            Ok(if items.is_empty() { Value::Null } else { Value::Array(items) })
        }
        (Shape::Scalar(scalar), _) => leaf_message(data, *scalar),
        (_, Codec::PropsOrBool(props) | Codec::PropsOrArray(props) | Codec::PropsOrStringArray(props)) => {
            alternatives(data, ty.codec, builtin().type_at(props), place)
        }
        _ => match only_bytes(data)? {
            Some(bytes) if !bytes.is_empty() => raw(bytes, place),
            _ => Ok(Value::Null),
        },
    }
}

/// JSON within a message, or another envelope.
fn raw(bytes: &[u8], place: Place) -> Result<Value, DecodeError> {
    if bytes.starts_with(&MAGIC) {
        if place.depth > 0 && place.depth + 10 > DEPTH {
            return Err(DecodeError::Depth);
        }
        let envelope = super::open(bytes)?;
        let value = body(envelope.raw, None, super::known(&envelope)?, place.below(10))?;
        return Ok(super::stamped(value, envelope));
    }
    untyped_json(bytes).map_err(|error| DecodeError::Value(error.to_string()))
}

fn alternatives(data: &[u8], codec: Codec, props: &Schema, place: Place) -> Result<Value, DecodeError> {
    let (mut allows, mut schema, mut items) = (false, None, Vec::new());
    let mut wire = Wire(data);
    while let Some((number, kind)) = wire.tag()? {
        match (codec, number, kind) {
            (Codec::PropsOrBool(_), 1, VARINT) => allows = wire.varint()? != 0,
            (Codec::PropsOrBool(_), 2, BYTES)
            | (Codec::PropsOrArray(_) | Codec::PropsOrStringArray(_), 1, BYTES) => {
                schema = Some(body(wire.bytes()?, schema.take(), props, place.below(1))?);
            }
            (Codec::PropsOrArray(_), 2, BYTES) => {
                items.push(body(wire.bytes()?, None, props, place.below(2))?)
            }
            (Codec::PropsOrStringArray(_), 2, BYTES) => items.push(text(wire.bytes()?)),
            (_, 1 | 2, wire) => return wrong("schema", wire),
            _ => wire.skip(number, kind)?,
        }
    }
    Ok(match (schema, codec) {
        _ if !items.is_empty() => Value::Array(items),
        (Some(schema), _) => schema,
        (None, Codec::PropsOrBool(_)) => Value::Bool(allows),
        (None, _) => Value::Null,
    })
}

/// An object on its way. Most fields come once: what it has is known without looking for names.
struct Object<'f> {
    fields: &'f Struct,
    map: Map<String, Value>,
    /// Which of the first 64 fields may be there, by bit.
    has: u64,
}

impl<'f> Object<'f> {
    fn new(fields: &'f Struct, before: Option<Value>) -> Self {
        match before {
            Some(Value::Object(map)) => Object { fields, map, has: u64::MAX },
            _ => Object { fields, map: Map::new(), has: 0 },
        }
    }

    fn may_have(&self, at: u16) -> bool {
        self.has.checked_shr(at.into()).is_none_or(|bits| bits & 1 == 1)
    }

    fn take(&mut self, at: u16) -> Option<Value> {
        if !self.may_have(at) {
            return None;
        }
        self.map.remove(&*self.fields.fields[usize::from(at)].name)
    }

    fn put(&mut self, at: u16, value: Value) {
        self.has |= 1u64.checked_shl(at.into()).unwrap_or(0);
        self.map.insert(self.fields.fields[usize::from(at)].name.to_string(), value);
    }

    /// With what Go writes even when nobody set it.
    fn finish(mut self) -> Value {
        for at in &self.fields.always {
            let field = &self.fields.fields[usize::from(*at)];
            if !self.may_have(*at) || !self.map.contains_key(&*field.name) {
                self.map.insert(field.name.to_string(), absent(field));
            }
        }
        Value::Object(self.map)
    }
}

/// Reads a message's fields into the object; embedded messages are the same object in JSON.
fn slots(
    data: &[u8],
    out: &mut Object<'_>,
    slots: &[ProtoSlot],
    level: usize,
    place: Place,
) -> Result<(), DecodeError> {
    let mut wire = Wire(data);
    // Fields come in the order of their numbers: the next one is most often at or behind the last one.
    let mut hint = 0;
    while let Some((number, kind)) = wire.tag()? {
        let first = match slots.get(hint).map(|slot| u64::from(slot.path[level])) {
            Some(at) if at == number => hint,
            _ => slots.partition_point(|slot| u64::from(slot.path[level]) < number),
        };
        let Some(slot) = slots.get(first).filter(|slot| u64::from(slot.path[level]) == number) else {
            wire.skip(number, kind)?;
            continue;
        };
        let field = &out.fields.fields[usize::from(slot.field)];
        if level < 2 && slot.path[level + 1] != 0 {
            if kind != BYTES {
                return wrong(&field.name, kind);
            }
            let behind = slots.partition_point(|slot| u64::from(slot.path[level]) <= number);
            self::slots(wire.bytes()?, out, &slots[first..behind], level + 1, place)?;
            hint = behind;
            continue;
        }
        hint = first + 1;
        match (&field.ty.get().shape, field.ty.get().codec) {
            (Shape::List { item, .. }, codec) if codec != Codec::WrappedList => {
                let mut items = match out.take(slot.field) {
                    Some(Value::Array(items)) => items,
                    _ => Vec::new(),
                };
                wire.run(number, kind, |wire, kind| {
                    list_item(wire, kind, &mut items, item.get(), &field.name, place.below(2))
                })?;
                out.put(slot.field, Value::Array(items));
            }
            (Shape::Map { value, .. }, _) => {
                let mut entries = match out.take(slot.field) {
                    Some(Value::Object(entries)) => entries,
                    _ => Map::new(),
                };
                wire.run(number, kind, |wire, kind| {
                    if kind != BYTES {
                        return wrong(&field.name, kind);
                    }
                    let (key, value) = entry(wire.bytes()?, value.get(), &field.name, place.below(2))?;
                    entries.insert(key, value);
                    Ok(())
                })?;
                out.put(slot.field, Value::Object(entries));
            }
            _ => self::field(&mut wire, kind, out, slot.field, place)?,
        }
    }
    Ok(())
}

fn field(
    wire: &mut Wire<'_>,
    kind: u8,
    out: &mut Object<'_>,
    at: u16,
    place: Place,
) -> Result<(), DecodeError> {
    let field = &out.fields.fields[usize::from(at)];
    let ty = field.ty.get();
    let before = if matches!(ty.shape, Shape::Struct(_)) { out.take(at) } else { None };
    let value = single(wire, kind, before, ty, &field.name, place.below(1))?;
    if written(field, ty, &value) && (place.nulls || !value.is_null()) {
        out.put(at, value);
    } else {
        out.take(at);
    }
    Ok(())
}

fn list_item(
    wire: &mut Wire<'_>,
    kind: u8,
    items: &mut Vec<Value>,
    ty: &Schema,
    name: &str,
    place: Place,
) -> Result<(), DecodeError> {
    // Numbers may stand in one run without tags between them.
    let number =
        matches!(ty.shape, Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Bool | Scalar::Double));
    if number && kind == BYTES {
        let mut run = Wire(wire.bytes()?);
        let each = if matches!(ty.shape, Shape::Scalar(Scalar::Double)) { FIXED64 } else { VARINT };
        while !run.0.is_empty() {
            items.push(single(&mut run, each, None, ty, name, place)?);
        }
        return Ok(());
    }
    items.push(single(wire, kind, None, ty, name, place)?);
    Ok(())
}

fn entry(data: &[u8], ty: &Schema, name: &str, place: Place) -> Result<(String, Value), DecodeError> {
    let (mut key, mut value) = (String::new(), None);
    let mut wire = Wire(data);
    while let Some((number, kind)) = wire.tag()? {
        match (number, kind) {
            (1, BYTES) => key = String::from_utf8_lossy(wire.bytes()?).into_owned(),
            (2, _) => value = Some(single(&mut wire, kind, None, ty, name, place)?),
            _ => wire.skip(number, kind)?,
        }
    }
    // Go makes an empty slice for an entry without its bytes.
    let value = value.unwrap_or_else(|| match ty.shape {
        Shape::Scalar(Scalar::Bytes) => Value::String(String::new()),
        _ => zero(ty),
    });
    Ok((key, value))
}

fn single(
    wire: &mut Wire<'_>,
    kind: u8,
    before: Option<Value>,
    ty: &Schema,
    name: &str,
    place: Place,
) -> Result<Value, DecodeError> {
    let Shape::Scalar(scalar) = &ty.shape else {
        return if kind == BYTES { body(wire.bytes()?, before, ty, place) } else { wrong(name, kind) };
    };
    match (scalar, kind) {
        (Scalar::String, BYTES) => Ok(text(wire.bytes()?)),
        (Scalar::Bytes, BYTES) => Ok(Value::String(STANDARD.encode(wire.bytes()?))),
        (Scalar::Bool, VARINT) => Ok(Value::Bool(wire.varint()? != 0)),
        // Go keeps the low bits.
        (Scalar::Int32, VARINT) => Ok(Value::from(wire.varint()? as i32)),
        (Scalar::Int64, VARINT) => Ok(Value::from(wire.varint()?.cast_signed())),
        (Scalar::Double, FIXED64) => Ok(float(f64::from_bits(wire.fixed64()?))),
        (
            Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString | Scalar::Duration,
            BYTES,
        ) => leaf_message(wire.bytes()?, *scalar),
        _ => wrong(name, kind),
    }
}

fn text(bytes: &[u8]) -> Value {
    Value::String(match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    })
}

fn leaf_message(data: &[u8], scalar: Scalar) -> Result<Value, DecodeError> {
    match scalar {
        Scalar::Quantity => {
            let bytes = only_bytes(data)?.unwrap_or(b"0");
            let text = String::from_utf8_lossy(bytes);
            let text = canonical(&text).map_err(|error| DecodeError::Value(error.to_string()))?;
            Ok(Value::String(text))
        }
        Scalar::IntOrString => {
            let (mut kind, mut number, mut string) = (0, 0, Value::String(String::new()));
            let mut wire = Wire(data);
            while let Some((tag, wire_type)) = wire.tag()? {
                match (tag, wire_type) {
                    (1, VARINT) => kind = wire.varint()?,
                    (2, VARINT) => number = wire.varint()? as i32,
                    (3, BYTES) => string = text(wire.bytes()?),
                    _ => wire.skip(tag, wire_type)?,
                }
            }
            match kind {
                0 => Ok(Value::from(number)),
                1 => Ok(string),
                _ => Err(DecodeError::Value("impossible IntOrString.Type".to_owned())),
            }
        }
        _ => instant(data, scalar == Scalar::MicroTime),
    }
}

/// The seconds of years 1 to 9999: Go prints no other year.
const YEARS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

fn instant(data: &[u8], micro: bool) -> Result<Value, DecodeError> {
    if data.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut wire = Wire(data);
    while let Some((number, kind)) = wire.tag()? {
        match (number, kind) {
            (1, VARINT) => seconds = wire.varint()?.cast_signed(),
            (2, VARINT) => nanos = wire.varint()? as i32,
            _ => wire.skip(number, kind)?,
        }
    }
    let nanos = if micro { nanos } else { 0 };
    let seconds = seconds.saturating_add(i64::from(nanos.div_euclid(1_000_000_000)));
    if !YEARS.contains(&seconds) {
        return Err(DecodeError::Value("Time.MarshalJSON: year outside of range [0,9999]".to_owned()));
    }
    let instant = Instant { seconds, nanos: nanos.rem_euclid(1_000_000_000).cast_unsigned() };
    Ok(if instant.is_zero() { Value::Null } else { Value::String(instant.print(micro)) })
}
