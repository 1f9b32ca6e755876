//! Built-in kinds: typed, with the schemas of the table.

use serde_json::{Value, json};
use setpoint_api::Status;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::kind::GroupKind;
use setpoint_schema::{Read, TypeMeta};

use super::{APPLY_PATCH, DecodeHints, Decoder, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Sent};
use crate::error::ApiError;
use crate::object;
use crate::registry::{DecodeError, Resource};
use crate::write::strategy;
use crate::write_options::FieldValidation;

/// Reads what it is given with the schema of the resource.
pub(super) struct Builtin;

impl Decoder for Builtin {
    fn has_protobuf(&self) -> bool {
        true
    }

    fn patch_types(&self) -> &'static [&'static str] {
        &[JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
    }

    fn unsupported_patch(&self) -> ApiError {
        ApiError::unsupported_patch()
    }

    fn check_kind(
        &self,
        resource: &Resource,
        _: FieldValidation,
        meta: &TypeMeta,
        _: &[u8],
    ) -> Result<(), ApiError> {
        let expected = resource.api_version();
        let kind = if meta.kind.is_empty() { &resource.kind } else { &meta.kind };
        let version = if meta.api_version.is_empty() { &expected } else { &meta.api_version };
        match *kind == resource.kind && *version == expected {
            true => Ok(()),
            false => Err(other_kind(resource, version, kind)),
        }
    }

    fn check_patched_kind(&self, resource: &Resource, patched: &Value) -> Result<(), ApiError> {
        let text = |field: &str| patched.get(field).and_then(Value::as_str).unwrap_or("");
        let (kind, version) = (text("kind"), text("apiVersion"));
        let is_own = (kind.is_empty() || kind == resource.kind)
            && (version.is_empty() || version == resource.api_version());
        if is_own { Ok(()) } else { Err(patched_into_another(resource, patched)) }
    }

    fn read(&self, resource: &Resource, bytes: &[u8]) -> Result<Read, DecodeError> {
        Ok(setpoint_schema::read_json(bytes, &resource.schema())?)
    }

    fn read_patched(
        &self,
        resource: &Resource,
        hints: &DecodeHints,
        value: &Value,
    ) -> Result<Read, DecodeError> {
        let schema = resource.schema();
        setpoint_schema::read_value(value.clone(), &schema).map_err(|error| {
            let unstructured = hints.applied || hints.merge.is_some();
            let own = unstructured.then(|| setpoint_schema::conversion_error(value, &schema)).flatten();
            own.map_or_else(|| error.into(), DecodeError::Unconvertible)
        })
    }

    fn unconvertible(
        &self,
        resource: &Resource,
        hints: &DecodeHints,
        name: &str,
        value: &Value,
        error: &str,
    ) -> ApiError {
        if !hints.applied {
            return patched_into_nothing(hints, value, error);
        }
        let (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
        ApiError::internal_plain(format!(
            "failed to convert new object ({}/{name}; {group}/{version}, Kind={kind}) to proper version: unable to \
             convert unstructured object to {group}/{version}, Kind={kind}: {error}",
            hints.namespace,
        ))
    }

    fn note_dropped(&self, resource: &Resource, sent: &Sent<'_>, read: &mut Value) -> Vec<&'static str> {
        let bare = |template: &Value| template.pointer("/metadata/labels").is_none();
        let own = strategy::of(resource).empty_map();
        let may_be_empty = own.is_some() || read.pointer("/spec/template").is_some_and(bare);
        let may_reset = sent.may_have_managers && read.pointer("/metadata/managedFields").is_none();
        if !may_be_empty && !may_reset {
            return Vec::new();
        }
        let sent = (sent.object)();
        if may_reset {
            keep_reset(&sent, read);
        }
        if may_be_empty { empty_maps(own, &sent) } else { Vec::new() }
    }
}

/// A body of another built-in kind or version than the resource's, in the words of Go's decoder.
fn other_kind(resource: &Resource, version: &str, kind: &str) -> ApiError {
    let version_only = version.split_once('/').map_or(version, |(_, version)| version);
    let why = conversion_error(resource, version, kind);
    ApiError::bad_request(format!(
        "{kind} in version \"{version_only}\" cannot be handled as a {}: {why}",
        resource.kind
    ))
}

/// The result of a patch is an object of another kind or version than the resource's.
fn patched_into_another(resource: &Resource, patched: &Value) -> ApiError {
    let text = |field: &str| patched.get(field).and_then(Value::as_str).unwrap_or("");
    let why = conversion_error(resource, text("apiVersion"), text("kind"));
    let shown = String::from_utf8_lossy(&object::ordered(patched)).into_owned();
    let cause = Cause::invalid(&Path::new("patch"), shown.as_str(), &why);
    Status::invalid(&GroupKind::new("", ""), "", vec![cause]).into()
}

/// Go's reason why an object of this version and kind does not become one of the resource's.
fn conversion_error(resource: &Resource, version: &str, kind: &str) -> String {
    let (group, version_only) = version.split_once('/').unwrap_or(("", version));
    let known = setpoint_schema::builtin().schema(group, version_only, kind).is_some();
    let package = if resource.group.is_empty() { "core" } else { &resource.group };
    let package = package.split('.').next().unwrap_or(package);
    if known {
        format!("converting ({version_only}.{kind}) to ({package}.{}): unknown conversion", resource.kind)
    } else {
        format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )
    }
}

/// The result of a patch that is no apply is no object of the kind.
pub(super) fn patched_into_nothing(hints: &DecodeHints, value: &Value, error: &str) -> ApiError {
    match &hints.merge {
        Some(merge) => ApiError::invalid_patch_shown(merge, error),
        None => ApiError::invalid_patch(value, error),
    }
}

const TEMPLATE_LABELS: &str = "spec.template.metadata.labels";

/// The maps that validation tells apart from absent ones when they are sent empty.
fn empty_maps(own: Option<&'static str>, sent: &Value) -> Vec<&'static str> {
    let is_empty = |pointer: &str| sent.pointer(pointer).is_some_and(|value| value == &json!({}));
    let own = own.filter(|field| is_empty(&format!("/{field}")));
    let labels = is_empty("/spec/template/metadata/labels").then_some(TEMPLATE_LABELS);
    own.into_iter().chain(labels).collect()
}

/// An empty list of managers that was sent means to forget them, so it must survive reading.
fn keep_reset(sent: &Value, read: &mut Value) {
    let list = sent.pointer("/metadata/managedFields").and_then(Value::as_array);
    if list.is_some_and(Vec::is_empty) {
        object::metadata_mut(read).insert("managedFields".to_owned(), json!([]));
    }
}
