//! `POST` to a collection.

use http::{Response, StatusCode};
use serde_json::{Value, json};
use setpoint_api::cause::{Cause, Path};
use setpoint_api::{clock, name};
use setpoint_kinds::{defaults, prepare, warnings};
use setpoint_store::{Snapshot, Txn};

use crate::admission::webhook;
use crate::error::{ApiError, Result};
use crate::server::{Body, RequestContext};
use crate::verb::update;
use crate::write::{Decided, Writer, commit, outcome, put, single_owners};
use crate::{admission, auth, managed, object, validate};

/// How often a taken name is drawn again.
const NAME_TRIES: usize = 8;

/// Creates an object.
pub(crate) async fn create(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    if ctx.resource.rules.ephemeral {
        return auth::review::review(ctx, bytes).await;
    }
    if ctx.resource.custom.as_ref().is_some_and(|custom| custom.terminating) {
        let name = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let text = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::forbidden(&ctx.resource.group_resource(), object::name(&name), text));
    }
    let mut writer = Writer::new(ctx, "CreateOptions")?;
    let sent = writer.decode(bytes)?;
    let mut object = place(ctx, sent).map_err(|error| error.with_warnings(&writer.warnings))?;
    writer.warnings.extend(single_owners(&mut object, false));
    let decide = |snapshot: &Snapshot, txn: &mut Txn| decide(&writer, snapshot, txn, object.clone());
    let committed = commit(ctx, writer.dry_run, decide).await;
    let (decided, events) = committed.map_err(|error| error.with_warnings(&writer.warnings))?;
    writer.warnings.extend(decided.warnings.iter().cloned());
    if ctx.resource.rules.inert {
        writer.warnings.push(format!(
            "{} are stored and served by this server; nothing acts on them",
            ctx.resource.group_resource()
        ));
    }
    update::answer(ctx, &writer.warnings, StatusCode::CREATED, outcome(decided, &events)).await
}

/// The object's namespace is the request's.
pub(crate) fn place(ctx: &RequestContext, mut object: Value) -> Result<Value> {
    let sent = object::meta_text(&object, "namespace").to_owned();
    if ctx.resource.namespaced {
        if !sent.is_empty() && sent != ctx.info.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        object::set_meta_text(&mut object, "namespace", &ctx.info.namespace);
    } else {
        object::set_meta_text(&mut object, "namespace", "");
    }
    Ok(object)
}

/// Decides what is stored for a new object.
pub(crate) fn decide(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    txn: &mut Txn,
    mut object: Value,
) -> Result<Decided> {
    let version = crate::write::sent_version(&object).to_owned();
    name_it(writer, snapshot, &mut object)?;
    system_fields(writer, &mut object);
    defaults::apply(&writer.ctx.resource.stored_kind(), &mut object);
    managed::created(writer, &mut object);
    admit(writer, snapshot, txn, object, &version)
}

/// Like [`decide`], for an object that an apply makes: its owners are noted already.
pub(crate) fn decide_applied(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    txn: &mut Txn,
    mut object: Value,
) -> Result<Decided> {
    name_it(writer, snapshot, &mut object)?;
    system_fields(writer, &mut object);
    defaults::apply(&writer.ctx.resource.stored_kind(), &mut object);
    admit(writer, snapshot, txn, object, "")
}

fn system_fields(writer: &Writer<'_>, object: &mut Value) {
    let metadata = object::metadata_mut(object);
    for field in
        ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"]
    {
        metadata.remove(field);
    }
    let uid = writer.uid.get_or_init(|| writer.ctx.server.options().random.uid());
    metadata.insert("uid".into(), json!(uid));
    metadata.insert("creationTimestamp".into(), json!(clock::rfc3339_seconds(writer.now)));
}

fn admit(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    txn: &mut Txn,
    mut object: Value,
    sent_version: &str,
) -> Result<Decided> {
    let (ctx, resource) = (writer.ctx, &writer.ctx.resource);
    admission::namespace::may_create(snapshot, ctx, object::name(&object))?;
    admission::create(writer, snapshot, &mut object)?;
    let mut warnings = webhook::written::create(writer, snapshot, &mut object)?;
    admission::after_webhooks(writer, snapshot, &mut object, None)?;
    prepare::create(&resource.facts, &mut object, &writer.context());
    validate::create(writer, &object)?;
    warnings.extend(warnings::of(&resource.group_kind(), resource.custom.is_some(), &object, None));
    admission::validate(writer, snapshot, txn, &object, None)
        .map_err(|error| error.with_warnings(&warnings))?;
    let key = resource.key(object::meta_text(&object, "namespace"), object::name(&object));
    prepare::stored(&resource.stored_kind(), &mut object);
    if let Some(custom) = &resource.custom {
        custom.to_storage(&resource.version, &mut object);
    }
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        crate::crd::begin(&mut object);
    }
    // It is the storage that minds a version, and a dry run does not get there.
    if !sent_version.is_empty() && !writer.dry_run {
        return Err(ApiError::internal_plain("resourceVersion should not be set on objects to be created"));
    }
    if snapshot.get(&key).is_some() {
        return Err(ApiError::already_exists(resource, object::name(&object)));
    }
    put(ctx, txn, key.clone(), &object, writer.now)?;
    if !sent_version.is_empty() {
        object::set_meta_text(&mut object, "resourceVersion", sent_version);
    }
    Ok(Decided { object, key, unchanged: None, warnings })
}

/// Draws a name where only its beginning is given.
fn name_it(writer: &Writer<'_>, snapshot: &Snapshot, object: &mut Value) -> Result<()> {
    let (ctx, resource) = (writer.ctx, &writer.ctx.resource);
    let namespace = object::meta_text(object, "namespace").to_owned();
    if !object::name(object).is_empty() {
        return Ok(());
    }
    let base = object::meta_text(object, "generateName").to_owned();
    if base.is_empty() {
        let cause = Cause::required(&Path::new("metadata.name"), "name or generateName is required");
        return Err(ApiError::invalid(resource, "", vec![cause]));
    }
    let mut kept = writer.drawn.lock().expect("no holder of this lock panics");
    let mut drawn = String::new();
    for _ in 0..NAME_TRIES {
        // What is decided again has the name that it had, unless somebody took it.
        drawn = kept.take().unwrap_or_else(|| name::generate(&base, &ctx.server.options().random));
        let key = resource.key(&namespace, &drawn);
        if snapshot.get(&key).is_none() {
            object::set_meta_text(object, "name", &drawn);
            *kept = Some(drawn);
            return Ok(());
        }
    }
    Err(ApiError::generate_name_conflict(resource, &drawn))
}
