//! Reads a body, or what a patch made, as an object of the resource in stored form.

use std::borrow::Cow;

use serde_json::{Value, json};
use setpoint_schema::{Strict, protobuf};

use super::decoder::{self, DecodeHints, Sent, unhandled, unrecognized};
use crate::body;
use crate::error::{ApiError, Result};
use crate::negotiate::{Format, Offer, body_format};
use crate::registry::Resource;
use crate::write_options::FieldValidation;
use crate::writer::Writer;

/// An object that was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoded {
    /// In stored form.
    pub(crate) object: Value,
    /// The faults that a strict reader finds in it.
    pub(crate) warnings: Vec<String>,
    /// Maps that were sent empty and are read as absent.
    pub(crate) sent_empty: Vec<&'static str>,
}

/// Reads a body that must be an object of the resource.
pub(crate) fn body(writer: &Writer<'_>, bytes: &[u8]) -> Result<Decoded> {
    let ctx = writer.ctx;
    let reader = Reader { resource: &ctx.resource, validation: writer.field_validation() };
    let offer = Offer { protobuf: decoder::of(&ctx.resource).has_protobuf(), forms: false };
    match body_format(&ctx.headers, offer)? {
        Format::Json => reader.json(bytes, &[]),
        Format::Yaml => {
            let json = body::yaml_to_json(bytes)
                .map_err(|error| unrecognized(&ctx.resource, &format!("yaml: {error}"), bytes))?;
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
    resource: &'a Resource,
    validation: FieldValidation,
}

impl Reader<'_> {
    fn json(&self, bytes: &[u8], doubled: &[String]) -> Result<Decoded> {
        let (resource, decoder) = (self.resource, decoder::of(self.resource));
        let meta = setpoint_schema::type_meta(bytes)
            .map_err(|error| unrecognized(resource, &error.to_string(), bytes))?;
        decoder.check_kind(resource, self.validation, &meta, bytes)?;
        let read = decoder.read(resource, bytes).map_err(|error| unhandled(resource, &error.to_string()))?;
        let warnings = self.report_strict(doubled, &read.strict)?;
        let mut object = stored(resource, read.value)?;
        let untyped = || Cow::Owned(serde_json::from_slice(bytes).unwrap_or_default());
        let may_have_managers = memchr::memmem::find(bytes, b"\"managedFields\"").is_some();
        let sent = Sent { object: &untyped, may_have_managers };
        let sent_empty = decoder.note_dropped(resource, &sent, &mut object);
        Ok(Decoded { object, warnings, sent_empty })
    }

    /// Unknown and doubled fields: warnings, or an error, as the writer wants it.
    fn report_strict(&self, doubled: &[String], strict: &[Strict]) -> Result<Vec<String>> {
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
                Err(unhandled(self.resource, &format!("strict decoding error: {}", found.join(", "))))
            }
        }
    }
}

/// Reads what a patch made, in the resource's version.
pub(crate) fn patched(writer: &Writer<'_>, hints: &DecodeHints, mut value: Value) -> Result<Decoded> {
    let ctx = writer.ctx;
    let resource = &*ctx.resource;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("kind".into(), json!(resource.kind));
        fields.insert("apiVersion".into(), json!(resource.api_version()));
    }
    let decoder = decoder::of(resource);
    let read = decoder.read_patched(resource, hints, &value);
    let read = read.map_err(|error| {
        decoder.unconvertible(resource, hints, &ctx.info.name, &value, &error.to_string())
    })?;
    // The merge checked an applied configuration against its type: fields that are dropped now are not reported.
    let warnings = match hints.applied {
        true => Vec::new(),
        false => report_strict_patched(writer, hints, &value, &read.strict)?,
    };
    let mut object = stored(resource, read.value)?;
    let sent_empty = {
        let sent = Sent { object: &|| Cow::Borrowed(&value), may_have_managers: true };
        decoder.note_dropped(resource, &sent, &mut object)
    };
    Ok(Decoded { object, warnings, sent_empty })
}

/// Unknown and doubled fields of a patch and of what it made.
fn report_strict_patched(
    writer: &Writer<'_>,
    hints: &DecodeHints,
    value: &Value,
    strict: &[Strict],
) -> Result<Vec<String>> {
    let mut found: Vec<String> = strict.iter().map(ToString::to_string).collect();
    if hints.merge.is_some() {
        found.sort();
    }
    let found: Vec<String> = hints.faults.iter().cloned().chain(found).collect();
    match writer.field_validation() {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict if !found.is_empty() => {
            let error = format!("strict decoding error: {}", found.join(", "));
            let (resource, name) = (&*writer.ctx.resource, &writer.ctx.info.name);
            Err(decoder::of(resource).unconvertible(resource, hints, name, value, &error))
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
    if crate::versions::builtin_views::is_other_view(resource) {
        value = crate::versions::builtin_views::to_stored(resource, value);
    }
    value["apiVersion"] = json!(resource.storage_api_version);
    Ok(value)
}

/// Doubled keys as Go's YAML reader puts them in one error.
pub(crate) fn yaml_errors(faults: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", faults.join("\n  "))
}
