//! Custom kinds: unstructured, with the structural schema and the rules of their definition.

use serde_json::Value;
use setpoint_api::Status;
use setpoint_api::cause::{Cause, CauseType, Path};
use setpoint_api::kind::GroupKind;
use setpoint_kinds::warnings;
use setpoint_machinery::Interrupt;
use setpoint_schema::{Read, TypeMeta};

use super::builtin::patched_into_nothing;
use super::{Sent, Strategy, unhandled, unrecognized};
use crate::error::ApiError;
use crate::object;
use crate::registry::{Custom, Judged, Resource};
use crate::write::decode_hints::DecodeHints;
use crate::write::patch_type::{APPLY_PATCH, JSON_PATCH, MERGE_PATCH};
use crate::write_options::FieldValidation;

impl Strategy for Custom {
    fn refuses_creates(&self) -> Option<&'static str> {
        self.terminating.then_some("create not allowed while custom resource definition is terminating")
    }

    fn has_definition(&self) -> bool {
        true
    }

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

    fn read(&self, resource: &Resource, bytes: &[u8]) -> Result<Read, String> {
        Custom::read(self, &resource.version, bytes)
    }

    fn read_patched(&self, resource: &Resource, hints: &DecodeHints, value: &Value) -> Result<Read, String> {
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

    fn validate_create(
        &self,
        resource: &Resource,
        new: &Value,
        interrupt: &Interrupt,
        causes: &mut Vec<Cause>,
    ) {
        let judged = Judged { object: new, old: None, is_status: false, interrupt };
        let (found, _) = self.validate(&resource.version, &judged, causes);
        causes.extend(found);
    }

    fn validate_update(
        &self,
        resource: &Resource,
        subresource: &str,
        new: &Value,
        old: &Value,
        interrupt: &Interrupt,
        causes: &mut Vec<Cause>,
    ) -> Vec<Cause> {
        causes.extend(said_again(causes));
        let is_status = subresource == "status";
        let judged = Judged { object: new, old: Some(old), is_status, interrupt };
        let (found, tolerated) = self.validate(&resource.version, &judged, causes);
        causes.extend(found);
        tolerated
    }

    fn warns_of_unchanged(&self, resource: &Resource) -> bool {
        self.has_rules(&resource.version)
    }

    fn warnings(&self, resource: &Resource, _: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
        warnings::of(&resource.group_kind(), true, new, old)
    }

    fn encode(&self, resource: &Resource, subresource: &str, new: &mut Value) {
        self.to_storage(&resource.version, new);
        if subresource == "status" && new.get("status").is_some_and(Value::is_null) {
            new.as_object_mut().map(|fields| fields.remove("status"));
        }
    }
}

/// kube-apiserver looks at the metadata of a changed custom object three times, and tells each time; at what may not
/// change, twice.
fn said_again(causes: &[Cause]) -> Vec<Cause> {
    let thrice = |cause: &Cause| {
        let fields = ["metadata.labels", "metadata.annotations", "metadata.ownerReferences"];
        fields.iter().any(|field| cause.field.starts_with(field))
    };
    let twice = |cause: &Cause| {
        cause.field == "metadata.uid"
            || cause.field == "metadata.finalizers" && cause.reason == CauseType::FieldValueForbidden
    };
    let second = causes.iter().filter(|cause| thrice(cause) || twice(cause));
    second.chain(causes.iter().filter(|cause| thrice(cause))).cloned().collect()
}
