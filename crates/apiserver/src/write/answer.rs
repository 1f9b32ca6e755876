//! Answers with what a write came to.

use http::{Response, StatusCode};

use super::transaction::Done;
use crate::body::Body;
use crate::context::RequestContext;
use crate::error::Result;
use crate::versions::conversion;
use crate::{representation, respond};

/// The object as it is now, in the form that the client asked for, with the warnings of the write.
pub(crate) async fn object(ctx: &RequestContext, done: Done) -> Result<Response<Body>> {
    let status = if done.is_created() { StatusCode::CREATED } else { StatusCode::OK };
    let warnings = done.change.warnings.clone();
    respond::warned(answer(ctx, status, done).await, &warnings)
}

async fn answer(ctx: &RequestContext, status: StatusCode, done: Done) -> Result<Response<Body>> {
    match done.entry() {
        Some(entry) => representation::one_entry(ctx, status, &*conversion::view(ctx, entry).await?),
        None if done.is_dry_run => {
            representation::one_value(ctx, status, conversion::read_back(ctx, done.change.new).await?)
        }
        None => representation::one_value(ctx, status, done.change.new),
    }
}
