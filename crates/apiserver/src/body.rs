//! Request bodies: read within the limit, decoded from their format.

use std::borrow::Cow;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::error::{ApiError, Result};
use crate::server::Body;

/// The longest request body.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// How long a client may take to send its request.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Reads a body; longer than [`MAX_BODY`] is refused, and so is one that takes too long.
pub async fn read(body: Body) -> Result<Bytes> {
    tokio::time::timeout(PATIENCE, read_all(body)).await.map_err(|_| ApiError::timeout())?
}

async fn read_all(mut body: Body) -> Result<Bytes> {
    let mut first: Option<Bytes> = None;
    let mut rest: Option<BytesMut> = None;
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::bad_request(format!("reading the body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > MAX_BODY {
            return Err(ApiError::too_large(MAX_BODY));
        }
        match (&mut first, &mut rest) {
            (None, _) => first = Some(data),
            (Some(head), None) => {
                let mut joined = BytesMut::with_capacity(length * 2);
                joined.extend_from_slice(head);
                joined.extend_from_slice(&data);
                rest = Some(joined);
            }
            (Some(_), Some(joined)) => joined.extend_from_slice(&data),
        }
    }
    Ok(rest.map(BytesMut::freeze).or(first).unwrap_or_default())
}

/// As Go's reader has it: of a key that stands twice the last value counts.
fn last_wins() -> serde_saphyr::Options {
    serde_saphyr::options! { duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins }
}

/// What Go's strict reader says of the first key that stands twice in a YAML text.
pub fn doubled_key(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let error = serde_saphyr::from_str::<Value>(text).err()?.to_string();
    let (place, rest) = error.split_once("duplicate mapping key: ")?;
    let key = rest.split_once(", set DuplicateKeyPolicy")?.0;
    let line = place.rsplit_once("line ")?.1.split(' ').next()?;
    Some(format!("line {line}: key \"{key}\" already set in map"))
}

/// YAML as JSON text. A body that begins with `{` is taken for JSON as it is.
pub fn yaml_to_json(bytes: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        return Ok(Cow::Borrowed(bytes));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let value: Value =
        serde_saphyr::from_str_with_options(text, last_wins()).map_err(|error| error.to_string())?;
    Ok(Cow::Owned(value.to_string().into_bytes()))
}
