//! How bodies and patches of a resource are read: built-in kinds by the schemas of the table, custom kinds by their
//! definition.

mod custom;
mod builtin;

use std::borrow::Cow;

use serde_json::Value;
use setpoint_schema::{Read, TypeMeta};

use self::builtin::Builtin;
use crate::error::ApiError;
use crate::registry::{DecodeError, Resource};
use crate::write_options::FieldValidation;

/// The content types of patches.
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// The decoder of a resource.
pub(crate) fn of(resource: &Resource) -> &dyn Decoder {
    match &resource.custom {
        Some(custom) => &**custom,
        None => &Builtin,
    }
}

/// How to decode the result of a patch, and how a refusal speaks of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodeHints {
    /// The patch is a server-side apply: what it made is shaped a little differently.
    pub(crate) applied: bool,
    /// The namespace that an applied configuration names.
    pub(crate) namespace: String,
    /// The faults that a strict reader finds in the patch itself.
    pub(crate) faults: Vec<String>,
    /// A strategic merge as Go prints it, which refusals quote instead of the object.
    pub(crate) merge: Option<String>,
}

/// An object as it was sent.
pub(crate) struct Sent<'a> {
    /// Reads it without a type. It costs as much as the typed reading did.
    pub(crate) object: &'a dyn Fn() -> Cow<'a, Value>,
    /// Whether it may have `managedFields`.
    pub(crate) may_have_managers: bool,
}

pub(crate) trait Decoder {
    /// Whether the kind has a protobuf form.
    fn has_protobuf(&self) -> bool;

    /// The content types of patches.
    fn patch_types(&self) -> &'static [&'static str];

    /// The refusal of another content type.
    fn unsupported_patch(&self) -> ApiError;

    /// Checks kind and version of a body against the resource's. A body may leave out what its decoder does not need.
    fn check_kind(
        &self,
        resource: &Resource,
        validation: FieldValidation,
        meta: &TypeMeta,
        bytes: &[u8],
    ) -> Result<(), ApiError>;

    /// Checks kind and version of what a JSON or merge patch made. Strategic merge patches do not change them.
    fn check_patched_kind(&self, resource: &Resource, patched: &Value) -> Result<(), ApiError>;

    /// Reads a body.
    fn read(&self, resource: &Resource, bytes: &[u8]) -> Result<Read, DecodeError>;

    /// Reads what a patch made.
    fn read_patched(
        &self,
        resource: &Resource,
        hints: &DecodeHints,
        value: &Value,
    ) -> Result<Read, DecodeError>;

    /// The refusal of a patch whose result is no object of the kind.
    fn unconvertible(
        &self,
        resource: &Resource,
        hints: &DecodeHints,
        name: &str,
        value: &Value,
        error: &str,
    ) -> ApiError;

    /// Keeps what reading dropped and the write must know. Returns the maps that were sent empty and are read as absent.
    fn note_dropped(&self, resource: &Resource, sent: &Sent<'_>, read: &mut Value) -> Vec<&'static str>;
}

/// The error for a body whose kind cannot be told.
pub(super) fn unrecognized(resource: &Resource, error: &str, bytes: &[u8]) -> ApiError {
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {error} ({})",
        resource.kind,
        setpoint_schema::excerpt(bytes)
    ))
}

/// The error for a body that is no object of its kind.
pub(super) fn unhandled(resource: &Resource, error: &str) -> ApiError {
    let (kind, version) = (&resource.kind, &resource.version);
    ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"))
}
