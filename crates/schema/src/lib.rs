//! Schemas of Kubernetes types, and the JSON and protobuf codecs that follow them.
//!
//! A [`Schema`] has one form for the built-in kinds (decoded from an embedded table when first used) and for custom
//! resources (compiled from the CRD's structural schema by `setpoint-machinery`). Everything that depends on structure
//! walks this form and nothing else: unknown-field checks, apply, strategic merge, protobuf, OpenAPI.

mod unstructured;
pub mod protobuf;
mod read;
pub(crate) mod zero;
mod table;
mod record;
mod form;
pub(crate) mod amount;
pub(crate) mod instant;

pub use form::{
    Codec, Field, ListKind, Node, Omit, PatchStrategy, ProtoField, ProtoSlot, Scalar, Schema, Shape, Struct,
    TypeRef, prefix,
};
pub(crate) use read::syntax;
pub use read::{
    Fault, Read, ReadError, STRICT_LIMIT, Strict, TypeMeta, excerpt, read_json, read_value, type_meta,
    untyped_json,
};
pub use table::{Group, Resource, Subresource, Table, builtin};
pub use unstructured::conversion_error;

#[cfg(test)]
mod tests;
