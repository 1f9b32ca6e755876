//! `scale`: replicas of whatever has them.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use setpoint_api::cause::{Cause, Path};
use setpoint_api::kind::GroupVersionKind;
use setpoint_machinery::apply::scale::{self, ReplicasPaths};
use setpoint_machinery::apply::{self, OneVersion, ResetFields, WriteContext};
use setpoint_machinery::fieldset::PathElement;
use setpoint_machinery::patch::{apply_json_patch, apply_merge_patch};
use setpoint_machinery::strategic;
use setpoint_schema::{Schema, builtin};
use setpoint_store::{Entry, Snapshot, Txn};

use crate::admission::webhook::{self, Attributes, Operation};
use crate::error::{ApiError, Result};
use crate::negotiate::{Form, media_type};
use crate::registry;
use crate::respond;
use crate::server::{Body, RequestContext};
use crate::verb::update;
use crate::write::{Writer, commit};
use crate::{conversion, object, subresource, table};

/// JSON pointers to the numbers of a scale inside its object.
struct Paths {
    spec: String,
    status: String,
    selector: Option<String>,
}

fn paths(ctx: &RequestContext) -> Paths {
    let pointer = |path: &str| path.replace('.', "/");
    match ctx.resource.custom.as_ref().and_then(|custom| custom.scale(&ctx.resource.version)) {
        Some(scale) => Paths {
            spec: pointer(&scale.spec_replicas),
            status: pointer(&scale.status_replicas),
            selector: Some(pointer(&scale.label_selector)).filter(|path| !path.is_empty()),
        },
        None => Paths { spec: "/spec/replicas".into(), status: "/status/replicas".into(), selector: None },
    }
}

/// Answers a request for `scale`.
pub(crate) async fn route(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    if ctx.info.verb == "get" {
        let key = ctx.resource.key(&ctx.info.namespace, &ctx.info.name);
        let entry = ctx.server.store().snapshot().get(&key);
        let entry = entry.ok_or_else(|| ApiError::not_found(&ctx.resource, &ctx.info.name))?;
        let entry = conversion::view(ctx, entry).await?;
        let object = registry::value(&entry);
        // A write begins from zero; a read has nothing to show.
        if let Some(custom) =
            ctx.resource.custom.as_ref().and_then(|custom| custom.scale(&ctx.resource.version))
            && object.pointer(&paths(ctx).spec).is_none()
        {
            let path = &custom.spec_replicas;
            return Err(ApiError::internal(format!("the spec replicas field \"{path}\" does not exist")));
        }
        let scale = scale_of(ctx, &object);
        let shown = match ctx.negotiated.form {
            Form::Table(version) => table::scale(ctx, version, &scale),
            _ => scale,
        };
        return respond::value(StatusCode::OK, &ctx.negotiated, &shown);
    }
    let kind = if ctx.info.verb == "patch" { "PatchOptions" } else { "UpdateOptions" };
    let mut writer = Writer::new(ctx, kind)?;
    if media_type(&ctx.headers) == "application/apply-patch+yaml" {
        writer.yaml_faults = crate::body::doubled_keys(bytes);
    }
    let sent = match ctx.info.verb.as_str() {
        "update" => {
            let decoded = subresource::binding::decode(ctx, bytes, "autoscaling", "v1", "Scale");
            Sent::Whole(decoded.map_err(|error| match ctx.resource.custom {
                // The handler of custom kinds cannot name what it failed to read.
                Some(_) => ApiError::bad_request(
                    "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"",
                ),
                None => error,
            })?)
        }
        _ => Sent::Patch(bytes.to_vec()),
    };
    let decide = |snapshot: &Snapshot, txn: &mut Txn| {
        let key = ctx.resource.key(&ctx.info.namespace, &ctx.info.name);
        let entry = snapshot.get(&key).ok_or_else(|| ApiError::not_found(&ctx.resource, &ctx.info.name))?;
        decide(&writer, snapshot, txn, &entry, &sent)
    };
    let ((object, warnings), events) = commit(ctx, writer.dry_run, decide).await?;
    let written = events.iter().find_map(|event| event.new.clone());
    let stored = match written {
        Some(entry) => registry::value(&*conversion::view(ctx, entry).await?),
        None => object,
    };
    let mut response = respond::value(StatusCode::OK, &ctx.negotiated, &scale_of(ctx, &stored))?;
    respond::warn(response.headers_mut(), &crate::verb::patch::judge_doubled(&writer)?);
    respond::warn(response.headers_mut(), &warnings);
    Ok(response)
}

enum Sent {
    Whole(Value),
    Patch(Vec<u8>),
}

/// The scale of an object.
fn scale_of(ctx: &RequestContext, object: &Value) -> Value {
    let paths = paths(ctx);
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let mut spec = json!({});
    if let Some(replicas) = number(&paths.spec).filter(|&replicas| replicas != 0) {
        spec["replicas"] = json!(replicas);
    }
    let mut status = json!({"replicas": number(&paths.status).unwrap_or(0)});
    let selector = match &paths.selector {
        Some(pointer) => object.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned(),
        None if ctx.resource.custom.is_none() => selector_text(object),
        None => String::new(),
    };
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// A label selector as `kubectl -l` writes it.
fn selector_text(object: &Value) -> String {
    let selector = &object["spec"]["selector"];
    let plain = selector.get("matchLabels").or(Some(selector)).and_then(Value::as_object);
    let mut terms: Vec<String> = plain
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or("");
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        terms.push(match expression["operator"].as_str().unwrap_or("") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    terms.sort();
    terms.join(",")
}

fn decide(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    txn: &mut Txn,
    entry: &Arc<Entry>,
    sent: &Sent,
) -> Result<(Value, Vec<String>)> {
    let ctx = writer.ctx;
    let live = conversion::live(ctx, entry)?;
    let mut current = scale_of(ctx, &live);
    let owners = live.pointer("/metadata/managedFields");
    let replicas_paths = ReplicasAt::new(ctx);
    let broken =
        |error: setpoint_machinery::apply::ManagedFieldsError| ApiError::internal_plain(error.to_string());
    if let Some(owners) = scale::entries_of_scale(owners, &replicas_paths).map_err(broken)? {
        current["metadata"]["managedFields"] = owners;
    }
    let mut wanted = match sent {
        Sent::Whole(scale) => tracked(writer, &current, scale.clone()),
        Sent::Patch(bytes) => patched(writer, &current, bytes)?,
    };
    let attributes = |wanted: &Value| {
        let attributes =
            Attributes::of(ctx, snapshot, Operation::Update).with(wanted.clone(), Some(&current));
        attributes.about("autoscaling", "v1", "Scale")
    };
    if let Some(changed) = webhook::mutate(ctx, || attributes(&wanted), |_| Ok(()))? {
        wanted = changed;
    }
    let doubled = crate::verb::patch::judge_doubled(writer)?;
    check(ctx, &wanted, &live, entry).map_err(|error| error.with_warnings(&doubled))?;
    webhook::validate(ctx, || {
        // What is judged is the object's scale anew, which names no owners.
        let mut judged = attributes(&wanted);
        for scale in judged.object.iter_mut().chain(&mut judged.old) {
            object::metadata_mut(scale).remove("managedFields");
        }
        judged
    })?;
    let mut new = update::seen(&ctx.resource, &live).unwrap_or_else(|| live.clone());
    let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    set_pointer(&mut new, &paths(ctx).spec, json!(replicas));
    let version = ctx.resource.api_version();
    let scaled = wanted.pointer("/metadata/managedFields");
    match scale::entries_of_parent(owners, scaled, &version, &replicas_paths).map_err(broken)? {
        Some(entries) => new["metadata"]["managedFields"] = entries,
        None => drop(object::metadata_mut(&mut new).remove("managedFields")),
    }
    let decided = update::change_applied(writer, snapshot, txn, entry, live, new);
    let decided = decided.map_err(|error| error.with_warnings(&doubled))?;
    Ok((decided.object, decided.warnings))
}

fn check(ctx: &RequestContext, wanted: &Value, live: &Value, entry: &Entry) -> Result<()> {
    let version = object::meta_text(wanted, "resourceVersion");
    if !version.is_empty() && version != entry.mod_revision.to_string() {
        return Err(ApiError::modified(&ctx.resource, &ctx.info.name));
    }
    let (uid, live_uid) = (object::meta_text(wanted, "uid"), object::meta_text(live, "uid"));
    if !uid.is_empty() && uid != live_uid {
        let text = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}");
        return Err(ApiError::conflict(&ctx.resource, &ctx.info.name, &text));
    }
    let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    // Custom objects are judged by their own schema.
    if replicas < 0 && ctx.resource.custom.is_none() {
        let text = "must be greater than or equal to 0";
        let cause = Cause::invalid(&Path::new("spec.replicas"), replicas, text);
        let kind = setpoint_api::kind::GroupKind::new("autoscaling", "Scale");
        return Err(setpoint_api::Status::invalid(&kind, &ctx.info.name, vec![cause]).into());
    }
    Ok(())
}

/// Where each version of the object keeps its replicas.
struct ReplicasAt {
    group: String,
    versions: Vec<(String, Vec<PathElement>)>,
}

impl ReplicasAt {
    fn new(ctx: &RequestContext) -> Self {
        let elements =
            |path: &str| path.split('.').filter(|step| !step.is_empty()).map(PathElement::field).collect();
        let versions = match &ctx.resource.custom {
            None => Vec::new(),
            Some(custom) => custom
                .scales()
                .map(|(version, scale)| (version.to_owned(), elements(&scale.spec_replicas)))
                .collect(),
        };
        ReplicasAt { group: ctx.resource.group.clone(), versions }
    }
}

impl ReplicasPaths for ReplicasAt {
    fn path(&self, api_version: &str) -> Option<Vec<PathElement>> {
        if self.versions.is_empty() {
            return scale::SpecReplicas.path(api_version);
        }
        let version = api_version.strip_prefix(&*self.group)?.strip_prefix('/')?;
        self.versions.iter().find(|(own, _)| own == version).map(|(_, path)| path.clone())
    }
}

fn schema() -> Schema {
    builtin().schema("autoscaling", "v1", "Scale").unwrap_or_else(Schema::any)
}

fn scale_kind() -> GroupVersionKind {
    GroupVersionKind { group: "autoscaling".into(), version: "v1".into(), kind: "Scale".into() }
}

/// Notes who changed the replicas.
fn tracked(writer: &Writer<'_>, current: &Value, mut wanted: Value) -> Value {
    let (schema, kind) = (schema(), scale_kind());
    apply::track_update(Some(current), &mut wanted, &context(writer, &schema, &kind));
    wanted
}

fn context<'c>(writer: &'c Writer<'_>, schema: &'c Schema, kind: &'c GroupVersionKind) -> WriteContext<'c> {
    WriteContext {
        schema,
        kind,
        manager: &writer.manager,
        subresource: "scale",
        now: writer.now,
        reset_fields: &ResetFields::None,
        versions: &OneVersion,
    }
}

fn set_pointer(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for step in pointer.split('/').filter(|step| !step.is_empty()) {
        at = &mut at[step];
    }
    *at = value;
}

fn patched(writer: &Writer<'_>, current: &Value, bytes: &[u8]) -> Result<Value> {
    let ctx = writer.ctx;
    let text = crate::body::yaml_to_json(bytes).map_err(ApiError::bad_request)?;
    let patch: Value =
        serde_json::from_slice(&text).map_err(|_| ApiError::bad_request("invalid JSON patch"))?;
    let schema = schema();
    let mut target = current.clone();
    let target = match &*media_type(&ctx.headers) {
        "application/json-patch+json" => {
            apply_json_patch(&mut target, &patch).map_err(|error| crate::verb::patch::refused(&error))?;
            target
        }
        "application/merge-patch+json" => {
            apply_merge_patch(&mut target, patch).map_err(|error| crate::verb::patch::refused(&error))?;
            target
        }
        "application/strategic-merge-patch+json" if ctx.resource.custom.is_none() => {
            strategic::apply(target, patch, &schema).map_err(ApiError::strategic)?
        }
        "application/apply-patch+yaml" => {
            let (force, kind) = (ctx.info.query.flag("force"), scale_kind());
            let applied =
                apply::server_side_apply(Some(current), &patch, force, &context(writer, &schema, &kind));
            return applied
                .map(|applied| applied.object.into_owned())
                .map_err(crate::verb::patch::apply_refused);
        }
        _ => return Err(ApiError::unsupported_patch()),
    };
    let read = setpoint_schema::read_value(target.clone(), &schema);
    let read = read.map_err(|error| ApiError::invalid_patch(&target, &error.to_string()))?;
    Ok(tracked(writer, current, read.value))
}
