//! Stored JSON to the message that Go writes, without a value in between: what most protobuf answers are made of.
//!
//! The text is read once. A struct's fields are encoded in the order in which they stand, then put in the order of
//! their numbers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::EncodeError;
use super::wire::{BYTES, FIXED64, VARINT};
use crate::schema::instant::Instant;
use crate::schema::syntax::{self, Scanner};
use crate::schema::{Codec, Field, ProtoSlot, Scalar, Schema, Shape, Struct, builtin};

/// The message of an object from its JSON text, as [`super::encode_message`] makes it of a value. The text must be
/// what reading by the same schema gave.
///
/// # Errors
/// When it is not JSON, the type has no protobuf form, or a value does not fit its type.
pub fn transcode_message(json: &[u8], schema: &Schema) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer { out: Vec::with_capacity(json.len()), json: Scanner::new(json) };
    writer.body(schema, "")?;
    writer.json.end().map_err(malformed)?;
    Ok(writer.out)
}

/// The largest struct whose fields are kept apart on the stack.
const FIELDS: usize = 64;

type Done = Result<(), EncodeError>;

fn malformed(error: syntax::Error) -> EncodeError {
    EncodeError::Malformed(error.0)
}

fn misfit<T>(field: &str, ty: &Schema) -> Result<T, EncodeError> {
    let ty = ty.go.as_deref().unwrap_or("interface {}").to_owned();
    Err(EncodeError::Value { field: field.to_owned(), ty })
}

struct Writer<'a> {
    out: Vec<u8>,
    json: Scanner<'a>,
}

impl Writer<'_> {
    fn next(&mut self) -> Result<u8, EncodeError> {
        self.json.begin_value().map_err(malformed)
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    fn tag(&mut self, number: u16, wire: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire));
    }

    fn bytes(&mut self, number: u16, bytes: &[u8]) {
        self.tag(number, BYTES);
        self.varint(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    /// Begins a message; [`Writer::close`] fills in its length.
    fn open(&mut self, number: u16) -> usize {
        self.tag(number, BYTES);
        self.out.push(0);
        self.out.len()
    }

    fn close(&mut self, start: usize) {
        let length = self.out.len() - start;
        if length < 0x80 {
            self.out[start - 1] = length as u8;
            return;
        }
        let more = (length.ilog2() / 7) as usize;
        self.out.extend([0; 9].iter().take(more));
        self.out.copy_within(start..start + length, start + more);
        let mut rest = length;
        for slot in &mut self.out[start - 1..start + more] {
            *slot = rest as u8 | 0x80;
            rest >>= 7;
        }
        self.out[start + more - 1] &= 0x7f;
    }

    /// Takes `null`, if it stands next.
    fn null(&mut self) -> Result<bool, EncodeError> {
        if self.next()? != b'n' {
            return Ok(false);
        }
        self.json.word().map_err(malformed)?;
        Ok(true)
    }

    /// The content of a type that is a message, from the value that stands next.
    fn body(&mut self, ty: &Schema, field: &str) -> Done {
        match (&ty.shape, ty.codec) {
            (_, Codec::JsonOnly) => Err(EncodeError::NoForm(ty.go.as_deref().unwrap_or_default().to_owned())),
            (Shape::Struct(fields), _) => match self.next()? {
                b'{' if fields.fields.len() <= FIELDS => self.structure(fields),
                _ => misfit(field, ty),
            },
            (Shape::List { item, .. }, _) => self.list(1, item.get(), field, ty),
            (Shape::Scalar(scalar), _) => self.leaf_message(*scalar, ty, field),
            (
                _,
                Codec::PropsOrBool(props) | Codec::PropsOrArray(props) | Codec::PropsOrStringArray(props),
            ) => self.alternatives(ty, builtin().type_at(props), field),
            _ => {
                let start = self.json.position();
                self.json.skip_value().map_err(malformed)?;
                let raw = self.json.since(start);
                self.bytes(1, raw);
                Ok(())
            }
        }
    }

    fn alternatives(&mut self, ty: &Schema, props: &Schema, field: &str) -> Done {
        let boolean = matches!(ty.codec, Codec::PropsOrBool(_));
        match self.next()? {
            b'{' => {
                if boolean {
                    self.tag(1, VARINT);
                    self.out.push(1);
                }
                let start = self.open(if boolean { 2 } else { 1 });
                self.body(props, field)?;
                self.close(start);
                Ok(())
            }
            b'[' => self.list(
                2,
                if matches!(ty.codec, Codec::PropsOrArray(_)) { props } else { text_type() },
                field,
                ty,
            ),
            first @ (b't' | b'f') => {
                self.json.word().map_err(malformed)?;
                self.tag(1, VARINT);
                self.out.push(u8::from(first == b't'));
                Ok(())
            }
            _ => misfit(field, ty),
        }
    }

    fn structure(&mut self, fields: &Struct) -> Done {
        let base = self.out.len();
        let mut spans = [(0, 0); FIELDS];
        self.json.enter().map_err(malformed)?;
        let mut more = self.json.first_key().map_err(malformed)?;
        while more {
            let key = self.json.string().map_err(malformed)?;
            self.json.colon().map_err(malformed)?;
            match fields.index(&key).map(|at| (at, &fields.fields[at])) {
                Some((at, field)) if field.proto.is_some() => {
                    let start = self.out.len();
                    self.field(field)?;
                    spans[at] = (start, self.out.len());
                }
                _ => {
                    self.next()?;
                    self.json.skip_value().map_err(malformed)?;
                }
            }
            more = self.json.next_key().map_err(malformed)?;
        }
        self.json.leave();
        let end = self.out.len();
        self.ordered(fields, &fields.proto, 0, &spans)?;
        let length = self.out.len() - end;
        self.out.copy_within(end.., base);
        self.out.truncate(base + length);
        Ok(())
    }

    /// Copies the encoded fields in the order of their numbers, with what Go writes for those that are missing.
    fn ordered(
        &mut self,
        fields: &Struct,
        mut slots: &[ProtoSlot],
        depth: usize,
        spans: &[(usize, usize); FIELDS],
    ) -> Done {
        while let Some(first) = slots.first() {
            let number = first.path[depth];
            if depth < 2 && first.path[depth + 1] != 0 {
                let behind = slots.partition_point(|slot| slot.path[depth] <= number);
                let start = self.open(number);
                self.ordered(fields, &slots[..behind], depth + 1, spans)?;
                self.close(start);
                slots = &slots[behind..];
                continue;
            }
            match spans[usize::from(first.field)] {
                (0, 0) => self.missing(number, &fields.fields[usize::from(first.field)])?,
                // The number of a field in an embedded message is the same in its span.
                (start, end) => self.out.extend_from_within(start..end),
            }
            slots = &slots[1..];
        }
        Ok(())
    }

    /// What Go writes for a field that nobody set.
    fn missing(&mut self, number: u16, field: &Field) -> Done {
        let ty = field.ty.get();
        if field.pointer || matches!(ty.shape, Shape::List { .. } | Shape::Map { .. }) {
            return Ok(());
        }
        match ty.shape {
            Shape::Scalar(Scalar::Bytes) => Ok(()),
            _ => self.zero(number, ty),
        }
    }

    /// A zero value with its tag.
    fn zero(&mut self, number: u16, ty: &Schema) -> Done {
        match &ty.shape {
            Shape::Scalar(Scalar::String | Scalar::Bytes) => self.bytes(number, b""),
            Shape::Scalar(Scalar::Bool | Scalar::Int32 | Scalar::Int64) => {
                self.tag(number, VARINT);
                self.out.push(0);
            }
            Shape::Scalar(Scalar::Double) => {
                self.tag(number, FIXED64);
                self.out.extend_from_slice(&[0; 8]);
            }
            Shape::Scalar(Scalar::Quantity) => self.bytes(number, b"\x0a\x010"),
            Shape::Scalar(Scalar::IntOrString) => self.bytes(number, &[0x08, 0, 0x10, 0, 0x1a, 0]),
            Shape::Struct(fields) => {
                let start = self.open(number);
                self.ordered(fields, &fields.proto, 0, &[(0, 0); FIELDS])?;
                self.close(start);
            }
            _ if matches!(ty.codec, Codec::PropsOrBool(_)) => self.bytes(number, &[0x08, 0]),
            _ => self.bytes(number, b""),
        }
        Ok(())
    }

    /// A struct's field from the value that stands next, with the number that it has in its message.
    fn field(&mut self, field: &Field) -> Done {
        let path = field.proto.map_or([0; 3], |proto| proto.path);
        let number = path.into_iter().rfind(|number| *number != 0).unwrap_or_default();
        let ty = field.ty.get();
        if self.null()? {
            return if field.pointer { Ok(()) } else { self.missing(number, field) };
        }
        match (&ty.shape, ty.codec) {
            (Shape::List { item, .. }, codec) if codec != Codec::WrappedList => {
                self.list(number, item.get(), &field.name, ty)
            }
            (Shape::Map { value, .. }, _) => self.map(number, value.get(), &field.name, ty),
            _ => self.single(number, ty, &field.name),
        }
    }

    fn list(&mut self, number: u16, item: &Schema, field: &str, ty: &Schema) -> Done {
        if self.next()? != b'[' {
            return misfit(field, ty);
        }
        self.json.enter().map_err(malformed)?;
        let mut more = self.json.first_item().map_err(malformed)?;
        while more {
            if self.null()? {
                self.zero(number, item)?;
            } else {
                self.single(number, item, field)?;
            }
            more = self.json.next_item().map_err(malformed)?;
        }
        self.json.leave();
        Ok(())
    }

    fn map(&mut self, number: u16, item: &Schema, field: &str, ty: &Schema) -> Done {
        if self.next()? != b'{' {
            return misfit(field, ty);
        }
        // Entries go by their keys, which stand in order in what was read; where they do not, they are sorted.
        let base = self.out.len();
        let mut entries: Vec<(String, usize, usize)> = Vec::new();
        self.json.enter().map_err(malformed)?;
        let mut more = self.json.first_key().map_err(malformed)?;
        while more {
            let key = self.json.string().map_err(malformed)?.into_owned();
            self.json.colon().map_err(malformed)?;
            let from = self.out.len();
            let start = self.open(number);
            self.bytes(1, key.as_bytes());
            if !self.null()? {
                self.single(2, item, field)?;
            } else if !matches!(item.shape, Shape::Scalar(Scalar::Bytes)) {
                self.zero(2, item)?;
            }
            self.close(start);
            entries.push((key, from, self.out.len()));
            more = self.json.next_key().map_err(malformed)?;
        }
        self.json.leave();
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            let end = self.out.len();
            entries.sort();
            for (_, start, end) in &entries {
                self.out.extend_from_within(*start..*end);
            }
            self.out.drain(base..end);
        }
        Ok(())
    }

    /// One value, which is not null, with its tag.
    fn single(&mut self, number: u16, ty: &Schema, field: &str) -> Done {
        let Shape::Scalar(scalar) = &ty.shape else {
            let start = self.open(number);
            self.body(ty, field)?;
            self.close(start);
            return Ok(());
        };
        match (scalar, self.next()?) {
            (Scalar::String, b'"') => {
                let text = self.json.string().map_err(malformed)?;
                self.bytes(number, text.as_bytes());
            }
            (Scalar::Bytes, b'"') => {
                let text = self.json.string().map_err(malformed)?;
                let Ok(bytes) = STANDARD.decode(&*text) else { return misfit(field, ty) };
                self.bytes(number, &bytes);
            }
            (Scalar::Bool, first @ (b't' | b'f')) => {
                self.json.word().map_err(malformed)?;
                self.tag(number, VARINT);
                self.out.push(u8::from(first == b't'));
            }
            (Scalar::Int32 | Scalar::Int64, b'-' | b'0'..=b'9') => {
                let text = self.json.numeral().map_err(malformed)?;
                let Ok(value) = text.parse::<i64>() else { return misfit(field, ty) };
                self.tag(number, VARINT);
                self.varint(value.cast_unsigned());
            }
            (Scalar::Double, b'-' | b'0'..=b'9') => {
                let text = self.json.numeral().map_err(malformed)?;
                let value: f64 = text.parse().unwrap_or_default();
                self.tag(number, FIXED64);
                self.out.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            (Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString, _) => {
                let start = self.open(number);
                self.leaf_message(*scalar, ty, field)?;
                self.close(start);
            }
            _ => return misfit(field, ty),
        }
        Ok(())
    }

    fn leaf_message(&mut self, scalar: Scalar, ty: &Schema, field: &str) -> Done {
        let text = match self.next()? {
            b'"' => self.json.string().map_err(malformed)?,
            b'-' | b'0'..=b'9' if scalar == Scalar::IntOrString => {
                let Ok(number) = self.json.numeral().map_err(malformed)?.parse::<i64>() else {
                    return misfit(field, ty);
                };
                self.out.extend_from_slice(&[0x08, 0, 0x10]);
                self.varint(number.cast_unsigned());
                self.bytes(3, b"");
                return Ok(());
            }
            _ => return misfit(field, ty),
        };
        match scalar {
            Scalar::Quantity => self.bytes(1, text.as_bytes()),
            Scalar::IntOrString => {
                self.out.extend_from_slice(&[0x08, 1, 0x10, 0]);
                self.bytes(3, text.as_bytes());
            }
            _ => {
                let Ok(instant) = Instant::parse(&text, false) else { return misfit(field, ty) };
                if !instant.is_zero() {
                    self.tag(1, VARINT);
                    self.varint(instant.seconds.cast_unsigned());
                    self.tag(2, VARINT);
                    let micros = if scalar == Scalar::MicroTime { instant.nanos / 1000 * 1000 } else { 0 };
                    self.varint(u64::from(micros));
                }
            }
        }
        Ok(())
    }
}

/// Plain text, for the lists that have no item type of their own.
fn text_type() -> &'static Schema {
    static TEXT: std::sync::OnceLock<Schema> = std::sync::OnceLock::new();
    TEXT.get_or_init(|| Schema::of(crate::schema::Node::new(Shape::Scalar(Scalar::String))))
}
