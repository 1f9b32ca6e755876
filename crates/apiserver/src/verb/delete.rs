//! `DELETE` of one object: preconditions, finalizers, grace.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use setpoint_api::cause::{Cause, Path};
use setpoint_api::clock;
use setpoint_api::status::{Details, Status};
use setpoint_kinds::facts::Garbage;
use setpoint_kinds::prepare;
use setpoint_store::{Entry, Snapshot, Txn};

use crate::admission::webhook::{Attributes, Operation};
use crate::error::{ApiError, Result};
use crate::negotiate::{Format, Offer, body_format};
use crate::server::{Body, RequestContext};
use crate::verb::update::{may_go, seen};
use crate::write::{commit, put};
use crate::{admission, body, conversion, form, object, respond};

/// `meta/v1.DeleteOptions`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<Preconditions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    orphan_dependents: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<String>,
    #[serde(skip_serializing_if = "is_none")]
    pub(crate) dry_run: Option<Vec<String>>,
}

fn is_none(dry_run: &Option<Vec<String>>) -> bool {
    dry_run.as_ref().is_none_or(Vec::is_empty)
}

/// What must be so.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

/// The finalizers that the two other propagation policies stand for.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

impl DeleteOptions {
    /// From the body, or from the query where there is no body: beside a body the query says nothing, not even that
    /// nothing is to happen.
    pub(crate) fn read(ctx: &RequestContext, bytes: &[u8]) -> Result<Self> {
        let options = if bytes.is_empty() { DeleteOptions::from_query(ctx)? } else { from_body(ctx, bytes)? };
        options.check()?;
        Ok(options)
    }

    fn from_query(ctx: &RequestContext) -> Result<Self> {
        let query = &ctx.info.query;
        let text = |name| query.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let (uid, resource_version) = (text("uid"), text("resourceVersion"));
        let any = uid.is_some() || resource_version.is_some();
        Ok(DeleteOptions {
            grace_period_seconds: query.number("gracePeriodSeconds")?,
            preconditions: any.then_some(Preconditions { uid, resource_version }),
            orphan_dependents: query.optional_flag("orphanDependents"),
            propagation_policy: query.get("propagationPolicy").map(str::to_owned),
            dry_run: Some(query.all("dryRun").map(str::to_owned).collect()),
        })
    }

    fn check(&self) -> Result<()> {
        let mut causes = Vec::new();
        if self.orphan_dependents.is_some() && self.propagation_policy.is_some() {
            let text = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid(
                &Path::new("propagationPolicy"),
                self.propagation_policy.as_deref().unwrap_or(""),
                text,
            ));
        }
        if let Some(policy) = &self.propagation_policy {
            let allowed = ["Background", "Foreground", "Orphan"];
            if !allowed.contains(&policy.as_str()) {
                causes.push(Cause::not_supported(
                    &Path::new("propagationPolicy"),
                    policy,
                    &["Foreground", "Background", "Orphan", "nil"],
                ));
            }
        }
        crate::write::dry_run(self.dry_run.iter().flatten().map(String::as_str), &mut causes);
        if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid_options("DeleteOptions", causes)) }
    }

    /// Whether nothing is to happen.
    pub(crate) fn is_dry(&self) -> bool {
        self.dry_run.iter().flatten().any(|value| value == "All")
    }

    fn check_preconditions(&self, ctx: &RequestContext, live: &Value, entry: &Entry) -> Result<()> {
        let Some(wanted) = &self.preconditions else { return Ok(()) };
        let name = object::name(live);
        let uid = object::meta_text(live, "uid");
        if let Some(wanted) = wanted.uid.as_deref().filter(|wanted| *wanted != uid) {
            let text = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might \
                 have been deleted and then recreated"
            );
            return Err(ApiError::delete_precondition(&ctx.resource, name, &text));
        }
        let version = entry.mod_revision.to_string();
        if let Some(wanted) = wanted.resource_version.as_deref().filter(|wanted| *wanted != version) {
            let text = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
                 ({version}). The object might have been modified"
            );
            return Err(ApiError::delete_precondition(&ctx.resource, name, &text));
        }
        Ok(())
    }

    /// The finalizers that the deletion adds or takes away.
    fn finalizers(&self, ctx: &RequestContext, live: &Value) -> Vec<String> {
        let mut finalizers: Vec<String> = object::finalizers(live).into_iter().map(str::to_owned).collect();
        if ctx.resource.facts.garbage == Garbage::Unsupported {
            return finalizers;
        }
        let policy = match (self.orphan_dependents, self.propagation_policy.as_deref()) {
            (Some(true), _) | (_, Some("Orphan")) => ORPHAN,
            (Some(false), _) | (_, Some("Background")) => "",
            (_, Some("Foreground")) => FOREGROUND,
            // Nothing said: what the object carries already stands.
            _ => {
                return finalizers;
            }
        };
        finalizers.retain(|own| own != ORPHAN && own != FOREGROUND);
        if !policy.is_empty() {
            finalizers.push(policy.to_owned());
        }
        finalizers
    }
}

fn from_body(ctx: &RequestContext, bytes: &[u8]) -> Result<DeleteOptions> {
    let format = body_format(&ctx.headers, Offer { protobuf: true, forms: false })?;
    let value: Value = match format {
        Format::Protobuf => crate::protobuf::decode_any(bytes)?,
        Format::Json | Format::Yaml => {
            let text = body::yaml_to_json(bytes).map_err(ApiError::bad_request)?;
            serde_json::from_slice(&text)
                .map_err(|error| ApiError::bad_request(format!("error decoding the options: {error}")))?
        }
    };
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or("");
    if !kind.is_empty() && kind != "DeleteOptions" {
        let version = value.get("apiVersion").and_then(Value::as_str).unwrap_or("v1");
        return Err(ApiError::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    serde_json::from_value(value).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// What became of the object.
pub(crate) enum Deleted {
    /// Gone: as it was last.
    Gone(Value),
    /// Waits for finalizers or time: the object and its key.
    Terminating(Value, Vec<u8>),
}

/// Deletes an object.
pub(crate) async fn delete(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    let options = DeleteOptions::read(ctx, bytes)?;
    admission::namespace::may_delete(ctx)?;
    let now = ctx.server.options().clock.now();
    let decide = |snapshot: &Snapshot, txn: &mut Txn| {
        let key = ctx.resource.key(&ctx.info.namespace, &ctx.info.name);
        let entry = snapshot.get(&key).ok_or_else(|| ApiError::not_found(&ctx.resource, &ctx.info.name))?;
        webhook(ctx, snapshot, &entry, &options)?;
        decide(ctx, now, snapshot, txn, &entry, &options)
    };
    let (deleted, events) = commit(ctx, options.is_dry(), decide).await?;
    match deleted {
        Deleted::Terminating(value, key) => {
            let written = events.iter().find(|event| event.key == key).and_then(|event| event.new.clone());
            match written {
                Some(entry) => form::one_entry(ctx, StatusCode::OK, &*conversion::view(ctx, entry).await?),
                None if options.is_dry() => {
                    form::one_value(ctx, StatusCode::OK, conversion::read_back(ctx, value).await?)
                }
                None => form::one_value(ctx, StatusCode::OK, value),
            }
        }
        Deleted::Gone(mut value) if ctx.resource.rules.returns_deleted => {
            // The version of a deleted object is that of its deletion.
            if let Some(event) = events.iter().find(|event| event.new.is_none()) {
                object::set_meta_text(&mut value, "resourceVersion", &event.revision.to_string());
            }
            form::one_value(ctx, StatusCode::OK, value)
        }
        Deleted::Gone(value) => {
            let details = Details {
                name: object::name(&value).to_owned(),
                group: ctx.resource.group.clone(),
                kind: ctx.resource.plural.clone(),
                uid: object::meta_text(&value, "uid").to_owned(),
                ..Details::default()
            };
            respond::value(StatusCode::OK, &ctx.negotiated, &Status::success(details).to_value())
        }
    }
}

/// Lets webhooks judge a deletion.
pub(crate) fn webhook(
    ctx: &RequestContext,
    snapshot: &Snapshot,
    entry: &Arc<Entry>,
    options: &DeleteOptions,
) -> Result<()> {
    if ctx.reviews.is_none() {
        return Ok(());
    }
    let mut said = serde_json::to_value(options).map_err(ApiError::internal)?;
    said["kind"] = json!("DeleteOptions");
    said["apiVersion"] = json!("meta.k8s.io/v1");
    let live = conversion::live(ctx, entry)?;
    // Who is on the way and not hurried has been judged.
    let left = live.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    if ctx.resource.facts.graceful
        && object::is_terminating(&live)
        && left.is_some_and(|left| options.grace_period_seconds.is_none_or(|grace| grace >= left))
    {
        return Ok(());
    }
    // The deletion of a namespace is of that namespace and no later one of its name.
    if ctx.resource.is("", "namespaces") && said["preconditions"].get("uid").is_none() {
        said["preconditions"]["uid"] = json!(object::meta_text(&live, "uid"));
    }
    let attributes = Attributes {
        old: Some(live),
        options: said,
        dry_run: options.is_dry(),
        ..Attributes::of(ctx, snapshot, Operation::Delete)
    };
    admission::webhook::mutate(ctx, || attributes.clone(), |_| Ok(()))?;
    admission::webhook::validate(ctx, || attributes)
}

/// Decides whether the object goes now or begins to terminate.
pub(crate) fn decide(
    ctx: &RequestContext,
    now: jiff::Timestamp,
    snapshot: &Snapshot,
    txn: &mut Txn,
    entry: &Arc<Entry>,
    options: &DeleteOptions,
) -> Result<Deleted> {
    let live = conversion::live(ctx, entry)?;
    options.check_preconditions(ctx, &live, entry)?;
    let key = entry.key.to_vec();
    // What waits is written as the version of the request has it.
    let mut new = seen(&ctx.resource, &live).unwrap_or_else(|| live.clone());
    set_finalizers(&mut new, options.finalizers(ctx, &live));
    let grace = prepare::grace_period(&ctx.resource.facts, &live, options.grace_period_seconds);
    let was_terminating = object::is_terminating(&live);
    if was_terminating {
        shorten(&mut new, &live, grace, now);
    } else {
        begin(&mut new, grace.unwrap_or(0), now);
    }
    crate::crd::on_delete(ctx, snapshot, txn, &mut new)?;
    if ctx.resource.is("", "namespaces") {
        new["status"]["phase"] = json!("Terminating");
        object::metadata_mut(&mut new).remove("deletionGracePeriodSeconds");
    }
    if may_go(ctx, &new) {
        txn.delete(key);
        return Ok(Deleted::Gone(if ctx.resource.facts.graceful { new } else { live }));
    }
    if let Some(custom) = &ctx.resource.custom {
        custom.to_storage(&ctx.resource.version, &mut new);
    }
    if new != live {
        put(ctx, txn, key.clone(), &new, now)?;
    }
    Ok(Deleted::Terminating(new, key))
}

fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let metadata = object::metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(finalizers));
    }
}

pub(crate) fn begin(object: &mut Value, grace: i64, now: jiff::Timestamp) {
    set_end(object, grace, now);
    let metadata = object::metadata_mut(object);
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
    if generation > 0 {
        metadata.insert("generation".into(), json!(generation + 1));
    }
}

/// A second deletion can only bring the end nearer.
fn shorten(object: &mut Value, live: &Value, grace: Option<i64>, now: jiff::Timestamp) {
    let Some(grace) = grace else { return };
    let current = live.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    if grace >= current {
        return;
    }
    set_end(object, grace, now);
}

fn set_end(object: &mut Value, grace: i64, now: jiff::Timestamp) {
    // Any number of seconds is a grace period, also one that no calendar reaches.
    let ends = now.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(jiff::Timestamp::MAX);
    let metadata = object::metadata_mut(object);
    metadata.insert("deletionTimestamp".into(), json!(clock::rfc3339_seconds(ends)));
    metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
}
