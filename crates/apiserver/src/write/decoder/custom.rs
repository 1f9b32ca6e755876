//! Custom kinds: unstructured, with the structural schema of their definition.

use serde_json::Value;
use setpoint_api::Status;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::kind::GroupKind;
use setpoint_schema::{Read, TypeMeta};

use super::builtin::patched_into_nothing;
use super::{APPLY_PATCH, DecodeHints, Decoder, JSON_PATCH, MERGE_PATCH, Sent, unhandled, unrecognized};
use crate::error::ApiError;
use crate::object;
use crate::registry::{Custom, DecodeError, Resource};
use crate::write_options::FieldValidation;

impl Decoder for Custom {
    fn has_protobuf(&self) -> bool {
        false
    }

    fn patch_types(&self) -> &'static [&'static str] {
        &[JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    }

    fn unsupported_patch(&self) -> ApiError {
        ApiError::unsupported_media_type(self.patch_types())
    }

    /// The decoder of unstructured objects needs both.
    fn check_kind(
        &self,
        resource: &Resource,
        validation: FieldValidation,
        meta: &TypeMeta,
        bytes: &[u8],
    ) -> Result<(), ApiError> {
        let expected = resource.api_version();
        if meta.kind.is_empty() || meta.api_version.is_empty() {
            let missing = if meta.kind.is_empty() { "Kind" } else { "apiVersion" };
            let text = String::from_utf8_lossy(bytes);
            let error = format!("Object '{missing}' is missing in '{}'", text.trim_end());
            return Err(match validation {
                FieldValidation::Ignore => unhandled(resource, &error),
                _ => unrecognized(resource, &error, bytes),
            });
        }
        if meta.api_version != expected {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({}) does not match the expected API version ({expected})",
                meta.api_version
            )));
        }
        if meta.kind == resource.kind {
            return Ok(());
        }
        let name = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let text = format!("must be {}", resource.kind);
        let cause = Cause::invalid(&Path::new("kind"), &*meta.kind, &text);
        let sent = GroupKind::new(&*resource.group, &*meta.kind);
        Err(Status::invalid(&sent, object::name(&name), vec![cause]).into())
    }

    fn check_patched_kind(&self, _: &Resource, _: &Value) -> Result<(), ApiError> {
        Ok(())
    }

    fn read(&self, resource: &Resource, bytes: &[u8]) -> Result<Read, DecodeError> {
        Custom::read(self, &resource.version, bytes)
    }

    fn read_patched(
        &self,
        resource: &Resource,
        hints: &DecodeHints,
        value: &Value,
    ) -> Result<Read, DecodeError> {
        match hints.applied {
            true => self.read_applied(&resource.version, value.clone()),
            false => self.read_value(&resource.version, value.clone()),
        }
    }

    fn unconvertible(
        &self,
        _: &Resource,
        hints: &DecodeHints,
        _: &str,
        value: &Value,
        error: &str,
    ) -> ApiError {
        patched_into_nothing(hints, value, error)
    }

    fn note_dropped(&self, _: &Resource, _: &Sent<'_>, _: &mut Value) -> Vec<&'static str> {
        Vec::new()
    }
}
