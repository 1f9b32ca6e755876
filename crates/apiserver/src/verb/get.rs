//! `GET` of one object.

use http::{Response, StatusCode};

use crate::conversion;
use crate::error::{ApiError, Result};
use crate::form;
use crate::server::{Ask, Body};
use crate::verb::list::parse_version;

/// Answers the newest state; a `resourceVersion` only says how new it must at least be.
pub(crate) async fn get(ask: &Ask) -> Result<Response<Body>> {
    if let Some(text) = ask.info.query.get("resourceVersion") {
        let version = parse_version(text).map_err(ApiError::internal_plain)?;
        ask.server.wait_for(version).await?;
    }
    let snapshot = ask.server.store().snapshot();
    let key = ask.resource.key(&ask.info.namespace, &ask.info.name);
    let entry = snapshot.get(&key).ok_or_else(|| ApiError::not_found(&ask.resource, &ask.info.name))?;
    let entry = conversion::view(ask, entry).await?;
    form::one_entry(ask, StatusCode::OK, &entry)
}
