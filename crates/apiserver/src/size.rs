//! How large an object may be: as large as etcd would take what kube-apiserver stores for it.

use std::borrow::Cow;

use serde_json::Value;

use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::header::first;
use crate::object::{self, Encoded};
use crate::request::Verb;

/// The longest request that etcd takes unless told otherwise.
const MAX_STORED: usize = 1536 * 1024;
/// etcd's words for more.
const TOO_LARGE: &str = "etcdserver: request is too large";

/// The stored bytes of an object, without `managedFields` if the object is too large with them.
///
/// # Errors
/// It is too large.
pub(crate) fn encoded(ctx: &RequestContext, stored: &mut Cow<'_, Value>) -> Result<Encoded> {
    let encoded = Encoded::new(stored);
    if !is_too_large(ctx, &encoded, stored) {
        return Ok(encoded);
    }
    // `managedFields` can take much of the room. Dropping them beats refusing the object, but an apply needs them.
    if is_apply(ctx) || object::metadata_mut(stored.to_mut()).remove("managedFields").is_none() {
        return Err(ApiError::internal_plain(TOO_LARGE));
    }
    let encoded = Encoded::new(stored);
    if is_too_large(ctx, &encoded, stored) { Err(ApiError::internal_plain(TOO_LARGE)) } else { Ok(encoded) }
}

/// kube-apiserver stores custom objects as JSON and the others as protobuf, which is shorter.
fn is_too_large(ctx: &RequestContext, encoded: &Encoded, stored: &Value) -> bool {
    if encoded.len() <= MAX_STORED {
        return false;
    }
    let message = if ctx.resource.custom.is_none() { crate::protobuf::encode(stored).ok() } else { None };
    message.map_or(encoded.len(), |message| message.len()) > MAX_STORED
}

fn is_apply(ctx: &RequestContext) -> bool {
    ctx.info.verb == Verb::Patch && first(&ctx.headers, http::header::CONTENT_TYPE).contains("apply-patch")
}
