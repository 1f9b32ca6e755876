//! Kubernetes' strategy of a kind: how its objects are read, judged and stored. Built-in kinds have one, and every
//! definition of a custom kind is one.

mod custom;
mod builtin;

use std::borrow::Cow;

use serde_json::Value;
use setpoint_api::cause::Cause;
use setpoint_machinery::Interrupt;
use setpoint_schema::{Read, TypeMeta};

use self::builtin::Builtin;
use super::decode_hints::DecodeHints;
use crate::error::ApiError;
use crate::registry::Resource;
use crate::write_options::FieldValidation;

/// The strategy of a resource.
pub(crate) fn of(resource: &Resource) -> &dyn Strategy {
    match &resource.custom {
        Some(custom) => &**custom,
        None => &Builtin,
    }
}

/// An object as it was sent.
pub(crate) struct Sent<'a> {
    /// Reads it without a type. It costs as much as the typed reading did.
    pub(crate) object: &'a dyn Fn() -> Cow<'a, Value>,
    /// Whether it may have `managedFields`.
    pub(crate) may_have_managers: bool,
}

pub(crate) trait Strategy {
    /// The reason why nothing new of the kind can be created; none if it can.
    fn refuses_creates(&self) -> Option<&'static str>;

    /// Whether a definition makes the kind. It may wait for the last object.
    fn has_definition(&self) -> bool;

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
    fn read(&self, resource: &Resource, bytes: &[u8]) -> Result<Read, String>;

    /// Reads what a patch made.
    fn read_patched(&self, resource: &Resource, hints: &DecodeHints, value: &Value) -> Result<Read, String>;

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

    /// Adds what is wrong with a new object to what is wrong with its metadata. It is void once the interrupt is raised.
    fn validate_create(
        &self,
        resource: &Resource,
        new: &Value,
        interrupt: &Interrupt,
        causes: &mut Vec<Cause>,
    );

    /// Adds what is wrong with a changed object. What was wrong before and did not change comes back, and is tolerated.
    fn validate_update(
        &self,
        resource: &Resource,
        subresource: &str,
        new: &Value,
        old: &Value,
        interrupt: &Interrupt,
        causes: &mut Vec<Cause>,
    ) -> Vec<Cause>;

    /// Whether an object that does not change is validated for the sake of its warnings.
    fn warns_of_unchanged(&self, resource: &Resource) -> bool;

    /// Warns of what is valid and probably not meant.
    fn warnings(
        &self,
        resource: &Resource,
        subresource: &str,
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<String>;

    /// Takes away what the stored version does not have.
    fn encode(&self, resource: &Resource, subresource: &str, new: &mut Value);
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
