//! `PUT` of one object, and what every change of an existing object has in common.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::Value;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::kind::GroupKind;
use setpoint_kinds::{defaults, prepare, warnings};
use setpoint_machinery::apply::only_timestamps_differ;
use setpoint_store::{Entry, Snapshot, Txn};

use crate::admission::webhook;
use crate::auth::authz;
use crate::error::{ApiError, Result};
use crate::registry::Resource;
use crate::server::{Body, RequestContext};
use crate::verb::create;
use crate::write::{Decided, Outcome, Writer, commit, outcome, put, sent_version, single_owners};
use crate::{admission, conversion, form, managed, object, respond, validate};

/// Replaces an object.
pub(crate) async fn update(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    let mut writer = Writer::new(ctx, "UpdateOptions")?;
    let sent = writer.decode(bytes)?;
    let placed = create::place(ctx, sent).and_then(|placed| named(ctx, placed));
    let mut object = placed.map_err(|error| error.with_warnings(&writer.warnings))?;
    writer.warnings.extend(single_owners(&mut object, false));
    if ctx.reviews.is_some() {
        let given = SYSTEM_FIELDS.into_iter();
        writer.unsent = given.filter(|field| object["metadata"].get(field).is_none()).collect();
    }
    let decide = |snapshot: &Snapshot, txn: &mut Txn| {
        let key = ctx.resource.key(&ctx.info.namespace, &ctx.info.name);
        match snapshot.get(&key) {
            Some(entry) => {
                let live = conversion::live(ctx, &entry)?;
                check_version(&writer, &object, &live, &entry)?;
                change(&writer, snapshot, txn, &entry, live, object.clone()).map(|decided| (decided, false))
            }
            None if may_create(ctx, &object) => {
                let decided = create::decide(&writer, snapshot, txn, object.clone())?;
                authz::authorize_create(ctx.server.options(), snapshot, &ctx.user, &ctx.info)?;
                Ok((decided, true))
            }
            None => Err(ApiError::not_found(&ctx.resource, &ctx.info.name)),
        }
    };
    let committed = commit(ctx, writer.dry_run, decide).await;
    let ((decided, created), events) = committed.map_err(|error| error.with_warnings(&writer.warnings))?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    writer.warnings.extend(decided.warnings.iter().cloned());
    answer(ctx, &writer.warnings, status, outcome(decided, &events)).await
}

/// Answers with what a write came to.
pub(crate) async fn answer(
    ctx: &RequestContext,
    warnings: &[String],
    status: StatusCode,
    outcome: Outcome,
) -> Result<Response<Body>> {
    let mut response = match outcome {
        Outcome::Stored(entry) => form::one_entry(ctx, status, &*conversion::view(ctx, entry).await?)?,
        Outcome::Value(value) if ctx.info.query.has("dryRun") => {
            form::one_value(ctx, status, conversion::read_back(ctx, value).await?)?
        }
        Outcome::Value(value) => form::one_value(ctx, status, value)?,
    };
    respond::warn(response.headers_mut(), warnings);
    Ok(response)
}

fn may_create(ctx: &RequestContext, object: &Value) -> bool {
    ctx.resource.facts.create_on_update
        && sent_version(object).is_empty()
        && object::meta_text(object, "uid").is_empty()
}

/// The object's name is the request's.
fn named(ctx: &RequestContext, object: Value) -> Result<Value> {
    let sent = object::name(&object);
    if sent.is_empty() {
        let name = &ctx.info.name;
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if sent != ctx.info.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({sent}) does not match the name on the URL ({})",
            ctx.info.name
        )));
    }
    Ok(object)
}

/// Whether the sender has seen the newest version, or may write without.
pub(crate) fn check_version(writer: &Writer<'_>, sent: &Value, live: &Value, entry: &Entry) -> Result<()> {
    let resource = &writer.ctx.resource;
    let name = &writer.ctx.info.name;
    let (uid, live_uid) = (object::meta_text(sent, "uid"), object::meta_text(live, "uid"));
    if !uid.is_empty() && uid != live_uid {
        let text = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}/{}{name}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}",
            resource.plural,
            if resource.namespaced { format!("{}/", writer.ctx.info.namespace) } else { String::new() },
        );
        return Err(ApiError::conflict(resource, name, &text));
    }
    check_resource_version(writer, sent, entry)
}

/// Whether the sender has seen the newest version, or may write without.
pub(crate) fn check_resource_version(writer: &Writer<'_>, sent: &Value, entry: &Entry) -> Result<()> {
    let resource = &writer.ctx.resource;
    let name = &writer.ctx.info.name;
    match sent_version(sent) {
        "" | "0" if resource.facts.unconditional_update => Ok(()),
        "" | "0" => {
            let path = Path::new("metadata.resourceVersion");
            let cause = Cause::invalid(&path, 0, "must be specified for an update");
            let kind = GroupKind::new(&*resource.group, &*resource.plural);
            Err(setpoint_api::Status::invalid(&kind, name, vec![cause]).into())
        }
        version => match version.parse::<u64>() {
            Ok(version) if version == entry.mod_revision => Ok(()),
            Ok(_) => Err(ApiError::modified(resource, name)),
            Err(_) => {
                let quoted = setpoint_api::cause::quote(version);
                Err(ApiError::internal_plain(format!("strconv.ParseUint: parsing {quoted}: invalid syntax")))
            }
        },
    }
}

/// Decides what is stored instead of `live`, through the resource itself or one of its subresources.
pub(crate) fn change(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    txn: &mut Txn,
    entry: &Arc<Entry>,
    live: Value,
    mut new: Value,
) -> Result<Decided> {
    keep_system_fields(&mut new, &live);
    defaults::apply(&writer.ctx.resource.stored_kind(), &mut new);
    managed::updated(writer, &live, &mut new);
    // What a patch doubles is noticed after it was noted who owns it; what a body doubles, before.
    let patched = writer.ctx.info.verb == "patch";
    let doubled = if patched { single_owners(&mut new, true) } else { None };
    let doubled: Vec<String> = doubled.into_iter().collect();
    let decided = admit(writer, snapshot, txn, entry, live, new);
    let mut decided = decided.map_err(|error| error.with_warnings(&doubled))?;
    decided.warnings.splice(..0, doubled);
    Ok(decided)
}

/// What a write that changes nothing is warned of.
pub(crate) fn warnings_about(writer: &Writer<'_>, live: &Value) -> Vec<String> {
    let resource = &writer.ctx.resource;
    let mut warnings = Vec::new();
    if resource.custom.as_ref().is_some_and(|custom| custom.has_rules(&resource.version)) {
        warnings = validate::update(writer, live, live).unwrap_or_default();
    }
    if writer.ctx.info.subresource.is_empty() {
        warnings.extend(warnings::of(&resource.group_kind(), resource.custom.is_some(), live, Some(live)));
    }
    warnings
}

/// Like [`change`], for the result of an apply: its owners are noted already.
pub(crate) fn change_applied(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    txn: &mut Txn,
    entry: &Arc<Entry>,
    live: Value,
    mut new: Value,
) -> Result<Decided> {
    keep_system_fields(&mut new, &live);
    defaults::apply(&writer.ctx.resource.stored_kind(), &mut new);
    admit(writer, snapshot, txn, entry, live, new)
}

fn admit(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    txn: &mut Txn,
    entry: &Arc<Entry>,
    live: Value,
    mut new: Value,
) -> Result<Decided> {
    let resource = &writer.ctx.resource;
    admission::update(writer, snapshot, &mut new, &live);
    let mut warnings = webhook::written::update(writer, snapshot, &mut new, &live)?;
    admission::after_webhooks(writer, snapshot, &mut new, Some(&live))?;
    let seen = seen(resource, &live);
    let old = seen.as_ref().unwrap_or(&live);
    let subresource = writer.ctx.info.subresource.as_str();
    match subresource {
        "" | "scale" => prepare::update(&resource.facts, &mut new, old, &writer.context()),
        subresource => {
            prepare::update_subresource(&resource.facts, subresource, &mut new, old, &writer.context());
        }
    }
    warnings.extend(validate::update(writer, &new, old)?);
    if resource.custom.is_some() || matches!(subresource, "" | "scale") {
        let custom = resource.custom.is_some();
        warnings.extend(warnings::of(&resource.group_kind(), custom, &new, Some(old)));
    }
    object::set_meta_text(&mut new, "resourceVersion", sent_version(&live));
    admission::validate(writer, snapshot, txn, &new, Some(&live))
        .map_err(|error| error.with_warnings(&warnings))?;
    prepare::stored(&resource.stored_kind(), &mut new);
    if let Some(custom) = &resource.custom {
        custom.to_storage(&resource.version, &mut new);
        if subresource == "status" && new.get("status").is_some_and(Value::is_null) {
            new.as_object_mut().map(|fields| fields.remove("status"));
        }
    }
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions") && subresource.is_empty() {
        crate::crd::note_stored_version(&mut new);
    }
    let decided = finish(writer, txn, entry, &live, new)?;
    Ok(Decided { warnings, ..decided })
}

/// The stored object as the version of the request has it, where that is another.
pub(crate) fn seen(resource: &Resource, live: &Value) -> Option<Value> {
    if resource.has_all_that_is_stored() {
        return None;
    }
    let mut seen = form::present_value(resource, live.clone());
    seen["apiVersion"] = Value::from(resource.storage_api_version.as_str());
    Some(seen)
}

/// Stores `new`, or nothing if it is what is there, or deletes it if it was only waiting for its finalizers.
pub(crate) fn finish(
    writer: &Writer<'_>,
    txn: &mut Txn,
    entry: &Arc<Entry>,
    live: &Value,
    mut new: Value,
) -> Result<Decided> {
    let key = entry.key.to_vec();
    object::set_meta_text(&mut new, "resourceVersion", sent_version(live));
    if may_go(writer.ctx, &new) {
        txn.delete(key.clone());
        return Ok(Decided { object: new, key, unchanged: None, warnings: Vec::new() });
    }
    let stored = conversion::stored(writer.ctx, &new)?;
    let unchanged = conversion::is_stored_already(writer.ctx, entry, &stored);
    if !unchanged.unwrap_or_else(|| only_timestamps_differ(live, &new)) {
        put(writer.ctx, txn, key.clone(), &new, writer.now)?;
        return Ok(Decided { object: new, key, unchanged: None, warnings: Vec::new() });
    }
    Ok(Decided { object: live.clone(), key, unchanged: Some(entry.clone()), warnings: Vec::new() })
}

/// A terminating object without finalizers and without time left is gone.
pub(crate) fn may_go(ctx: &RequestContext, object: &Value) -> bool {
    if !object::is_terminating(object) || !object::finalizers(object).is_empty() {
        return false;
    }
    let grace = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    let namespace_waits = ctx.resource.is("", "namespaces")
        && object.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    grace == 0 && !namespace_waits
}

/// What an object keeps when a replacement leaves it out; the last only then.
const SYSTEM_FIELDS: [&str; 5] =
    ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "uid"];

/// What a client cannot change, or may leave out.
pub(crate) fn keep_system_fields(new: &mut Value, live: &Value) {
    let of_live = |field: &str| live.get("metadata").and_then(|metadata| metadata.get(field)).cloned();
    let metadata = object::metadata_mut(new);
    for field in &SYSTEM_FIELDS[..4] {
        if let Some(value) = of_live(field) {
            metadata.insert((*field).to_owned(), value);
        }
    }
    for field in ["uid", "namespace"] {
        if metadata.get(field).and_then(Value::as_str).unwrap_or("").is_empty()
            && let Some(value) = of_live(field)
        {
            metadata.insert(field.to_owned(), value);
        }
    }
    metadata.remove("selfLink");
}
