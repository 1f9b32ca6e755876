//! `PATCH` of one object: JSON patch, merge patch, strategic merge, server-side apply.

use std::borrow::Cow;
use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::Value;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::status::StatusCause;
use setpoint_machinery::apply::{self, ApplyError};
use setpoint_machinery::patch::{PatchError, apply_json_patch, apply_merge_patch};
use setpoint_machinery::strategic;
use setpoint_store::{Entry, Snapshot, Txn};

use crate::auth::authz;
use crate::error::{ApiError, Result};
use crate::negotiate::media_type;
use crate::server::{Body, RequestContext};
use crate::verb::{create, update};
use crate::write::{Decided, FieldValidation, Writer, commit, outcome, single_owners, yaml_errors};
use crate::{body, conversion, form, managed, object};

/// How a patch is meant.
enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply { config: Value, force: bool, doubled: bool },
}

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Changes an object.
pub(crate) async fn patch(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    let parsed = parse(ctx, bytes)?;
    let mut writer = Writer::new(ctx, "PatchOptions")?;
    check_options(ctx, &parsed)?;
    note_faults(&mut writer, &parsed, bytes);
    let mut warnings = Vec::new();
    let decide = |snapshot: &Snapshot, txn: &mut Txn| {
        writer.warnings.clear();
        let decided = decide(&mut writer, snapshot, txn, &parsed);
        warnings.clone_from(&writer.warnings);
        decided
    };
    let dry_run = dry(ctx);
    let committed = commit(ctx, dry_run, decide).await;
    let ((decided, created), events) = committed.map_err(|error| error.with_warnings(&warnings))?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    warnings.extend(decided.warnings.iter().cloned());
    update::answer(ctx, &warnings, status, outcome(decided, &events)).await
}

/// What a strict reader has against the patch, before anything is done with it.
fn note_faults(writer: &mut Writer<'_>, patch: &Patch, bytes: &[u8]) {
    let doubled = || -> Vec<String> {
        let read = setpoint_schema::read_json(bytes, &setpoint_schema::Schema::any());
        read.map(|read| read.strict.iter().map(|fault| fault.path.clone()).collect()).unwrap_or_default()
    };
    let fault = |path: String| format!("duplicate field {}", setpoint_api::cause::quote(&path));
    match patch {
        Patch::Merge(_) => writer.patch_faults = doubled().into_iter().map(fault).collect(),
        Patch::Strategic(merge) => {
            writer.patch_faults = doubled().into_iter().map(fault).collect();
            writer.merged = Some(setpoint_api::gostyle::plain(merge));
        }
        Patch::Json(operations) => writer.patch_faults = operation_faults(operations, doubled()),
        Patch::Apply { doubled: true, .. } => writer.yaml_faults = body::doubled_keys(bytes),
        Patch::Apply { .. } => {}
    }
}

/// Doubled and unknown fields of operations, and what doubled ones in their values leave behind in the object.
fn operation_faults(operations: &Value, doubled: Vec<String>) -> Vec<String> {
    let mut faults: Vec<String> = Vec::new();
    let mut left: Vec<String> = Vec::new();
    for (at, operation) in operations.as_array().into_iter().flatten().enumerate() {
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
fn stays(operations: &Value, at: usize, pointer: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut later = operations.as_array().into_iter().flatten().skip(at + 1);
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

fn dry(ctx: &RequestContext) -> bool {
    ctx.info.query.all("dryRun").any(|value| value == "All")
}

fn parse(ctx: &RequestContext, bytes: &[u8]) -> Result<Patch> {
    let accepted: &[&str] = if ctx.resource.custom.is_some() {
        &[JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    } else {
        &[JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
    };
    let media = &*media_type(&ctx.headers);
    if !accepted.contains(&media) {
        return Err(match ctx.resource.custom {
            Some(_) => ApiError::unsupported_media_type(accepted),
            None => ApiError::unsupported_patch(),
        });
    }
    let json = |bytes: &[u8]| -> Result<Value> {
        serde_json::from_slice(bytes).map_err(|_| ApiError::bad_request("invalid JSON patch"))
    };
    let object = |patch: Value| match patch {
        Value::Object(_) | Value::Null => Ok(patch),
        other => Err(ApiError::bad_request(format!(
            "{}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            if media == MERGE_PATCH { "error decoding patch: " } else { "" },
            json_kind(&other)
        ))),
    };
    match media {
        JSON_PATCH => match json(bytes)? {
            operations @ (Value::Array(_) | Value::Null) => Ok(Patch::Json(operations)),
            other => Err(ApiError::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                json_kind(&other)
            ))),
        },
        MERGE_PATCH => json(bytes).and_then(object).map(Patch::Merge),
        STRATEGIC_PATCH => json(bytes).and_then(object).map(Patch::Strategic),
        _ => {
            let text = body::yaml_to_json(bytes)
                .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
            let (config, doubled) = body::json_with_doubled(&text)
                .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
            // Of a key that stands twice in YAML only the last is left in what it was turned into.
            let doubled = doubled || matches!(text, Cow::Owned(_));
            Ok(Patch::Apply { config, force: ctx.info.query.flag("force"), doubled })
        }
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

fn check_options(ctx: &RequestContext, patch: &Patch) -> Result<()> {
    let mut causes = Vec::new();
    match patch {
        Patch::Apply { .. } => {
            let missing = ctx.info.query.get("fieldManager").is_none();
            let cause = Cause::required(&Path::new("fieldManager"), "is required for apply patch");
            causes.extend(missing.then_some(cause));
        }
        _ if ctx.info.query.has("force") => {
            causes.push(Cause::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
        }
        _ => {}
    }
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid_options("PatchOptions", causes)) }
}

fn decide(
    writer: &mut Writer<'_>,
    snapshot: &Snapshot,
    txn: &mut Txn,
    patch: &Patch,
) -> Result<(Decided, bool)> {
    let ctx = writer.ctx;
    let key = ctx.resource.key(&ctx.info.namespace, &ctx.info.name);
    let entry = snapshot.get(&key);
    match (patch, entry) {
        (Patch::Apply { config, force, .. }, entry) => applied(writer, snapshot, txn, config, *force, entry),
        (_, None) => Err(ApiError::not_found(&ctx.resource, &ctx.info.name)),
        (patch, Some(entry)) => {
            let live = conversion::live(ctx, &entry)?;
            let shown = form::present_value(&ctx.resource, live.clone());
            let patched = patched(ctx, shown, patch)?;
            let new = checked(writer, patched)?;
            update::check_resource_version(writer, &new, &entry)?;
            update::change(writer, snapshot, txn, &entry, live, new).map(|decided| (decided, false))
        }
    }
}

/// The patched object as its type has it; it may not have become another object.
fn checked(writer: &mut Writer<'_>, patched: Value) -> Result<Value> {
    let ctx = writer.ctx;
    let new = writer.stored_form(patched)?;
    if writer.applied {
        warn_of_doubled(writer)?;
    }
    let sent = object::name(&new);
    if sent.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            ctx.info.name
        )));
    }
    if sent != ctx.info.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({sent}) does not match the name on the URL ({})",
            ctx.info.name
        )));
    }
    create::place(ctx, new)
}

fn patched(ctx: &RequestContext, mut target: Value, patch: &Patch) -> Result<Value> {
    match patch {
        Patch::Json(operations) => {
            apply_json_patch(&mut target, operations).map_err(|error| refused(&error))?;
            Ok(target)
        }
        Patch::Merge(merge) => {
            apply_merge_patch(&mut target, merge.clone()).map_err(|error| refused(&error))?;
            Ok(target)
        }
        Patch::Strategic(merge) => {
            strategic::apply(target, merge.clone(), &ctx.resource.schema()).map_err(ApiError::strategic)
        }
        Patch::Apply { .. } => Ok(target),
    }
}

pub(crate) fn refused(error: &PatchError) -> ApiError {
    match error {
        PatchError::TooManyOperations(found) => {
            ApiError::too_many_operations(setpoint_machinery::patch::MAX_OPERATIONS, *found)
        }
        PatchError::Unprocessable(_) => ApiError::unprocessable(),
        other => ApiError::bad_request(other.to_string()),
    }
}

/// Merges a configuration into the live object, or creates it.
fn applied(
    writer: &mut Writer<'_>,
    snapshot: &Snapshot,
    txn: &mut Txn,
    config: &Value,
    force: bool,
    entry: Option<Arc<Entry>>,
) -> Result<(Decided, bool)> {
    let ctx = writer.ctx;
    writer.applied = true;
    check_configuration(ctx, config)?;
    object::meta_text(config, "namespace").clone_into(&mut writer.config_namespace);
    if entry.is_none() && !ctx.info.subresource.is_empty() && !ctx.resource.facts.create_on_update {
        return Err(ApiError::not_found(&ctx.resource, &ctx.info.name));
    }
    let live = entry.as_ref().map(|entry| conversion::live(ctx, entry)).transpose()?;
    let shown = live.as_ref().map(|live| form::presented_value(&ctx.resource, live));
    let knowledge = managed::Knowledge::new(&ctx.resource, &ctx.info.subresource);
    let result = apply::server_side_apply(shown.as_deref(), config, force, &knowledge.context(writer));
    let applied = result.map_err(apply_refused)?;
    // Another version may not have all that is stored: then even what changes nothing is written; and
    // webhooks are asked about it.
    let is_needed = applied.changed || !ctx.resource.has_all_that_is_stored() || ctx.reviews.is_some();
    let merged = is_needed.then(|| {
        let mut merged = applied.object.into_owned();
        object::set_meta_text(&mut merged, "name", &ctx.info.name);
        merged
    });
    drop(shown);
    let (Some(entry), Some(live)) = (entry, live) else {
        if !object::meta_text(config, "uid").is_empty() {
            let text = "uid mismatch: the provided object specified uid ".to_owned()
                + object::meta_text(config, "uid")
                + ", and no existing object was found";
            return Err(ApiError::conflict(&ctx.resource, &ctx.info.name, &text));
        }
        let stored = writer.stored_form(merged.unwrap_or_default())?;
        warn_of_doubled(writer)?;
        let mut new = create::place(ctx, stored)?;
        writer.warnings.extend(single_owners(&mut new, true));
        let decided = create::decide_applied(writer, snapshot, txn, new)?;
        authz::authorize_create(ctx.server.options(), snapshot, &ctx.user, &ctx.info)?;
        return Ok((decided, true));
    };
    let Some(merged) = merged else {
        warn_of_doubled(writer)?;
        let warnings = update::warnings_about(writer, &live);
        let key = entry.key.to_vec();
        return Ok((Decided { object: live, key, unchanged: Some(entry), warnings }, false));
    };
    let mut new = checked(writer, merged)?;
    writer.warnings.extend(single_owners(&mut new, true));
    update::check_resource_version(writer, &with_version(new.clone(), config), &entry)?;
    update::change_applied(writer, snapshot, txn, &entry, live, new).map(|decided| (decided, false))
}

fn warn_of_doubled(writer: &mut Writer<'_>) -> Result<()> {
    let doubled = judge_doubled(writer)?;
    writer.warnings.extend(doubled);
    Ok(())
}

/// Keys that stand twice in what was applied: they are looked at last.
pub(crate) fn judge_doubled(writer: &Writer<'_>) -> Result<Vec<String>> {
    match writer.field_validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(writer.yaml_faults.clone()),
        FieldValidation::Strict if writer.yaml_faults.is_empty() => Ok(Vec::new()),
        FieldValidation::Strict => Err(ApiError::bad_request(format!(
            "error strict decoding patch: error converting YAML to JSON: {}",
            yaml_errors(&writer.yaml_faults)
        ))),
    }
}

/// An apply is conditional only if its configuration names a version.
fn with_version(mut new: Value, config: &Value) -> Value {
    let version = object::meta_text(config, "resourceVersion").to_owned();
    if !version.is_empty() {
        object::set_meta_text(&mut new, "resourceVersion", &version);
    }
    new
}

/// A configuration is an object, and of the object that the path names.
fn check_configuration(ctx: &RequestContext, config: &Value) -> Result<()> {
    if !config.is_object() {
        return Err(ApiError::bad_request("error decoding YAML: the configuration is not an object"));
    }
    let sent = object::name(config);
    if !sent.is_empty() && sent != ctx.info.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({sent}) does not match the name on the URL ({})",
            ctx.info.name
        )));
    }
    Ok(())
}

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
