//! The four kinds of patches: how they are read, and what they make of an object.

use std::borrow::Cow;

use serde_json::Value;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::status::StatusCause;
use setpoint_machinery::Interrupt;
use setpoint_machinery::apply::ApplyError;
use setpoint_machinery::patch::{MAX_OPERATIONS, PatchError, apply_json_patch, apply_merge_patch};
use setpoint_machinery::strategic;
use setpoint_schema::Schema;

use super::decode::yaml_errors;
use super::decoder::{self, APPLY_PATCH, DecodeHints, JSON_PATCH, MERGE_PATCH};
use crate::body;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::negotiate::media_type;
use crate::object;
use crate::write_options::FieldValidation;
use crate::writer::Writer;

/// A patch that changes the object it is given.
pub(crate) enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
}

/// The body of a server-side apply.
pub(crate) struct Configuration {
    pub(crate) value: Value,
    /// A key may stand twice in the body.
    pub(crate) may_be_doubled: bool,
}

/// Whether the request is a server-side apply.
pub(crate) fn is_apply(ctx: &RequestContext) -> bool {
    media_type(&ctx.headers) == APPLY_PATCH
}

/// Refuses a content type that patches of the resource do not have.
pub(crate) fn check_media_type(ctx: &RequestContext) -> Result<()> {
    let decoder = decoder::of(&ctx.resource);
    match decoder.patch_types().contains(&&*media_type(&ctx.headers)) {
        true => Ok(()),
        false => Err(decoder.unsupported_patch()),
    }
}

impl Patch {
    /// Reads a patch of one of the three kinds that are JSON.
    pub(crate) fn read(ctx: &RequestContext, bytes: &[u8]) -> Result<Patch> {
        let media = media_type(&ctx.headers);
        let patch: Value =
            serde_json::from_slice(bytes).map_err(|_| ApiError::bad_request("invalid JSON patch"))?;
        let unexpected = |patch: &Value, before: &str, wanted: &str| {
            let kind = json_kind(patch);
            ApiError::bad_request(format!(
                "{before}json: cannot unmarshal {kind} into Go value of type {wanted}"
            ))
        };
        let map = "map[string]interface {}";
        let decoding = "error decoding patch: ";
        match (&*media, patch) {
            (JSON_PATCH, patch @ (Value::Array(_) | Value::Null)) => Ok(Patch::Json(patch)),
            (JSON_PATCH, other) => Err(unexpected(&other, decoding, "[]handlers.jsonPatchOp")),
            (MERGE_PATCH, patch @ (Value::Object(_) | Value::Null)) => Ok(Patch::Merge(patch)),
            (MERGE_PATCH, other) => Err(unexpected(&other, decoding, map)),
            (_, patch @ (Value::Object(_) | Value::Null)) => Ok(Patch::Strategic(patch)),
            (_, other) => Err(unexpected(&other, "", map)),
        }
    }

    /// The target with the patch. It is void once the interrupt is raised.
    pub(crate) fn apply(&self, mut target: Value, schema: &Schema, interrupt: &Interrupt) -> Result<Value> {
        match self {
            Patch::Json(operations) => {
                apply_json_patch(&mut target, operations, interrupt).map_err(|error| refused(&error))?;
                // The next steps recurse over the object.
                if object::depth(&target) > object::READABLE {
                    return Err(ApiError::too_deep());
                }
            }
            Patch::Merge(merge) => {
                apply_merge_patch(&mut target, merge.clone()).map_err(|error| refused(&error))?;
            }
            Patch::Strategic(merge) => {
                target = strategic::apply(target, merge.clone(), schema).map_err(ApiError::strategic)?;
            }
        }
        Ok(target)
    }

    /// The faults that a strict reader finds in the patch itself, and the words of refusals.
    pub(crate) fn decode_hints(&self, bytes: &[u8]) -> DecodeHints {
        let doubled = doubled_paths(bytes);
        let fault = |path: String| format!("duplicate field {}", setpoint_api::go_format::quote(&path));
        match self {
            Patch::Merge(_) => {
                DecodeHints { faults: doubled.into_iter().map(fault).collect(), ..DecodeHints::default() }
            }
            Patch::Strategic(merge) => DecodeHints {
                faults: doubled.into_iter().map(fault).collect(),
                merge: Some(setpoint_api::go_format::plain(merge)),
                ..DecodeHints::default()
            },
            Patch::Json(operations) => {
                DecodeHints { faults: operation_faults(operations, doubled), ..DecodeHints::default() }
            }
        }
    }
}

impl Configuration {
    /// Reads the body of an apply.
    pub(crate) fn read(bytes: &[u8]) -> Result<Configuration> {
        let undecodable =
            |error: &dyn std::fmt::Display| ApiError::bad_request(format!("error decoding YAML: {error}"));
        let text = body::yaml_to_json(bytes).map_err(|error| undecodable(&error))?;
        let (value, doubled) = body::json_with_doubled(&text).map_err(|error| undecodable(&error))?;
        // The JSON made of YAML has only the last value of a doubled key.
        Ok(Configuration { value, may_be_doubled: doubled || matches!(text, Cow::Owned(_)) })
    }
}

/// Refuses options that do not go with the kind of the patch.
pub(crate) fn check_options(ctx: &RequestContext) -> Result<()> {
    let cause = match is_apply(ctx) {
        true if ctx.info.query.get("fieldManager").is_none() => {
            Cause::required(&Path::new("fieldManager"), "is required for apply patch")
        }
        false if ctx.info.query.has("force") => {
            Cause::forbidden(&Path::new("force"), "may not be specified for non-apply patch")
        }
        _ => return Ok(()),
    };
    Err(ApiError::invalid_options("PatchOptions", vec![cause]))
}

/// Keys that stand twice in what was applied: they are reported last.
pub(crate) fn report_doubled(writer: &Writer<'_>, doubled: &[String]) -> Result<Vec<String>> {
    match writer.field_validation() {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict if !doubled.is_empty() => Err(ApiError::bad_request(format!(
            "error strict decoding patch: error converting YAML to JSON: {}",
            yaml_errors(doubled)
        ))),
        FieldValidation::Warn | FieldValidation::Strict => Ok(doubled.to_vec()),
    }
}

/// A patch that does not apply.
pub(crate) fn refused(error: &PatchError) -> ApiError {
    match error {
        PatchError::TooManyOperations(found) => ApiError::too_many_operations(MAX_OPERATIONS, *found),
        PatchError::Unprocessable(_) => ApiError::unprocessable(),
        PatchError::TooDeep => ApiError::too_deep(),
        other => ApiError::bad_request(other.to_string()),
    }
}

/// An apply that conflicts, or cannot be understood.
pub(crate) fn apply_refused(error: ApplyError) -> ApiError {
    match &error {
        ApplyError::Conflicts(_) => {
            let causes = error.causes().into_iter();
            let causes =
                causes.map(|(message, field)| StatusCause::new("FieldManagerConflict", message, field));
            ApiError::apply_conflict(error.to_string(), causes.collect())
        }
        ApplyError::Untyped(_) | ApplyError::Conversion(_) => ApiError::internal_plain(error.to_string()),
        _ => ApiError::bad_request(error.to_string()),
    }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The paths of keys that stand twice in JSON text.
fn doubled_paths(bytes: &[u8]) -> Vec<String> {
    let read = setpoint_schema::read_json(bytes, &Schema::any());
    read.map(|read| read.strict.iter().map(|fault| fault.path.clone()).collect()).unwrap_or_default()
}

/// Doubled and unknown fields of operations, and what doubled ones in their values leave behind in the object.
fn operation_faults(operations: &Value, doubled: Vec<String>) -> Vec<String> {
    let mut faults: Vec<String> = Vec::new();
    let mut left: Vec<String> = Vec::new();
    // A patch with more operations is refused: its faults are never told.
    let operations = operations.as_array().filter(|all| all.len() <= MAX_OPERATIONS);
    let operations = operations.map_or(&[][..], Vec::as_slice);
    for (at, operation) in operations.iter().enumerate() {
        let here = format!("[{at}].");
        for path in doubled.iter().filter_map(|path| path.strip_prefix(&here)) {
            faults.push(format!("json patch duplicate field \"{here}{path}\""));
            if let (Some(below), Some(pointer)) = (path.strip_prefix("value."), operation["path"].as_str())
                && stays(operations, at, pointer)
            {
                left.push(format!("duplicate field \"{}.{below}\"", field_at(pointer)));
            }
        }
        let known = ["op", "path", "from", "value"];
        let names = operation.as_object().into_iter().flat_map(|fields| fields.keys());
        for name in names.filter(|name| !known.contains(&name.as_str())) {
            faults.push(format!("json patch unknown field \"{here}{name}\""));
        }
    }
    faults.extend(left);
    faults
}

/// Whether what an operation wrote is still there as it was written: no later one replaces it or looks into it.
fn stays(operations: &[Value], at: usize, pointer: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut later = operations.iter().skip(at + 1);
    !later.any(|operation| {
        let paths = ["path", "from"].into_iter().filter_map(|name| operation[name].as_str());
        paths.into_iter().any(|path| within(path, pointer) || within(pointer, path))
    })
}

/// `/spec/ports/0` as field paths write it.
fn field_at(pointer: &str) -> String {
    let mut path = String::new();
    for step in pointer.split('/').skip(1) {
        if step.bytes().all(|byte| byte.is_ascii_digit()) {
            path += &format!("[{step}]");
        } else {
            path += if path.is_empty() { "" } else { "." };
            path += &step.replace("~1", "/").replace("~0", "~");
        }
    }
    path
}
