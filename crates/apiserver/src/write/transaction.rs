//! Decides a write in a transaction, asks webhooks for what the decision needs, and has it decided again.

use std::convert::Infallible;
use std::sync::Arc;

use setpoint_store::{Entry, Event, Snapshot, Txn, TxnError};

use super::change::{Change, Outcome, Write};
use super::{pipeline, strategy, terminate};
use crate::auth::access::Access;
use crate::context::RequestContext;
use crate::decision::{Decision, Stop};
use crate::error::{ApiError, Result};
use crate::object;
use crate::origin::Origin;
use crate::registry::{self, meta};
use crate::writer::Writer;

/// A write that is done.
pub(crate) struct Done {
    pub(crate) change: Change,
    /// The events of the transaction; none in a dry run.
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) is_dry_run: bool,
}

impl Done {
    /// Whether there was no such object before.
    pub(crate) fn is_created(&self) -> bool {
        self.change.live.is_none()
    }

    /// The object as it is stored now; none in a dry run, and where it is gone.
    pub(crate) fn entry(&self) -> Option<Arc<Entry>> {
        let written = self.events.iter().find(|event| event.key == self.change.key);
        let unchanged = || match (&self.change.outcome, &self.change.live) {
            (Some(Outcome::Unchanged), Some(live)) => Some(live.entry.clone()),
            _ => None,
        };
        written.and_then(|event| event.new.clone()).or_else(unchanged)
    }
}

/// Decides a write until nothing is missing, and commits it. The webhooks' warnings come with the result.
pub(crate) async fn commit(write: &Write<'_>) -> Result<Done> {
    let done = decided(write).await;
    let warnings = write.writer.warnings();
    let mut done = done.map_err(|error| error.with_warnings(&warnings))?;
    done.change.warnings.extend(warnings);
    Ok(done)
}

async fn decided(write: &Write<'_>) -> Result<Done> {
    let ctx = write.ctx();
    let (change, mut events) = loop {
        match attempt(write).await.map_err(|error| error.with_warnings(&write.warned()))? {
            Ok(decided) => break decided,
            Err(Stop::Refused(error)) => return Err(error),
            Err(needs) => {
                let asked = ask(write.writer, &needs).await;
                asked.map_err(|error| error.with_warnings(&write.warned()))?;
            }
        }
    };
    let is_dry_run = write.writer.is_dry_run();
    if !is_dry_run {
        if change.is_dying {
            events.extend(finish(write, &change).await?);
        }
        follow_up(ctx, &events).await;
    }
    Ok(Done { change, events, is_dry_run })
}

/// One transaction, or a look at the newest state where nothing is to happen.
async fn attempt(write: &Write<'_>) -> Result<Decision<(Change, Vec<Arc<Event>>)>> {
    let ctx = write.ctx();
    let decide = |snapshot: &Snapshot, txn: &mut Txn| {
        // A write that loses races again and again ends with its request.
        ctx.work.check().map_err(|error| error.with_warnings(&write.warned()))?;
        let decided = pipeline::decide(write, snapshot, txn);
        if ctx.answers.is_missing() {
            return Err(Stop::NeedsAuthorization);
        }
        write.writer.check_converted()?;
        decided
    };
    if write.writer.is_dry_run() {
        let decided = decide(&ctx.server.store().snapshot(), &mut Txn::default());
        return Ok(decided.map(|change| (change, Vec::new())));
    }
    match ctx.server.store().transact(decide).await {
        Ok(committed) => Ok(Ok((committed.value, committed.events))),
        Err(TxnError::Decide(stop)) => Ok(Err(stop)),
        Err(TxnError::Write(error)) => Err(ctx.server.write_failed(error)),
        Err(other) => Err(ApiError::internal(other)),
    }
}

/// Deletes an object whose deletion nothing delays. As in kube-apiserver, a write of another client may come between.
async fn finish(write: &Write<'_>, change: &Change) -> Result<Vec<Arc<Event>>> {
    let ctx = write.ctx();
    let uid = object::meta_text(&change.new, "uid");
    let decide = |snapshot: &Snapshot, txn: &mut Txn| -> std::result::Result<(), Infallible> {
        let stored = snapshot.get(&change.key).filter(|entry| meta(entry).uid == uid);
        if stored.is_some_and(|entry| terminate::may_go(ctx, &registry::value(&entry))) {
            txn.delete(change.key.clone());
        }
        Ok(())
    };
    match ctx.server.store().transact(decide).await {
        Ok(committed) => Ok(committed.events),
        Err(TxnError::Write(error)) => Err(ctx.server.write_failed(error)),
        Err(other) => Err(ApiError::internal(other)),
    }
}

/// Asks webhooks for what a decision needs.
async fn ask(writer: &Writer<'_>, needs: &Stop) -> Result<()> {
    match (needs, &writer.conversions, &writer.reviews) {
        (Stop::NeedsConversion, Some(conversions), _) => conversions.fetch(writer.ctx).await,
        (Stop::NeedsReview, _, Some(reviews)) => reviews.fetch(writer.ctx).await,
        (Stop::NeedsAuthorization, ..) => {
            Access::of(writer.ctx).fetch().await;
            Ok(())
        }
        _ => Err(ApiError::internal("a decision needs a webhook, and there is none")),
    }
}

/// Does what must follow a write before the writer is answered.
async fn follow_up(ctx: &RequestContext, events: &[Arc<Event>]) {
    ctx.server.0.origins.note(Origin::of(&ctx.user, &ctx.headers), events);
    crate::protobuf_fill::written(&ctx.server, &ctx.resource, events);
    strategy::of(&ctx.resource).committed(&ctx.server, events).await;
}
