//! One pass: deletion or finalizer, children, status.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use setpoint::conditions::Conditions;
use setpoint::{Action, Context, Error, Key};

use crate::bug::Bug;
use crate::children;
use crate::deletion;
use crate::mistakes;
use crate::pass::{Memory, Pass};
use crate::status;
use crate::types::{Store, StoreStatus};

/// Does one pass.
///
/// # Errors
/// When the server refuses a write.
pub async fn reconcile(ctx: &Context, key: &Key, bug: Option<Bug>, memory: &Memory) -> Result<Action, Error> {
    let Some(store) = ctx.client().get::<Store>(key).await? else {
        if bug == Some(Bug::OwnGarbage) {
            mistakes::collect_garbage(ctx, key).await?;
        }
        return Ok(Action::done());
    };
    let pass = Pass { ctx, store: &store, bug, memory };
    if pass.has(Bug::OwnEventFiltered) && memory.recall("own") == store.resource_version() {
        return Ok(Action::done());
    }
    if pass.has(Bug::ChildrenBeforeDeletion) {
        children::ensure(&pass).await?;
    }
    mistakes::first_look(&pass).await?;
    if store.metadata.deletion_timestamp.is_some() {
        return deletion::clean_up(&pass).await;
    }
    if pass.has(Bug::LateFinalizer) {
        children::ensure(&pass).await?;
        deletion::ensure_finalizer(&pass).await?;
    } else {
        deletion::ensure_finalizer(&pass).await?;
        children::ensure(&pass).await?;
    }
    conclude(&pass).await
}

async fn conclude(pass: &Pass<'_>) -> Result<Action, Error> {
    let wanted = StoreStatus {
        observed_generation: pass.store.metadata.generation,
        phase: Some("Running".into()),
        replicas: Some(pass.store.spec.replicas),
        conditions: ready(pass),
        note: pass.store.status.as_ref().and_then(|status| status.note.clone()),
    };
    if let Some(action) = mistakes::status(pass, &wanted).await? {
        return Ok(action);
    }
    status::write(pass, &wanted).await?;
    Ok(Action::requeue_after(Duration::from_secs(3600)))
}

/// Returns the condition of a store whose children are there.
fn ready(pass: &Pass<'_>) -> Vec<Condition> {
    // The time must be the same in each pass.
    let since = pass.store.metadata.creation_timestamp.clone();
    let now = since.map_or_else(|| pass.ctx.clock().now(), |time| time.0);
    let mut conditions = Conditions::of(None, pass.store.metadata.generation, now);
    conditions.set_true("Ready", "ChildrenExist", "");
    conditions.into_list()
}
