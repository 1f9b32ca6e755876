//! `DELETE` of a collection.

use std::sync::Arc;

use http::Response;
use setpoint_store::{Entry, Snapshot, Txn};

use crate::conversion;
use crate::error::{ApiError, Result};
use crate::form::{self, Listed};
use crate::server::{Ask, Body};
use crate::verb::delete::{DeleteOptions, decide, webhook};
use crate::verb::list::{Selection, scope};
use crate::write::commit;

/// Deletes what the selectors select, each object in its own transaction, and answers with what that was.
pub(crate) async fn deletecollection(ask: &Ask, bytes: &[u8]) -> Result<Response<Body>> {
    let options = DeleteOptions::read(ask, bytes)?;
    let selection = Selection::parse(&ask.resource, &ask.info)?;
    let now = ask.server.options().clock.now();
    let range = scope(&ask.resource, &ask.info, &selection);
    let snapshot = ask.server.store().snapshot();
    let found = snapshot.range(&range, None).cloned().collect();
    drop(snapshot);
    let mut selected: Vec<Arc<Entry>> = conversion::views(ask, found)
        .await
        .map_err(|failed| ApiError::unreadable_list(&ask.resource, &failed))?;
    selected.retain(|entry| selection.matches(&ask.resource, entry));
    for target in &selected {
        let decide = |snapshot: &Snapshot, txn: &mut Txn| match snapshot.get(&target.key) {
            // Somebody else was faster.
            None => Ok(()),
            Some(entry) => {
                webhook(ask, snapshot, &entry, &options)?;
                decide(ask, now, snapshot, txn, &entry, &options).map(|_| ())
            }
        };
        commit(ask, options.is_dry(), decide).await?;
    }
    let revision = ask.server.store().revision();
    form::list(ask, Listed { revision, entries: selected, next: String::new(), remaining: None }).await
}
