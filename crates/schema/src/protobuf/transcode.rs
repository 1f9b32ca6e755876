//! Stored JSON to the message that Go writes, without a value in between: what most protobuf answers are made of.
//!
//! The text is read once. A struct's fields are encoded in the order in which they stand, then put in the order of
//! their numbers where that is another.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::EncodeError;
use super::forward::{bytes, close, close_with, open, tag, varint};
use super::layout::{missing, ordered, zero};
use super::wire::{FIXED64, VARINT, Wire};
use crate::instant::Instant;
use crate::syntax::{self, Scanner};
use crate::{Codec, Field, Scalar, Schema, Shape, Struct, builtin};
use setpoint_api::go_format::escape_json;

/// The message of an object from its JSON text, as [`super::encode_message`] makes it of a value. The text must be
/// what reading by the same schema gave.
///
/// # Errors
/// When it is not JSON, the type has no protobuf form, or a value does not fit its type.
pub fn transcode_message(json: &[u8], schema: &Schema) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    transcode_into(&mut out, json, schema)?;
    Ok(out)
}

/// As [`transcode_message`], into a buffer whose former content is lost.
///
/// # Errors
/// As [`transcode_message`]; the buffer is then empty.
pub fn transcode_into(out: &mut Vec<u8>, json: &[u8], schema: &Schema) -> Result<(), EncodeError> {
    let mut buffer = std::mem::take(out);
    buffer.clear();
    buffer.reserve(json.len());
    let json = Scanner::new(json);
    let mut writer = Writer { out: buffer, scratch: Vec::new(), spans: Vec::new(), json };
    let first = writer.next()?;
    writer.body(first, schema, "", None)?;
    writer.json.end().map_err(malformed)?;
    *out = writer.out;
    Ok(())
}

type Done = Result<(), EncodeError>;

#[cold]
fn malformed(error: syntax::Error) -> EncodeError {
    EncodeError::Malformed(error.0)
}

#[cold]
fn misfit<T>(field: &str, ty: &Schema) -> Result<T, EncodeError> {
    let ty = ty.go.as_deref().unwrap_or("interface {}").to_owned();
    Err(EncodeError::Value { field: field.to_owned(), ty })
}

struct Writer<'a> {
    out: Vec<u8>,
    /// The fields of one struct on their way into another order.
    scratch: Vec<u8>,
    /// The spans of the open structs' fields, by slot. Those of the innermost struct are last.
    spans: Vec<(usize, usize)>,
    json: Scanner<'a>,
}

impl<'a> Writer<'a> {
    fn next(&mut self) -> Result<u8, EncodeError> {
        self.json.begin_value().map_err(malformed)
    }

    fn text(&mut self) -> Result<Cow<'a, [u8]>, EncodeError> {
        self.json.known_string().map_err(malformed)
    }

    /// Takes `true`, `false` or `null`.
    fn word(&mut self) -> Done {
        self.json.word().map_err(malformed)
    }

    /// A message with its tag and length, from the value that begins so.
    fn message(&mut self, first: u8, number: u16, ty: &Schema, field: &str) -> Done {
        let start = open(&mut self.out, number);
        self.body(first, ty, field, Some(start))
    }

    /// The content of a type that is a message, from the value that begins so; the length of one that was opened is
    /// filled in.
    fn body(&mut self, first: u8, ty: &Schema, field: &str, opened: Option<usize>) -> Done {
        match (&ty.shape, ty.codec) {
            (_, Codec::JsonOnly) => {
                return Err(EncodeError::NoForm(ty.go.as_deref().unwrap_or_default().to_owned()));
            }
            (Shape::Struct(fields), _) => {
                return if first == b'{' { self.structure(fields, opened) } else { misfit(field, ty) };
            }
            (Shape::List { item, .. }, _) => self.list(first, 1, item.get(), field, ty)?,
            (Shape::Scalar(scalar), _) => self.leaf_message(first, *scalar, ty, field)?,
            (
                _,
                Codec::PropsOrBool(props) | Codec::PropsOrArray(props) | Codec::PropsOrStringArray(props),
            ) => self.alternatives(first, ty, builtin().type_at(props), field)?,
            _ => {
                let start = self.json.position();
                self.json.skip_known().map_err(malformed)?;
                let json = self.json.since(start);
                // It was read as JSON, so it is text.
                let spelled = std::str::from_utf8(json).map(escape_json);
                bytes(&mut self.out, 1, spelled.as_ref().map_or(json, |spelled| spelled.as_bytes()));
            }
        }
        if let Some(start) = opened {
            close(&mut self.out, start);
        }
        Ok(())
    }

    fn alternatives(&mut self, first: u8, ty: &Schema, props: &Schema, field: &str) -> Done {
        let boolean = matches!(ty.codec, Codec::PropsOrBool(_));
        match first {
            b'{' => {
                if boolean {
                    self.boolean(1, true);
                }
                self.message(first, if boolean { 2 } else { 1 }, props, field)
            }
            b'[' => self.list(
                first,
                2,
                if matches!(ty.codec, Codec::PropsOrArray(_)) { props } else { text_type() },
                field,
                ty,
            ),
            b't' | b'f' => {
                self.word()?;
                self.boolean(1, first == b't');
                Ok(())
            }
            _ => misfit(field, ty),
        }
    }

    fn boolean(&mut self, number: u16, value: bool) {
        tag(&mut self.out, number, VARINT);
        self.out.push(u8::from(value));
    }

    fn structure(&mut self, fields: &Struct, opened: Option<usize>) -> Done {
        let layout = fields.layout();
        let base = self.out.len();
        let outer = self.spans.len();
        self.spans.resize(outer + layout.zeros.len(), (0, 0));
        let (mut from, mut next, mut absent, mut in_order) = (0, 0, layout.always, layout.flat);
        self.json.enter().map_err(malformed)?;
        let mut more = self.json.first_key().map_err(malformed)?;
        while more {
            let key = self.text()?;
            self.json.colon().map_err(malformed)?;
            let found = fields.index_from(&key, from).map(|at| (at, layout.places[at]));
            if let Some((at, place)) = found.filter(|(_, place)| place.number != 0) {
                let start = self.out.len();
                self.field(place.number, &fields.fields[at])?;
                self.spans[outer + usize::from(place.slot)] = (start, self.out.len());
                in_order &= place.slot >= next;
                absent = absent.saturating_sub(u16::from(place.always));
                (from, next) = (at + 1, place.slot + 1);
            } else {
                self.next()?;
                self.json.skip_known().map_err(malformed)?;
            }
            more = self.json.next_key().map_err(malformed)?;
        }
        self.json.leave();
        if in_order && absent == 0 {
            if let Some(start) = opened {
                close(&mut self.out, start);
            }
        } else {
            self.reorder(fields, outer, base, opened);
        }
        self.spans.truncate(outer);
        Ok(())
    }

    /// Puts the fields of a struct, which stand from `base` on, in the order of their numbers, with what Go writes for
    /// those that are missing.
    fn reorder(&mut self, fields: &Struct, outer: usize, base: usize, opened: Option<usize>) {
        let layout = fields.layout();
        let Writer { out, scratch, spans, .. } = self;
        scratch.clear();
        let mut write = |scratch: &mut Vec<u8>, slot: usize| match spans[outer + slot] {
            (0, 0) => scratch.extend_from_slice(&layout.zeros[slot]),
            (start, end) => scratch.extend_from_slice(&out[start..end]),
        };
        if layout.flat {
            (0..layout.zeros.len()).for_each(|slot| write(scratch, slot));
        } else {
            ordered(scratch, fields, 0, layout.zeros.len(), 0, &mut write);
        }
        match opened {
            Some(start) => close_with(out, start, scratch),
            None => {
                out.truncate(base);
                out.extend_from_slice(scratch);
            }
        }
    }

    /// A struct's field from the value that stands next, with the number that it has in its message.
    fn field(&mut self, number: u16, field: &Field) -> Done {
        let ty = field.ty.get();
        let first = self.next()?;
        if first == b'n' {
            missing(&mut self.out, number, field);
            return self.word();
        }
        match (&ty.shape, ty.codec) {
            (Shape::List { item, .. }, codec) if codec != Codec::WrappedList => {
                self.list(first, number, item.get(), &field.name, ty)
            }
            (Shape::Map { value, .. }, _) => self.map(first, number, value.get(), &field.name, ty),
            _ => self.single(first, number, ty, &field.name),
        }
    }

    fn list(&mut self, first: u8, number: u16, item: &Schema, field: &str, ty: &Schema) -> Done {
        if first != b'[' {
            return misfit(field, ty);
        }
        self.json.enter().map_err(malformed)?;
        let mut more = self.json.first_item().map_err(malformed)?;
        while more {
            match self.next()? {
                b'n' => {
                    zero(&mut self.out, number, item);
                    self.word()?;
                }
                first => self.single(first, number, item, field)?,
            }
            more = self.json.next_item().map_err(malformed)?;
        }
        self.json.leave();
        Ok(())
    }

    fn map(&mut self, first: u8, number: u16, item: &Schema, field: &str, ty: &Schema) -> Done {
        if first != b'{' {
            return misfit(field, ty);
        }
        // Entries go by their keys, which stand in order in what was read; where they do not, they are sorted.
        let (base, mut in_order, mut before) = (self.out.len(), true, Cow::Borrowed(&b""[..]));
        self.json.enter().map_err(malformed)?;
        let mut more = self.json.first_key().map_err(malformed)?;
        while more {
            let key = self.text()?;
            self.json.colon().map_err(malformed)?;
            let start = open(&mut self.out, number);
            bytes(&mut self.out, 1, &key);
            match self.next()? {
                b'n' => {
                    self.word()?;
                    if !matches!(item.shape, Shape::Scalar(Scalar::Bytes)) {
                        zero(&mut self.out, 2, item);
                    }
                }
                first => self.single(first, 2, item, field)?,
            }
            close(&mut self.out, start);
            in_order &= before <= key;
            before = key;
            more = self.json.next_key().map_err(malformed)?;
        }
        self.json.leave();
        if !in_order {
            sort_entries(&mut self.out, base);
        }
        Ok(())
    }

    /// One value, which is not null, with its tag.
    fn single(&mut self, first: u8, number: u16, ty: &Schema, field: &str) -> Done {
        let Shape::Scalar(scalar) = &ty.shape else { return self.message(first, number, ty, field) };
        match (scalar, first) {
            (Scalar::String, b'"') => {
                let text = self.text()?;
                bytes(&mut self.out, number, &text);
            }
            (Scalar::Bytes, b'"') => {
                let text = self.text()?;
                let start = open(&mut self.out, number);
                if STANDARD.decode_vec(&*text, &mut self.out).is_err() {
                    return misfit(field, ty);
                }
                close(&mut self.out, start);
            }
            (Scalar::Bool, b't' | b'f') => {
                self.word()?;
                self.boolean(number, first == b't');
            }
            (Scalar::Int32 | Scalar::Int64, b'-' | b'0'..=b'9') => {
                let text = self.json.numeral().map_err(malformed)?;
                let Ok(value) = text.parse::<i64>() else { return misfit(field, ty) };
                tag(&mut self.out, number, VARINT);
                varint(&mut self.out, value.cast_unsigned());
            }
            (Scalar::Double, b'-' | b'0'..=b'9') => {
                let text = self.json.numeral().map_err(malformed)?;
                let value: f64 = text.parse().unwrap_or_default();
                tag(&mut self.out, number, FIXED64);
                self.out.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            (Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString, _) => {
                let start = open(&mut self.out, number);
                self.leaf_message(first, *scalar, ty, field)?;
                close(&mut self.out, start);
            }
            _ => return misfit(field, ty),
        }
        Ok(())
    }

    fn leaf_message(&mut self, first: u8, scalar: Scalar, ty: &Schema, field: &str) -> Done {
        let text = match first {
            b'"' => self.text()?,
            b'-' | b'0'..=b'9' if scalar == Scalar::IntOrString => {
                let Ok(number) = self.json.numeral().map_err(malformed)?.parse::<i64>() else {
                    return misfit(field, ty);
                };
                self.out.extend_from_slice(&[0x08, 0, 0x10]);
                varint(&mut self.out, number.cast_unsigned());
                bytes(&mut self.out, 3, b"");
                return Ok(());
            }
            _ => return misfit(field, ty),
        };
        match scalar {
            Scalar::Quantity => bytes(&mut self.out, 1, &text),
            Scalar::IntOrString => {
                self.out.extend_from_slice(&[0x08, 1, 0x10, 0]);
                bytes(&mut self.out, 3, &text);
            }
            _ => {
                let text = String::from_utf8_lossy(&text);
                let Ok(instant) = Instant::parse(&text, false) else { return misfit(field, ty) };
                if !instant.is_zero() {
                    tag(&mut self.out, 1, VARINT);
                    varint(&mut self.out, instant.seconds.cast_unsigned());
                    tag(&mut self.out, 2, VARINT);
                    let micros = if scalar == Scalar::MicroTime { instant.nanos / 1000 * 1000 } else { 0 };
                    varint(&mut self.out, u64::from(micros));
                }
            }
        }
        Ok(())
    }
}

/// Sorts the entries of a map, which stand from `base` on, by their keys.
fn sort_entries(out: &mut Vec<u8>, base: usize) {
    let written = out.split_off(base);
    let mut rest = Wire(&written);
    let mut entries = Vec::new();
    let mut entry = || -> Option<(&[u8], &[u8])> {
        let whole = rest.0;
        rest.tag().ok()??;
        let mut within = Wire(rest.bytes().ok()?);
        within.tag().ok()??;
        Some((within.bytes().ok()?, &whole[..whole.len() - rest.0.len()]))
    };
    while let Some(found) = entry() {
        entries.push(found);
    }
    entries.sort_by_key(|(key, _)| *key);
    entries.iter().for_each(|(_, entry)| out.extend_from_slice(entry));
}

/// Plain text, for the lists that have no item type of their own.
fn text_type() -> &'static Schema {
    static TEXT: std::sync::OnceLock<Schema> = std::sync::OnceLock::new();
    TEXT.get_or_init(|| Schema::of(crate::Node::new(Shape::Scalar(Scalar::String))))
}
