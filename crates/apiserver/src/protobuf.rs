//! Protobuf on the wire: the envelope and watch frames, by the schema table.

use bytes::Bytes;
use serde_json::Value;
use setpoint_schema::protobuf;
use setpoint_store::Entry;

use crate::error::{ApiError, Result};
use crate::message::Messages;
use crate::registry::Resource;
use crate::server::Server;

/// An object in its envelope.
pub(crate) fn encode(value: &Value) -> Result<Vec<u8>> {
    protobuf::encode(value).map_err(|_| ApiError::not_acceptable(&["application/json", "application/yaml"]))
}

/// A stored object in its envelope.
pub(crate) fn stored(server: &Server, resource: &Resource, entry: &Entry) -> Result<Bytes> {
    Ok(Messages::new(server, resource).of(entry)?.sealed())
}

/// A watch event of a stored object.
pub(crate) fn stored_frame(server: &Server, resource: &Resource, kind: &str, entry: &Entry) -> Option<Bytes> {
    let sealed = stored(server, resource, entry).ok()?;
    Some(protobuf::watch_frame(kind, &sealed).into())
}

/// A watch event: length, then the envelope.
pub(crate) fn watch_frame(kind: &str, object: &Value) -> Result<Vec<u8>> {
    Ok(protobuf::watch_frame(kind, &encode(object)?))
}

/// A body of any built-in kind.
pub(crate) fn decode_any(bytes: &[u8]) -> Result<Value> {
    protobuf::decode(bytes).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// A body that must be of the resource's kind.
pub(crate) fn decode(bytes: &[u8], resource: &Resource) -> Result<Value> {
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
