//! `GET` of one object.

use http::{Response, StatusCode};

use crate::body::Body;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::representation;
use crate::selection::parse_version;
use crate::versions::conversion;

/// Answers the newest state; a `resourceVersion` only says how new it must at least be.
pub(crate) async fn get(ctx: &RequestContext) -> Result<Response<Body>> {
    if let Some(text) = ctx.info.query.get("resourceVersion") {
        let version = parse_version(text).map_err(|error| ApiError::internal_plain(error.to_string()))?;
        ctx.server.wait_for(version).await?;
    }
    let snapshot = ctx.server.store().snapshot();
    let key = ctx.resource.key(&ctx.info.namespace, &ctx.info.name);
    let entry = snapshot.get(&key).ok_or_else(|| ApiError::not_found(&ctx.resource, &ctx.info.name))?;
    let entry = conversion::view(ctx, entry).await?;
    representation::one_entry(ctx, StatusCode::OK, &entry)
}
