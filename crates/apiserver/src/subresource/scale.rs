//! `scale`: the replicas of every kind that has them.

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

use crate::admission::webhook;
use crate::admission::{Attributes, Operation};
use crate::body::Body;
use crate::context::RequestContext;
use crate::decision::Decision;
use crate::error::{ApiError, Result};
use crate::negotiate::{Representation, media_type};
use crate::registry;
use crate::request::Verb;
use crate::respond;
use crate::versions::conversion;
use crate::write::patch::{apply_refused, is_apply, refused, report_doubled};
use crate::write::{Change, Kind, Live, Merge, State, Write, prepare, transaction};
use crate::writer::Writer;
use crate::{object, subresource, table};

/// JSON pointers to the values of a Scale inside its object.
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
    if ctx.info.verb == Verb::Get {
        let key = ctx.resource.key(&ctx.info.namespace, &ctx.info.name);
        let entry = ctx.server.store().snapshot().get(&key);
        let entry = entry.ok_or_else(|| ApiError::not_found(&ctx.resource, &ctx.info.name))?;
        let entry = conversion::view(ctx, entry).await?;
        let object = registry::value(&entry);
        // A write of a missing value begins from zero. A read fails.
        if let Some(custom) =
            ctx.resource.custom.as_ref().and_then(|custom| custom.scale(&ctx.resource.version))
            && object.pointer(&paths(ctx).spec).is_none()
        {
            let path = &custom.spec_replicas;
            return Err(ApiError::internal(format!("the spec replicas field \"{path}\" does not exist")));
        }
        let scale = scale_of(ctx, &object);
        let shown = match ctx.negotiated.representation {
            Representation::Table(version) => table::scale(ctx, version, &scale),
            _ => scale,
        };
        return respond::value(StatusCode::OK, &ctx.negotiated, &shown);
    }
    let kind = if ctx.info.verb == Verb::Patch { "PatchOptions" } else { "UpdateOptions" };
    let writer = Writer::new(ctx, kind)?;
    let sent = Sent::read(ctx, bytes)?;
    let doubled = if is_apply(ctx) { crate::body::doubled_keys(bytes) } else { Vec::new() };
    let merge = ScaleTo { sent, doubled };
    let done = transaction::commit(&Write::new(&writer, Kind::Scale, &merge)).await?;
    let warnings = done.change.warnings.clone();
    respond::warned(answer(ctx, done).await, &warnings)
}

async fn answer(ctx: &RequestContext, done: transaction::Done) -> Result<Response<Body>> {
    let stored = match done.entry() {
        Some(entry) => registry::value(&*conversion::view(ctx, entry).await?),
        None => done.change.new,
    };
    respond::value(StatusCode::OK, &ctx.negotiated, &scale_of(ctx, &stored))
}

enum Sent {
    Whole(Value),
    Patch(Vec<u8>),
}

impl Sent {
    fn read(ctx: &RequestContext, bytes: &[u8]) -> Result<Sent> {
        if ctx.info.verb != Verb::Update {
            return Ok(Sent::Patch(bytes.to_vec()));
        }
        let decoded = subresource::binding::decode(ctx, bytes, "autoscaling", "v1", "Scale");
        decoded.map(Sent::Whole).map_err(|error| match ctx.resource.custom {
            // kube-apiserver's handler for custom kinds cannot name the type that it failed to read.
            Some(_) => ApiError::bad_request(
                "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"",
            ),
            None => error,
        })
    }
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

/// A label selector in the text form of `kubectl -l`.
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

/// A change of the replicas. Admission sees it as a Scale, before the object itself changes.
struct ScaleTo {
    sent: Sent,
    /// Keys that an applied configuration has twice.
    doubled: Vec<String>,
}

impl Merge for ScaleTo {
    fn merge(&self, write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
        let (ctx, writer) = (write.ctx(), write.writer);
        let Some(live) = &change.live else {
            return Err(ApiError::not_found(write.resource(), write.name).into());
        };
        let replicas_paths = ReplicasAt::new(ctx);
        let owners = live.object.pointer("/metadata/managedFields");
        let mut current = scale_of(ctx, &live.object);
        if let Some(owners) = scale::entries_of_scale(owners, &replicas_paths).map_err(broken)? {
            current["metadata"]["managedFields"] = owners;
        }
        let wanted = match &self.sent {
            Sent::Whole(scale) => tracked(writer, &current, scale.clone()),
            Sent::Patch(bytes) => patched(writer, &current, bytes)?,
        };
        let attributes = |wanted: &Value| {
            let attributes = Attributes::of_write(ctx, &writer.options, state.snapshot, Operation::Update);
            attributes.with(wanted.clone(), Some(&current)).about("autoscaling", "v1", "Scale")
        };
        writer.check_converted()?;
        let mutated = webhook::mutate(ctx, writer.reviews.as_ref(), || attributes(&wanted), |_| Ok(()))?;
        let wanted = mutated.unwrap_or(wanted);
        change.warnings.extend(report_doubled(writer, &self.doubled)?);
        check(ctx, &wanted, live)?;
        webhook::validate(ctx, writer.reviews.as_ref(), || {
            // Admission gets the object's Scale once more, without owners.
            let mut judged = attributes(&wanted);
            for scale in judged.object.iter_mut().chain(&mut judged.old) {
                object::metadata_mut(scale).remove("managedFields");
            }
            judged
        })?;
        change.new = scaled(ctx, &live.object, &wanted, &replicas_paths)?;
        Ok(())
    }
}

fn broken(error: setpoint_machinery::apply::ManagedFieldsError) -> ApiError {
    ApiError::internal_plain(error.to_string())
}

/// The object with the replicas and the field owners of the Scale.
fn scaled(ctx: &RequestContext, live: &Value, wanted: &Value, paths_of: &ReplicasAt) -> Result<Value> {
    let mut new = prepare::requested_view(&ctx.resource, live).unwrap_or_else(|| live.clone());
    let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    set_pointer(&mut new, &paths(ctx).spec, json!(replicas));
    let (owners, of_scale) =
        (live.pointer("/metadata/managedFields"), wanted.pointer("/metadata/managedFields"));
    let version = ctx.resource.api_version();
    match scale::entries_of_parent(owners, of_scale, &version, paths_of).map_err(broken)? {
        Some(entries) => new["metadata"]["managedFields"] = entries,
        None => drop(object::metadata_mut(&mut new).remove("managedFields")),
    }
    Ok(new)
}

fn check(ctx: &RequestContext, wanted: &Value, live: &Live) -> Result<()> {
    let version = object::meta_text(wanted, "resourceVersion");
    if !version.is_empty() && version != live.entry.mod_revision.to_string() {
        return Err(ApiError::modified(&ctx.resource, &ctx.info.name));
    }
    let (uid, live_uid) = (object::meta_text(wanted, "uid"), object::meta_text(&live.object, "uid"));
    if !uid.is_empty() && uid != live_uid {
        let text = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}");
        return Err(ApiError::conflict(&ctx.resource, &ctx.info.name, &text));
    }
    let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    // Custom objects are validated by their own schema.
    if replicas < 0 && ctx.resource.custom.is_none() {
        let text = "must be greater than or equal to 0";
        let cause = Cause::invalid(&Path::new("spec.replicas"), replicas, text);
        let kind = setpoint_api::kind::GroupKind::new("autoscaling", "Scale");
        return Err(setpoint_api::Status::invalid(&kind, &ctx.info.name, vec![cause]).into());
    }
    Ok(())
}

/// The path of the replicas in each version of the object.
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

/// The Scale with its new field owner.
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
    let text = crate::body::yaml_to_json(bytes)?;
    let patch: Value =
        serde_json::from_slice(&text).map_err(|_| ApiError::bad_request("invalid JSON patch"))?;
    let schema = schema();
    let mut target = current.clone();
    let target = match &*media_type(&ctx.headers) {
        "application/json-patch+json" => {
            apply_json_patch(&mut target, &patch, &ctx.work.interrupt).map_err(|error| refused(&error))?;
            target
        }
        "application/merge-patch+json" => {
            apply_merge_patch(&mut target, patch).map_err(|error| refused(&error))?;
            target
        }
        "application/strategic-merge-patch+json" if ctx.resource.custom.is_none() => {
            strategic::apply(target, patch, &schema).map_err(ApiError::strategic)?
        }
        "application/apply-patch+yaml" => {
            let (force, kind) = (ctx.info.query.flag("force"), scale_kind());
            let applied =
                apply::server_side_apply(Some(current), &patch, force, &context(writer, &schema, &kind));
            return applied.map(|applied| applied.object.into_owned()).map_err(apply_refused);
        }
        _ => return Err(ApiError::unsupported_patch()),
    };
    let read = setpoint_schema::read_value(target.clone(), &schema);
    let read = read.map_err(|error| ApiError::invalid_patch(&target, &error.to_string()))?;
    Ok(tracked(writer, current, read.value))
}
