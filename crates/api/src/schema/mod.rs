//! What is known about a type: one form for the built-in kinds (decoded from an embedded table when first
//! used) and for custom resources (compiled from the CRD's structural schema).
//!
//! Everything that depends on structure walks this form and nothing else: unknown-field checks, apply,
//! strategic merge, protobuf, OpenAPI.

mod form;
mod record;
mod table;

pub use form::{
    Codec, Field, ListKind, Node, Omit, PatchStrategy, ProtoField, ProtoSlot, Scalar, Schema, Shape, Struct,
    TypeRef,
};
pub use table::{Group, Resource, Subresource, Table, builtin};

#[cfg(test)]
mod tests;
