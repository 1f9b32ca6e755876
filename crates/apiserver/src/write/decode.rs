//! Reads a body, or what a patch made, as an object of the resource in stored form.

use std::borrow::Cow;

use serde_json::{Value, json};
use setpoint_api::cause::{Cause, Path};
use setpoint_schema::{Strict, TypeMeta, protobuf};

use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::negotiate::{Format, Offer, body_format};
use crate::registry::Resource;
use crate::write_options::FieldValidation;
use crate::writer::Writer;
use crate::{body, object};

/// An object that was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoded {
    /// In stored form.
    pub(crate) object: Value,
    /// What a strict reader has against it.
    pub(crate) warnings: Vec<String>,
    /// Maps that were sent empty and are read as absent.
    pub(crate) sent_empty: Vec<&'static str>,
}

/// Reads a body that must be an object of the resource.
pub(crate) fn body(writer: &Writer<'_>, bytes: &[u8]) -> Result<Decoded> {
    let ctx = writer.ctx;
    let reader = Reader { ctx, validation: writer.field_validation() };
    let offer = Offer { protobuf: ctx.resource.custom.is_none(), forms: false };
    match body_format(&ctx.headers, offer)? {
        Format::Json => reader.json(bytes, &[]),
        Format::Yaml => {
            let json = body::yaml_to_json(bytes)
                .map_err(|error| reader.unrecognized(&format!("yaml: {error}"), bytes))?;
            let doubled = match &json {
                Cow::Owned(_) => body::doubled_keys(bytes),
                Cow::Borrowed(_) => Vec::new(),
            };
            reader.json(&json, &doubled)
        }
        Format::Protobuf => {
            // It is decoded as its JSON would be read, and cannot have an empty map or an unknown field.
            let object = stored(&ctx.resource, protobuf_body(bytes, &ctx.resource)?)?;
            Ok(Decoded { object, ..Decoded::default() })
        }
    }
}

/// A protobuf body that must be of the resource's kind.
fn protobuf_body(bytes: &[u8], resource: &Resource) -> Result<Value> {
    let envelope = protobuf::open(bytes).map_err(|error| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {error} ({})",
            resource.kind,
            setpoint_schema::excerpt(bytes)
        ))
    })?;
    let (kind, version) = (envelope.kind, envelope.api_version);
    let value = protobuf::decode_as(bytes, &resource.api_version(), &resource.kind).map_err(|error| {
        let kind = if kind.is_empty() { &resource.kind } else { &kind };
        let version = version.rsplit('/').next().filter(|version| !version.is_empty());
        ApiError::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {}: {error}",
            version.unwrap_or(&resource.version),
            resource.kind
        ))
    })?;
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or("");
    let (version, expected) = (text("apiVersion"), resource.api_version());
    if !version.is_empty() && version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if !text("kind").is_empty() && text("kind") != resource.kind {
        return Err(ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: unknown conversion",
            text("kind"),
            resource.version,
            resource.kind
        )));
    }
    Ok(value)
}

struct Reader<'a> {
    ctx: &'a RequestContext,
    validation: FieldValidation,
}

impl Reader<'_> {
    fn json(&self, bytes: &[u8], doubled: &[String]) -> Result<Decoded> {
        let resource = &*self.ctx.resource;
        let meta = setpoint_schema::type_meta(bytes)
            .map_err(|error| self.unrecognized(&error.to_string(), bytes))?;
        self.check_kind(&meta, bytes)?;
        if let Some(custom) = &resource.custom {
            let read = custom.read(&resource.version, bytes).map_err(|error| self.unhandled(&error))?;
            let warnings = self.judge(doubled, &read.strict)?;
            return Ok(Decoded { object: stored(resource, read.value)?, warnings, sent_empty: Vec::new() });
        }
        let read = setpoint_schema::read_json(bytes, &resource.schema())
            .map_err(|error| self.unhandled(&error.to_string()))?;
        let warnings = self.judge(doubled, &read.strict)?;
        let mut object = stored(resource, read.value)?;
        let bare = |template: &Value| template.pointer("/metadata/labels").is_none();
        let may_be_empty = resource.is("", "configmaps")
            || resource.is("", "secrets")
            || object.pointer("/spec/template").is_some_and(bare);
        let sent = || serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let sent_empty = if may_be_empty { empty_maps(resource, &sent()) } else { Vec::new() };
        if object.pointer("/metadata/managedFields").is_none()
            && memchr::memmem::find(bytes, b"\"managedFields\"").is_some()
        {
            keep_reset(&sent(), &mut object);
        }
        Ok(Decoded { object, warnings, sent_empty })
    }

    fn unrecognized(&self, error: &str, bytes: &[u8]) -> ApiError {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {error} ({})",
            self.ctx.resource.kind,
            setpoint_schema::excerpt(bytes)
        ))
    }

    fn unhandled(&self, error: &str) -> ApiError {
        let (kind, version) = (&self.ctx.resource.kind, &self.ctx.resource.version);
        ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"
        ))
    }

    /// The body may leave kind and version out; if it names them they must be the resource's.
    fn check_kind(&self, meta: &TypeMeta, bytes: &[u8]) -> Result<()> {
        let resource = &*self.ctx.resource;
        let expected = resource.api_version();
        if resource.custom.is_some() && (meta.kind.is_empty() || meta.api_version.is_empty()) {
            let missing = if meta.kind.is_empty() { "Kind" } else { "apiVersion" };
            let text = String::from_utf8_lossy(bytes);
            let error = format!("Object '{missing}' is missing in '{}'", text.trim_end());
            return Err(match self.validation {
                FieldValidation::Ignore => self.unhandled(&error),
                _ => self.unrecognized(&error, bytes),
            });
        }
        let kind = if meta.kind.is_empty() { &resource.kind } else { &meta.kind };
        let version = if meta.api_version.is_empty() { &expected } else { &meta.api_version };
        if *kind == resource.kind && *version == expected {
            return Ok(());
        }
        if resource.custom.is_none() {
            return Err(other_builtin_kind(resource, version, kind));
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

    /// Unknown and doubled fields: warnings, or an error, as the writer wants it.
    fn judge(&self, doubled: &[String], strict: &[Strict]) -> Result<Vec<String>> {
        let found = strict.iter().map(ToString::to_string);
        match self.validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Warn => Ok(doubled.iter().cloned().chain(found).collect()),
            FieldValidation::Strict => {
                let doubled = (!doubled.is_empty()).then(|| yaml_errors(doubled));
                let found: Vec<String> = doubled.into_iter().chain(found).collect();
                if found.is_empty() {
                    return Ok(Vec::new());
                }
                Err(self.unhandled(&format!("strict decoding error: {}", found.join(", "))))
            }
        }
    }
}

/// A body of another built-in kind or version than the resource's, in the words of Go's decoder.
fn other_builtin_kind(resource: &Resource, version: &str, kind: &str) -> ApiError {
    let (group, version_only) = version.split_once('/').unwrap_or(("", version));
    let known = setpoint_schema::builtin().schema(group, version_only, kind).is_some();
    let package = if resource.group.is_empty() { "core" } else { &resource.group };
    let package = package.split('.').next().unwrap_or(package);
    let why = if known {
        format!("converting ({version_only}.{kind}) to ({package}.{}): unknown conversion", resource.kind)
    } else {
        format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )
    };
    ApiError::bad_request(format!(
        "{kind} in version \"{version_only}\" cannot be handled as a {}: {why}",
        resource.kind
    ))
}

/// How the result of a patch is read, and how a refusal speaks of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PatchedForm {
    /// The patch is a server-side apply: what it made is shaped a little differently.
    pub(crate) applied: bool,
    /// The namespace that an applied configuration names.
    pub(crate) namespace: String,
    /// What a strict reader has against the patch itself.
    pub(crate) faults: Vec<String>,
    /// A strategic merge as Go prints it, which refusals quote instead of the object.
    pub(crate) merge: Option<String>,
}

/// Reads what a patch made, in the resource's version.
pub(crate) fn patched(writer: &Writer<'_>, form: &PatchedForm, mut value: Value) -> Result<Decoded> {
    let ctx = writer.ctx;
    let resource = &*ctx.resource;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("kind".into(), json!(resource.kind));
        fields.insert("apiVersion".into(), json!(resource.api_version()));
    }
    let read = match &resource.custom {
        Some(custom) if form.applied => custom.read_applied(&resource.version, value.clone()),
        Some(custom) => custom.read_value(&resource.version, value.clone()),
        None => setpoint_schema::read_value(value.clone(), &resource.schema()).map_err(|error| {
            let unstructured = form.applied || form.merge.is_some();
            let own =
                unstructured.then(|| setpoint_schema::conversion_error(&value, &resource.schema())).flatten();
            own.unwrap_or_else(|| error.to_string())
        }),
    };
    let read = read.map_err(|error| unconvertible(ctx, form, &value, &error))?;
    // What was applied was held against its type before; what falls away now is not told.
    let warnings = match form.applied {
        true => Vec::new(),
        false => judge_patched(writer, form, &value, &read.strict)?,
    };
    let mut object = stored(resource, read.value)?;
    let mut sent_empty = Vec::new();
    if resource.custom.is_none() {
        keep_reset(&value, &mut object);
        sent_empty = empty_maps(resource, &value);
    }
    Ok(Decoded { object, warnings, sent_empty })
}

/// The result of a patch is no object of the kind.
fn unconvertible(ctx: &RequestContext, form: &PatchedForm, value: &Value, error: &str) -> ApiError {
    match &form.merge {
        _ if form.applied && ctx.resource.custom.is_none() => {
            let (group, version, kind) = (&ctx.resource.group, &ctx.resource.version, &ctx.resource.kind);
            ApiError::internal_plain(format!(
                "failed to convert new object ({}/{}; {group}/{version}, Kind={kind}) to proper version: unable to \
                 convert unstructured object to {group}/{version}, Kind={kind}: {error}",
                form.namespace, ctx.info.name,
            ))
        }
        Some(merge) => ApiError::invalid_patch_shown(merge, error),
        None => ApiError::invalid_patch(value, error),
    }
}

/// Unknown and doubled fields of a patch and of what it made.
fn judge_patched(
    writer: &Writer<'_>,
    form: &PatchedForm,
    value: &Value,
    strict: &[Strict],
) -> Result<Vec<String>> {
    let mut found: Vec<String> = strict.iter().map(ToString::to_string).collect();
    if form.merge.is_some() {
        found.sort();
    }
    let found: Vec<String> = form.faults.iter().cloned().chain(found).collect();
    match writer.field_validation() {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict if !found.is_empty() => {
            let error = format!("strict decoding error: {}", found.join(", "));
            Err(unconvertible(writer.ctx, form, value, &error))
        }
        FieldValidation::Warn | FieldValidation::Strict => Ok(found),
    }
}

/// An object with the kind and version in which the resource is stored.
fn stored(resource: &Resource, mut value: Value) -> Result<Value> {
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

const TEMPLATE_LABELS: &str = "spec.template.metadata.labels";

/// The maps that validation tells apart from absent ones when they are sent empty.
fn empty_maps(resource: &Resource, sent: &Value) -> Vec<&'static str> {
    let field = if resource.plural == "secrets" { "data" } else { "binaryData" };
    let is_empty = |pointer: &str| sent.pointer(pointer).is_some_and(|value| value == &json!({}));
    let own = is_empty(&format!("/{field}")).then_some(field);
    let labels = is_empty("/spec/template/metadata/labels").then_some(TEMPLATE_LABELS);
    own.into_iter().chain(labels).collect()
}

/// An empty list of managers that was sent means to forget them, so it must survive reading.
fn keep_reset(sent: &Value, stored: &mut Value) {
    let list = sent.pointer("/metadata/managedFields").and_then(Value::as_array);
    if list.is_some_and(Vec::is_empty) {
        object::metadata_mut(stored).insert("managedFields".to_owned(), json!([]));
    }
}

/// Doubled keys as Go's YAML reader puts them in one error.
pub(crate) fn yaml_errors(faults: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", faults.join("\n  "))
}
