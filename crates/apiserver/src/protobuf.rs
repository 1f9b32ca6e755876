//! Protobuf on the wire: the envelope and watch frames, by the schema table.

use serde_json::Value;
use setpoint_schema::protobuf;

use crate::error::{ApiError, Result};

/// An object in its envelope.
pub(crate) fn encode(value: &Value) -> Result<Vec<u8>> {
    protobuf::encode(value).map_err(|_| ApiError::not_acceptable(&["application/json", "application/yaml"]))
}

/// A watch event: length, then the envelope.
pub(crate) fn watch_frame(kind: &str, object: &Value) -> Result<Vec<u8>> {
    Ok(protobuf::watch_frame(kind, &encode(object)?))
}

/// A body of any built-in kind.
pub(crate) fn decode_any(bytes: &[u8]) -> Result<Value> {
    protobuf::decode(bytes).map_err(|error| ApiError::bad_request(error.to_string()))
}
