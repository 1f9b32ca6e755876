//! `DELETE` of a collection.

use std::sync::Arc;

use http::Response;
use setpoint_store::{Entry, Snapshot, Txn};

use crate::conversion;
use crate::error::{ApiError, Result};
use crate::form::{self, Listed};
use crate::server::{Body, RequestContext};
use crate::verb::delete::{DeleteOptions, decide, webhook};
use crate::verb::list::{Selection, scope};
use crate::write::commit;

/// Deletes what the selectors select, each object in its own transaction, and answers with what that was.
pub(crate) async fn deletecollection(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    let options = DeleteOptions::read(ctx, bytes)?;
    let selection = Selection::parse(&ctx.resource, &ctx.info)?;
    let now = ctx.server.options().clock.now();
    let range = scope(&ctx.resource, &ctx.info, &selection);
    let snapshot = ctx.server.store().snapshot();
    let found = snapshot.range(&range, None).cloned().collect();
    drop(snapshot);
    let mut selected: Vec<Arc<Entry>> = conversion::views(ctx, found)
        .await
        .map_err(|failed| ApiError::unreadable_list(&ctx.resource, &failed))?;
    selected.retain(|entry| selection.matches(&ctx.resource, entry));
    for target in &selected {
        let decide = |snapshot: &Snapshot, txn: &mut Txn| match snapshot.get(&target.key) {
            // Somebody else was faster.
            None => Ok(()),
            Some(entry) => {
                webhook(ctx, snapshot, &entry, &options)?;
                decide(ctx, now, snapshot, txn, &entry, &options).map(|_| ())
            }
        };
        commit(ctx, options.is_dry(), decide).await?;
    }
    let revision = ctx.server.store().revision();
    form::list(ctx, Listed { revision, entries: selected, next: String::new(), remaining: None }).await
}
