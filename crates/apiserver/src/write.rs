//! What every write has in common: options, the body as an object, the transaction, the answer.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock};

use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_api::cause::{Cause, Path};
use setpoint_kinds::prepare::Context;
use setpoint_schema::{Strict, TypeMeta};
use setpoint_store::{Entry, Event, Snapshot, Txn};

use crate::admission::webhook;
use crate::error::{ApiError, Result};
use crate::header::first;
use crate::negotiate::{Format, Offer, body_format};
use crate::server::RequestContext;
use crate::{body, conversion, object, size};

/// How unknown and doubled fields are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// A write under way.
pub(crate) struct Writer<'a> {
    pub(crate) ctx: &'a RequestContext,
    pub(crate) now: Timestamp,
    pub(crate) user: Value,
    pub(crate) dry_run: bool,
    pub(crate) manager: String,
    pub(crate) field_validation: FieldValidation,
    pub(crate) warnings: Vec<String>,
    /// The write is an apply: what it makes is shaped a little differently.
    pub(crate) applied: bool,
    /// What a strict reader has against the patch itself.
    pub(crate) patch_faults: Vec<String>,
    /// A strategic merge as Go prints it, which refusals quote instead of the object.
    pub(crate) merged: Option<String>,
    /// Keys that stand twice in a YAML body.
    pub(crate) yaml_faults: Vec<String>,
    /// The namespace that an applied configuration names.
    pub(crate) config_namespace: String,
    /// Maps that were sent empty and are read as absent: what is immutable notices, and refusals show them as sent.
    pub(crate) sent_empty: Vec<&'static str>,
    /// Metadata that a replacement left out, and that webhooks do not see before it counts.
    pub(crate) unsent: Vec<&'static str>,
    /// The uid of what is created: the same each time that it is decided.
    pub(crate) uid: OnceLock<String>,
    /// The name that was drawn last.
    pub(crate) drawn: Mutex<Option<String>>,
}

const TEMPLATE_LABELS: &str = "spec.template.metadata.labels";

/// Longest name of a field manager.
const MAX_MANAGER: usize = 128;

impl<'a> Writer<'a> {
    /// Reads the options that all writes share; `kind` is the kind of the options in error texts.
    pub(crate) fn new(ctx: &'a RequestContext, kind: &str) -> Result<Self> {
        let query = &ctx.info.query;
        let mut causes = Vec::new();
        let dry_run = dry_run(query.all("dryRun"), &mut causes);
        let field_validation = match query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let path = Path::new("fieldValidation");
                causes.push(Cause::not_supported(&path, other, &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::Warn
            }
        };
        let manager = query.get("fieldManager").unwrap_or("");
        if manager.len() > MAX_MANAGER {
            causes.push(Cause::too_long(&Path::new("fieldManager"), MAX_MANAGER));
        }
        if let Some((at, wrong)) = manager.char_indices().find(|(_, char)| char.is_control()) {
            let text = format!("invalid character U+{:04X} (at position {at})", u32::from(wrong));
            causes.push(Cause::invalid(&Path::new("fieldManager"), manager, &text));
        }
        if !causes.is_empty() {
            return Err(ApiError::invalid_options(kind, causes));
        }
        let manager = if manager.is_empty() { manager_of(ctx) } else { manager.to_owned() };
        Ok(Writer {
            ctx,
            now: ctx.server.options().clock.now(),
            user: ctx.user.to_value(),
            dry_run,
            manager,
            field_validation,
            warnings: Vec::new(),
            applied: false,
            patch_faults: Vec::new(),
            merged: None,
            yaml_faults: Vec::new(),
            config_namespace: String::new(),
            sent_empty: Vec::new(),
            unsent: Vec::new(),
            uid: OnceLock::new(),
            drawn: Mutex::default(),
        })
    }

    /// Whether that name was drawn for what is created.
    pub(crate) fn has_drawn(&self, name: &str) -> bool {
        self.drawn.lock().expect("no holder of this lock panics").as_deref() == Some(name)
    }

    /// What preparing an object needs.
    pub(crate) fn context(&self) -> Context<'_> {
        Context { now: self.now, user: &self.user }
    }

    /// The body as an object of the resource, in stored form.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Result<Value> {
        let resource = self.ctx.resource.clone();
        let offer = Offer { protobuf: resource.custom.is_none(), forms: false };
        match body_format(&self.ctx.headers, offer)? {
            Format::Json => self.decode_json(bytes),
            Format::Yaml => {
                let json = body::yaml_to_json(bytes)
                    .map_err(|error| self.unrecognized(&format!("yaml: {error}"), bytes))?;
                if let Cow::Owned(_) = json {
                    self.yaml_faults = body::doubled_keys(bytes);
                }
                self.decode_json(&json)
            }
            Format::Protobuf => {
                // It is decoded as its JSON would be read, and cannot have an empty map or an unknown field.
                self.finish_stored(crate::protobuf::decode(bytes, &resource)?)
            }
        }
    }

    fn unrecognized(&self, error: &str, bytes: &[u8]) -> ApiError {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {error} ({})",
            self.ctx.resource.kind,
            setpoint_schema::excerpt(bytes)
        ))
    }

    /// JSON text as an object of the resource, in stored form.
    pub(crate) fn decode_json(&mut self, bytes: &[u8]) -> Result<Value> {
        let resource = self.ctx.resource.clone();
        let meta = setpoint_schema::type_meta(bytes)
            .map_err(|error| self.unrecognized(&error.to_string(), bytes))?;
        self.check_kind(&meta, bytes)?;
        if let Some(custom) = &resource.custom {
            let read = custom.read(&resource.version, bytes).map_err(|error| self.unhandled(&error))?;
            self.judge_fields(&read.strict)?;
            return self.finish_stored(read.value);
        }
        let read = setpoint_schema::read_json(bytes, &resource.schema())
            .map_err(|error| self.unhandled(&error.to_string()))?;
        self.judge_fields(&read.strict)?;
        let mut stored = self.finish_stored(read.value)?;
        let bare = |template: &Value| template.pointer("/metadata/labels").is_none();
        if resource.is("", "configmaps")
            || resource.is("", "secrets")
            || stored.pointer("/spec/template").is_some_and(bare)
        {
            self.note_empty(&serde_json::from_slice(bytes).unwrap_or_default());
        }
        if stored.pointer("/metadata/managedFields").is_none()
            && memchr::memmem::find(bytes, b"\"managedFields\"").is_some()
        {
            keep_reset(&serde_json::from_slice(bytes).unwrap_or_default(), &mut stored);
        }
        Ok(stored)
    }

    /// A value of the resource's version (a patched object) in stored form.
    pub(crate) fn stored_form(&mut self, mut value: Value) -> Result<Value> {
        let resource = self.ctx.resource.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("kind".into(), json!(resource.kind));
            fields.insert("apiVersion".into(), json!(resource.api_version()));
        }
        let read = match &resource.custom {
            Some(custom) if self.applied => custom.read_applied(&resource.version, value.clone()),
            Some(custom) => custom.read_value(&resource.version, value.clone()),
            None => setpoint_schema::read_value(value.clone(), &resource.schema()).map_err(|error| {
                let unstructured = self.applied || self.merged.is_some();
                let own = unstructured
                    .then(|| setpoint_schema::conversion_error(&value, &resource.schema()))
                    .flatten();
                own.unwrap_or_else(|| error.to_string())
            }),
        };
        let read = read.map_err(|error| self.unconvertible(&value, &error))?;
        // What was applied was held against its type before; what falls away now is not told.
        if !self.applied {
            self.judge_patch(&value, &read.strict)?;
        }
        let mut stored = self.finish_stored(read.value)?;
        if resource.custom.is_none() {
            keep_reset(&value, &mut stored);
            self.note_empty(&value);
        }
        Ok(stored)
    }

    fn note_empty(&mut self, sent: &Value) {
        let field = if self.ctx.resource.plural == "secrets" { "data" } else { "binaryData" };
        let is_empty = |pointer: &str| sent.pointer(pointer).is_some_and(|value| value == &json!({}));
        let own = is_empty(&format!("/{field}")).then_some(field);
        let labels = is_empty("/spec/template/metadata/labels").then_some(TEMPLATE_LABELS);
        self.sent_empty = own.into_iter().chain(labels).collect();
    }

    /// The result of a patch is no object of the kind.
    fn unconvertible(&self, value: &Value, error: &str) -> ApiError {
        match &self.merged {
            _ if self.applied && self.ctx.resource.custom.is_none() => {
                let resource = &self.ctx.resource;
                let (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
                ApiError::internal_plain(format!(
                    "failed to convert new object ({}/{}; {group}/{version}, Kind={kind}) to proper version: unable to \
                     convert unstructured object to {group}/{version}, Kind={kind}: {error}",
                    self.config_namespace, self.ctx.info.name,
                ))
            }
            Some(merged) => ApiError::invalid_patch_shown(merged, error),
            None => ApiError::invalid_patch(value, error),
        }
    }

    /// Unknown and doubled fields of a patch and of what it made.
    fn judge_patch(&mut self, value: &Value, strict: &[Strict]) -> Result<()> {
        let mut found: Vec<String> = strict.iter().map(ToString::to_string).collect();
        if self.merged.is_some() {
            found.sort();
        }
        let found: Vec<String> = self.patch_faults.iter().cloned().chain(found).collect();
        match self.field_validation {
            _ if found.is_empty() => Ok(()),
            FieldValidation::Ignore => Ok(()),
            FieldValidation::Warn => {
                self.warnings.extend(found);
                Ok(())
            }
            FieldValidation::Strict => {
                let error = format!("strict decoding error: {}", found.join(", "));
                Err(self.unconvertible(value, &error))
            }
        }
    }

    fn finish_stored(&self, mut value: Value) -> Result<Value> {
        let resource = &self.ctx.resource;
        if !value.is_object() {
            return Err(ApiError::bad_request("the object provided is not an object"));
        }
        value["kind"] = json!(resource.kind);
        if crate::convert::is_other_view(resource) {
            value = crate::convert::to_stored(resource, value);
        }
        value["apiVersion"] = json!(resource.storage_api_version);
        Ok(value)
    }

    fn unhandled(&self, error: &str) -> ApiError {
        let (kind, version) = (&self.ctx.resource.kind, &self.ctx.resource.version);
        ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"
        ))
    }

    /// The body may leave kind and version out; if it names them they must be the resource's.
    fn check_kind(&self, meta: &TypeMeta, bytes: &[u8]) -> Result<()> {
        let resource = &self.ctx.resource;
        let expected = resource.api_version();
        if resource.custom.is_some() && (meta.kind.is_empty() || meta.api_version.is_empty()) {
            let missing = if meta.kind.is_empty() { "Kind" } else { "apiVersion" };
            let text = String::from_utf8_lossy(bytes);
            let error = format!("Object '{missing}' is missing in '{}'", text.trim_end());
            return Err(match self.field_validation {
                FieldValidation::Ignore => self.unhandled(&error),
                _ => self.unrecognized(&error, bytes),
            });
        }
        let kind = if meta.kind.is_empty() { &resource.kind } else { &meta.kind };
        let version = if meta.api_version.is_empty() { &expected } else { &meta.api_version };
        if *kind == resource.kind && *version == expected {
            return Ok(());
        }
        let (group, version_only) = version.split_once('/').unwrap_or(("", version));
        if resource.custom.is_none() {
            let known = setpoint_schema::builtin().schema(group, version_only, kind).is_some();
            let package = if resource.group.is_empty() { "core" } else { &resource.group };
            let package = package.split('.').next().unwrap_or(package);
            let why = if known {
                format!(
                    "converting ({version_only}.{kind}) to ({package}.{}): unknown conversion",
                    resource.kind
                )
            } else {
                format!(
                    "no kind \"{kind}\" is registered for version \"{version}\" in scheme \
                     \"pkg/runtime/scheme.go:111\""
                )
            };
            return Err(ApiError::bad_request(format!(
                "{kind} in version \"{version_only}\" cannot be handled as a {}: {why}",
                resource.kind
            )));
        }
        if *version != expected {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            )));
        }
        let name = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let text = format!("must be {}", resource.kind);
        let cause = Cause::invalid(&Path::new("kind"), kind, &text);
        let sent = setpoint_api::kind::GroupKind::new(&*resource.group, &**kind);
        Err(setpoint_api::Status::invalid(&sent, object::name(&name), vec![cause]).into())
    }

    fn judge_fields(&mut self, strict: &[Strict]) -> Result<()> {
        let found = strict.iter().map(ToString::to_string);
        match self.field_validation {
            FieldValidation::Ignore => Ok(()),
            FieldValidation::Warn => {
                self.warnings.extend(self.yaml_faults.iter().cloned().chain(found));
                Ok(())
            }
            FieldValidation::Strict => {
                let doubled = (!self.yaml_faults.is_empty()).then(|| yaml_errors(&self.yaml_faults));
                let found: Vec<String> = doubled.into_iter().chain(found).collect();
                if found.is_empty() {
                    return Ok(());
                }
                Err(self.unhandled(&format!("strict decoding error: {}", found.join(", "))))
            }
        }
    }
}

/// Doubled keys as Go's YAML reader puts them in one error.
pub(crate) fn yaml_errors(faults: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", faults.join("\n  "))
}

/// Owner references that stand twice, and when that was found.
pub(crate) fn single_owners(object: &mut Value, patched: bool) -> Option<String> {
    let uids = setpoint_kinds::warnings::single_owners(object)?;
    let when = if patched { " after mutating admission happens" } else { "" };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and \
         may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
    ))
}

/// An empty list of managers that was sent means to forget them, so it must survive reading.
fn keep_reset(sent: &Value, stored: &mut Value) {
    let list = sent.pointer("/metadata/managedFields").and_then(Value::as_array);
    if list.is_some_and(Vec::is_empty) {
        object::metadata_mut(stored).insert("managedFields".to_owned(), json!([]));
    }
}

/// `All` is the only dry run.
pub(crate) fn dry_run<'q>(values: impl Iterator<Item = &'q str>, causes: &mut Vec<Cause>) -> bool {
    let values: Vec<&str> = values.filter(|value| !value.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        causes.push(Cause::not_supported(&Path::new("dryRun"), &json!(values), &["All"]));
    }
    !values.is_empty()
}

/// Without a field manager the client's own name stands in: what precedes the slash in its user agent.
fn manager_of(ctx: &RequestContext) -> String {
    let agent = first(&ctx.headers, http::header::USER_AGENT);
    let name = agent.split('/').next().unwrap_or("");
    let printable: String = name.chars().filter(|c| !c.is_control()).take(MAX_MANAGER).collect();
    if printable.is_empty() { "unknown".to_owned() } else { printable }
}

/// What a write came to.
pub(crate) enum Outcome {
    /// The entry that was written, or that there was no need to write.
    Stored(Arc<Entry>),
    /// Only asked what would be, or gone: the object as it would be or was.
    Value(Value),
}

/// What a decision wants answered: the object, and the key under which it was written.
pub(crate) struct Decided {
    pub(crate) object: Value,
    pub(crate) key: Vec<u8>,
    /// What is stored is left as it is.
    pub(crate) unchanged: Option<Arc<Entry>>,
    /// What the writer is told besides.
    pub(crate) warnings: Vec<String>,
}

/// Runs a decision in a transaction, or on the newest state without consequences; again, where it misses a
/// conversion or the word of a webhook.
pub(crate) async fn commit<T>(
    ctx: &RequestContext,
    dry: bool,
    mut decide: impl FnMut(&Snapshot, &mut Txn) -> Result<T>,
) -> Result<(T, Vec<Arc<Event>>)> {
    let (value, events) = loop {
        let attempted = attempt(ctx, dry, &mut decide).await;
        if let Some(conversions) = &ctx.conversions
            && conversions.settle(ctx).await?
        {
            continue;
        }
        match &ctx.reviews {
            Some(reviews) if reviews.settle(ctx).await? => {}
            _ => break attempted?,
        }
    };
    if dry {
        return Ok((value, events));
    }
    crate::message::written(&ctx.server, &ctx.resource, &events);
    if ctx.resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        crate::crd::settle_after(&ctx.server, &events).await;
    } else if ctx.resource.group == webhook::GROUP {
        ctx.server.webhooks_changed();
    } else if ctx.resource.custom.is_some() {
        crate::crd::cleanup_after(&ctx.server, &events).await;
    }
    Ok((value, events))
}

async fn attempt<T>(
    ctx: &RequestContext,
    dry: bool,
    decide: &mut impl FnMut(&Snapshot, &mut Txn) -> Result<T>,
) -> Result<(T, Vec<Arc<Event>>)> {
    let store = ctx.server.store();
    let mut complete = |snapshot: &Snapshot, txn: &mut Txn| {
        // A write that loses races again and again ends with its request.
        ctx.work.check()?;
        let decided = decide(snapshot, txn);
        match &ctx.conversions {
            Some(conversions) if conversions.is_missing() => Err(ApiError::not_converted()),
            _ => decided,
        }
    };
    if dry {
        return Ok((complete(&store.snapshot(), &mut Txn::default())?, Vec::new()));
    }
    let committed = store.transact(complete).await.map_err(|error| ctx.server.refused(error))?;
    Ok((committed.value, committed.events))
}

/// The entry that a transaction wrote under the decided key, or the decided object.
pub(crate) fn outcome(decided: Decided, events: &[Arc<Event>]) -> Outcome {
    let written = events.iter().find(|event| event.key == decided.key).and_then(|event| event.new.clone());
    match written.or(decided.unchanged) {
        Some(entry) => Outcome::Stored(entry),
        None => Outcome::Value(decided.object),
    }
}

/// Puts an object under its key, in the version that is stored.
pub(crate) fn put(
    ctx: &RequestContext,
    txn: &mut Txn,
    key: Vec<u8>,
    object: &Value,
    now: Timestamp,
) -> Result<()> {
    let mut stored = conversion::stored(ctx, object)?;
    // Who owns what nests a little deeper than the object itself, and what is written must be readable.
    if object::depth(&stored) > object::MAX_DEPTH {
        object::metadata_mut(stored.to_mut()).remove("managedFields");
        if object::depth(&stored) > object::MAX_DEPTH {
            return Err(ApiError::bad_request(format!(
                "the object nests deeper than {} levels",
                object::MAX_DEPTH
            )));
        }
    }
    let encoded = size::encoded(ctx, &mut stored)?;
    let put = txn.put_with(key, move |revision| encoded.at(revision));
    if let Some(seconds) = ctx.resource.facts.ttl_seconds {
        let kept = if ctx.resource.plural == "events" {
            ctx.server.options().event_ttl.as_millis()
        } else {
            u128::from(seconds) * 1000
        };
        let expires = now.as_millisecond() + i64::try_from(kept).unwrap_or(i64::MAX);
        put.expires_at(u64::try_from(expires).unwrap_or(0));
    }
    Ok(())
}

/// The version that a client says it has seen, of an object it sends.
pub(crate) fn sent_version(value: &Value) -> &str {
    object::meta_text(value, "resourceVersion")
}
