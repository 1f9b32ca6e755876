//! `AdmissionReview` and `ConversionReview` v1, as the API server writes and reads them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use setpoint_api::status::Status;

use super::review::{Operation, User};
use crate::redact::redact;

const ADMISSION: (&str, &str) = ("admission.k8s.io/v1", "AdmissionReview");
const CONVERSION: (&str, &str) = ("apiextensions.k8s.io/v1", "ConversionReview");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<R> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<R>,
}

/// A kind or resource in a review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Name {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

/// The question of an admission webhook.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionRequest {
    pub(super) uid: String,
    #[serde(default)]
    pub(super) kind: Name,
    #[serde(default)]
    pub(super) sub_resource: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
    pub(super) operation: Operation,
    #[serde(default)]
    pub(super) user_info: User,
    #[serde(default)]
    pub(super) object: Value,
    #[serde(default)]
    pub(super) old_object: Value,
    #[serde(default)]
    pub(super) dry_run: Option<bool>,
}

/// The question of a conversion webhook.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConversionRequest {
    pub(super) uid: String,
    #[serde(rename = "desiredAPIVersion")]
    pub(super) desired_api_version: String,
    #[serde(default)]
    pub(super) objects: Vec<Value>,
}

/// Reads an `AdmissionReview`.
pub(super) fn admission(body: &[u8]) -> Result<AdmissionRequest, Status> {
    read(body, ADMISSION)
}

/// Reads a `ConversionReview`.
pub(super) fn conversion(body: &[u8]) -> Result<ConversionRequest, Status> {
    read(body, CONVERSION)
}

fn read<R: DeserializeOwned>(body: &[u8], (version, kind): (&str, &str)) -> Result<R, Status> {
    let envelope: Envelope<Value> = serde_json::from_slice(body).map_err(|error| {
        Status::bad_request(format!("the body is no {kind}: {}", redact(&error.to_string())))
    })?;
    if envelope.api_version != version || envelope.kind != kind {
        let (api_version, other) = (envelope.api_version, envelope.kind);
        let message = format!("expected {kind} of {version}, got {other:?} of {api_version:?}");
        return Err(Status::bad_request(message));
    }
    let Some(request) = envelope.request else {
        return Err(Status::bad_request(format!("the {kind} has no request")));
    };
    serde_json::from_value(request).map_err(|error| {
        Status::bad_request(format!("the request of the {kind} is malformed: {}", redact(&error.to_string())))
    })
}

fn envelope((version, kind): (&str, &str), response: Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "response": response})
}

/// An answer that allows a request, with the operations of a JSON patch.
pub(super) fn allowed(uid: &str, warnings: &[String], operations: &[Value]) -> Value {
    let mut response = json!({"uid": uid, "allowed": true});
    if !warnings.is_empty() {
        response["warnings"] = json!(warnings);
    }
    // A patch without operations is left out: the API server would decode the object again for nothing.
    if !operations.is_empty() {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(Value::from(operations.to_vec()).to_string()));
    }
    envelope(ADMISSION, response)
}

/// An answer that denies a request.
pub(super) fn denied(uid: &str, warnings: &[String], status: &Status) -> Value {
    let mut response = json!({"uid": uid, "allowed": false, "status": status.to_value()});
    if !warnings.is_empty() {
        response["warnings"] = json!(warnings);
    }
    envelope(ADMISSION, response)
}

/// The converted objects, in the order of the question.
pub(super) fn converted(uid: &str, objects: Vec<Value>) -> Value {
    let response = json!({"uid": uid, "convertedObjects": objects, "result": {"status": "Success"}});
    envelope(CONVERSION, response)
}

/// A conversion that failed. The API server shows the message.
pub(super) fn not_converted(uid: &str, message: &str) -> Value {
    envelope(CONVERSION, json!({"uid": uid, "result": {"status": "Failure", "message": message}}))
}
