//! How messages of a struct are put together, worked out once a type: where each field goes, and what Go writes for
//! those that nobody set.

use super::forward::{bytes, close, open, tag};
use super::wire::{FIXED64, VARINT};
use crate::form::{Layout, Place};
use crate::{Codec, Field, Scalar, Schema, Shape, Struct};

impl Struct {
    pub(super) fn layout(&self) -> &Layout {
        self.layout.get_or_init(|| Layout::new(self))
    }
}

impl Layout {
    fn new(fields: &Struct) -> Self {
        let mut places = vec![Place::default(); fields.fields.len()];
        let mut zeros = Vec::with_capacity(fields.proto.len());
        for (slot, at) in (0..).zip(&fields.proto) {
            let number = at.path.into_iter().rfind(|number| *number != 0).unwrap_or_default();
            let mut zero = Vec::new();
            missing(&mut zero, number, &fields.fields[usize::from(at.field)]);
            places[usize::from(at.field)] = Place { number, slot, always: !zero.is_empty() };
            zeros.push(zero.into_boxed_slice());
        }
        Layout {
            flat: fields.proto.iter().all(|slot| slot.path[1] == 0),
            always: u16::try_from(places.iter().filter(|place| place.always).count()).expect("slots are u16"),
            places: places.into(),
            zeros: zeros.into(),
        }
    }
}

/// Writes the bytes that Go writes for an unset field.
pub(super) fn missing(out: &mut Vec<u8>, number: u16, field: &Field) {
    if field.pointer {
        return;
    }
    let ty = field.ty.get();
    if !matches!(ty.shape, Shape::List { .. } | Shape::Map { .. } | Shape::Scalar(Scalar::Bytes)) {
        zero(out, number, ty);
    }
}

/// A zero value with its tag.
pub(super) fn zero(out: &mut Vec<u8>, number: u16, ty: &Schema) {
    match &ty.shape {
        Shape::Scalar(Scalar::String | Scalar::Bytes) => bytes(out, number, b""),
        Shape::Scalar(Scalar::Bool | Scalar::Int32 | Scalar::Int64) => {
            tag(out, number, VARINT);
            out.push(0);
        }
        Shape::Scalar(Scalar::Double) => {
            tag(out, number, FIXED64);
            out.extend_from_slice(&[0; 8]);
        }
        Shape::Scalar(Scalar::Quantity) => bytes(out, number, b"\x0a\x010"),
        Shape::Scalar(Scalar::IntOrString) => bytes(out, number, &[0x08, 0, 0x10, 0, 0x1a, 0]),
        Shape::Struct(fields) => {
            let start = open(out, number);
            ordered(out, fields, 0, fields.proto.len(), 0, &mut |out, slot| {
                out.extend_from_slice(&fields.layout().zeros[slot]);
            });
            close(out, start);
        }
        _ if matches!(ty.codec, Codec::PropsOrBool(_)) => bytes(out, number, &[0x08, 0]),
        _ => bytes(out, number, b""),
    }
}

/// Writes the slots from `first` to before `behind` in their order, each by `write`; those of an embedded message stand
/// together in it.
pub(super) fn ordered(
    out: &mut Vec<u8>,
    fields: &Struct,
    mut first: usize,
    behind: usize,
    depth: usize,
    write: &mut dyn FnMut(&mut Vec<u8>, usize),
) {
    while first < behind {
        let path = fields.proto[first].path;
        if depth == 2 || path[depth + 1] == 0 {
            write(out, first);
            first += 1;
            continue;
        }
        let within = fields.proto[first..behind].partition_point(|slot| slot.path[depth] <= path[depth]);
        let start = open(out, path[depth]);
        ordered(out, fields, first, first + within, depth + 1, write);
        close(out, start);
        first += within;
    }
}
