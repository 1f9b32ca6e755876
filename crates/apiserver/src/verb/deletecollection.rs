//! `DELETE` of a collection.

use std::sync::Arc;

use http::Response;
use setpoint_store::Entry;

use crate::body::Body;
use crate::context::RequestContext;
use crate::decision::Decision;
use crate::error::{ApiError, Result};
use crate::registry::meta;
use crate::representation::{self, Listed};
use crate::respond;
use crate::selection::{Selection, scope};
use crate::versions::conversion;
use crate::write::delete_options::DeleteOptions;
use crate::write::{Change, Kind, Merge, Outcome, State, Write, transaction};
use crate::write_options::WriteOptions;
use crate::writer::Writer;

/// Deletes what the selectors select, each object in its own transaction, and answers with what that was.
pub(crate) async fn deletecollection(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    let options = DeleteOptions::read(ctx, bytes)?;
    let selection = Selection::parse(&ctx.resource, &ctx.info)?;
    let range = scope(&ctx.resource, &ctx.info, &selection);
    let snapshot = ctx.server.store().snapshot();
    let found = snapshot.range(&range, None).cloned().collect();
    drop(snapshot);
    let mut selected: Vec<Arc<Entry>> = conversion::views(ctx, found)
        .await
        .map_err(|failed| ApiError::unreadable_list(&ctx.resource.group_resource(), &failed))?;
    selected.retain(|entry| selection.matches(&ctx.resource, entry));
    let mut warnings = Vec::new();
    for target in &selected {
        ctx.work.check()?;
        // The answers of webhooks about one object are of no use to the next.
        let writer = Writer::with(ctx, WriteOptions::of_delete(options.is_dry_run()));
        let write = Write::deletion(&writer, Kind::Delete, &DeleteOneOfMany, &options);
        let done = transaction::commit(&write.of(&meta(target).name)).await;
        let done = done.map_err(|error| error.with_warnings(&warnings))?;
        warnings.extend(done.change.warnings);
    }
    let revision = ctx.server.store().revision();
    let listed = Listed { revision, entries: selected, next: String::new(), remaining: None };
    respond::warned(representation::list(ctx, listed).await, &warnings)
}

struct DeleteOneOfMany;

impl Merge for DeleteOneOfMany {
    fn merge(&self, _: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
        if change.live.is_none() {
            // Somebody else was faster.
            change.outcome = Some(Outcome::Absent);
        }
        Ok(())
    }
}
