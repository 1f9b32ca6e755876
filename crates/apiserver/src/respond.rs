//! Answers: encoding, headers, compression.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use crate::body::Body;
use crate::error::{ApiError, BAD_PATH, Result, TOO_MANY_IN_FLIGHT, UNKNOWN_PATH};
use crate::header::first;
use crate::negotiate::{Format, JSON, Negotiated};

/// Answers longer than this are compressed when the client takes gzip.
const COMPRESS_FROM: usize = 128 * 1024;

/// A body of those bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// An answer of those bytes.
pub fn bytes(status: StatusCode, content_type: &str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_str(content_type).unwrap_or(HeaderValue::from_static(JSON));
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Plain text, as health checks and unknown paths are answered.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = bytes(status, "text/plain; charset=utf-8", body);
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

/// A JSON value.
pub fn json(status: StatusCode, value: &Value) -> Response<Body> {
    bytes(status, JSON, json_line(value))
}

fn json_line(value: &Value) -> Vec<u8> {
    let mut out = crate::object::ordered(value);
    out.push(b'\n');
    out
}

/// An object or list in the negotiated encoding.
pub fn value(status: StatusCode, negotiated: &Negotiated, value: &Value) -> Result<Response<Body>> {
    let encoded = match negotiated.format {
        Format::Json if negotiated.pretty => pretty(value),
        Format::Json => json_line(value),
        Format::Yaml => yaml(value),
        Format::Protobuf => protobuf(value)?,
    };
    Ok(bytes(status, negotiated.format.media_type(), encoded))
}

/// A stored object. If the client asked for JSON, the stored bytes are the answer.
pub fn stored(status: StatusCode, negotiated: &Negotiated, object: &Bytes) -> Result<Response<Body>> {
    if negotiated.format == Format::Json && !negotiated.pretty {
        return Ok(bytes(status, JSON, object.clone()));
    }
    let parsed: Value = serde_json::from_slice(object).map_err(ApiError::internal)?;
    value(status, negotiated, &parsed)
}

fn pretty(value: &Value) -> Vec<u8> {
    let compact = crate::object::ordered(value);
    crate::object::indented(&compact)
}

fn yaml(value: &Value) -> Vec<u8> {
    crate::yaml::to_yaml(value).into_bytes()
}

/// The protobuf envelope of an object.
pub fn protobuf(value: &Value) -> Result<Vec<u8>> {
    crate::protobuf::encode(value)
}

/// The answer of Go's HTTP server to a badly escaped path, before authentication.
pub fn bad_path() -> Response<Body> {
    let mut response = bytes(BAD_PATH, "text/plain; charset=utf-8", "400 Bad Request");
    response.headers_mut().remove(CACHE_CONTROL);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The answer of Go's mux for a path without a handler.
pub(crate) fn not_found() -> Response<Body> {
    let (code, said) = UNKNOWN_PATH;
    text(code, said)
}

/// Marks the answer to an authenticated user.
#[derive(Clone, Copy)]
pub(crate) struct Known;

/// An error as its `Status`.
pub fn error(error: &ApiError, negotiated: Negotiated) -> Response<Body> {
    let status = error.to_value();
    let body = match negotiated.format {
        Format::Protobuf => protobuf(&status).unwrap_or_else(|_| json_line(&status)),
        Format::Yaml => yaml(&status),
        Format::Json if negotiated.pretty => pretty(&status),
        Format::Json => json_line(&status),
    };
    let mut response = bytes(error.code(), negotiated.format.media_type(), body);
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    warn(response.headers_mut(), error.warnings());
    response
}

/// An error from before the request was routed.
pub(crate) fn refusal(refused: &ApiError, negotiated: Negotiated) -> Response<Body> {
    let mut response = error(refused, negotiated);
    if refused.is_forbidden() {
        response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    }
    response
}

/// The answer to a request after its deadline. kube-apiserver writes the bare `Status`, without kind and whatever the
/// client accepts, and lets Go guess the content type.
pub(crate) fn timed_out() -> Response<Body> {
    let error = ApiError::timeout();
    let (message, code) = (Value::from(error.status().message.as_str()), error.code());
    let body = format!(
        "{{\"metadata\":{{}},\"status\":\"Failure\",\"message\":{message},\"reason\":\"Timeout\",\"details\":{{}},\
         \"code\":{}}}\n",
        code.as_u16()
    );
    bytes(code, "text/plain; charset=utf-8", body)
}

/// The answer to a request beyond the limit of requests in flight.
pub(crate) fn too_many() -> Response<Body> {
    let (code, said) = TOO_MANY_IN_FLIGHT;
    let mut response = text(code, said);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Adds `Warning: 299` headers, each text once.
pub fn warn(headers: &mut HeaderMap, warnings: &[String]) {
    let mut seen: Vec<&str> = Vec::new();
    for warning in warnings {
        if seen.contains(&warning.as_str()) {
            continue;
        }
        seen.push(warning);
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append("warning", value);
        }
    }
}

/// An answer or an error, with these warnings.
pub(crate) fn warned(answered: Result<Response<Body>>, warnings: &[String]) -> Result<Response<Body>> {
    let mut response = answered.map_err(|error| error.with_warnings(warnings))?;
    warn(response.headers_mut(), warnings);
    Ok(response)
}

/// Whether the client takes gzip.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = first(headers, ACCEPT_ENCODING);
    accepted.split(',').any(|coding| coding.split(';').next().is_some_and(|name| name.trim() == "gzip"))
}

/// Compresses a long body.
pub fn compressed(status: StatusCode, content_type: &str, body: Vec<u8>, gzip: bool) -> Response<Body> {
    if !gzip || body.len() <= COMPRESS_FROM {
        return bytes(status, content_type, body);
    }
    // kube-apiserver uses level 1 too: most of the gain at a tenth of the time.
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::new(1));
    let packed = encoder.write_all(&body).and_then(|()| encoder.finish());
    let Ok(packed) = packed else { return bytes(status, content_type, body) };
    let mut response = bytes(status, content_type, packed);
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

/// Like [`value`], compressed when long and asked for.
pub fn value_compressed(
    status: StatusCode,
    negotiated: &Negotiated,
    value: &Value,
    gzip: bool,
) -> Result<Response<Body>> {
    let encoded = match negotiated.format {
        Format::Json if negotiated.pretty => pretty(value),
        Format::Json => json_line(value),
        Format::Yaml => yaml(value),
        Format::Protobuf => protobuf(value)?,
    };
    Ok(compressed(status, negotiated.format.media_type(), encoded, gzip))
}
