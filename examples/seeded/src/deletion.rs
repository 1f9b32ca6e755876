//! The finalizer, and the claims that it deletes.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use kube::ResourceExt;
use serde_json::json;
use setpoint::client::Patch;
use setpoint::{Action, Error, Key, Query};

use crate::bug::Bug;
use crate::pass::Pass;
use crate::types::Store;

const FINALIZER: &str = "seeded.example.org/claims";

/// Adds the finalizer if it is missing.
///
/// # Errors
/// When the server refuses the write.
pub async fn ensure_finalizer(pass: &Pass<'_>) -> Result<(), Error> {
    if !pass.store.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        set_finalizers(pass, &[FINALIZER]).await?;
    }
    Ok(())
}

/// Deletes the claims, then lets the store go.
///
/// # Errors
/// When the server refuses a write.
pub async fn clean_up(pass: &Pass<'_>) -> Result<Action, Error> {
    if pass.store.finalizers().is_empty() {
        return Ok(Action::done());
    }
    let claims = claims(pass).await?;
    if !pass.has(Bug::ClaimsByLabel) && !pass.is_current().await? {
        return Ok(Action::requeue_after(Duration::from_secs(1)));
    }
    let again = pass.has(Bug::DeletesAgain);
    for claim in claims.iter().filter(|claim| again || claim.metadata.deletion_timestamp.is_none()) {
        match pass.has(Bug::ClaimsByLabel) {
            true => {
                let key = Key::new(Some(&pass.namespace()), &claim.name_any());
                pass.client().delete::<PersistentVolumeClaim>(key).await?;
            }
            false => pass.client().delete_object(&**claim).await?,
        }
    }
    let waits =
        pass.has(Bug::DeletionWaitsForItself) && pass.client().get::<Service>(pass.key("")).await?.is_some();
    if claims.is_empty() && !waits {
        set_finalizers(pass, &[]).await?;
        return Ok(Action::done());
    }
    // Claims have no owner, so their end is no event of the store.
    Ok(Action::requeue_after(Duration::from_secs(1)))
}

/// Returns the claims of the store.
///
/// # Errors
/// If the cache cannot answer.
pub async fn claims(pass: &Pass<'_>) -> Result<Vec<std::sync::Arc<PersistentVolumeClaim>>, Error> {
    let selector = format!("store={}", pass.store.name_any());
    let query = Query::namespace(pass.namespace()).labels(&selector)?;
    Ok(pass.client().list::<PersistentVolumeClaim>(query).await?)
}

async fn set_finalizers(pass: &Pass<'_>, finalizers: &[&str]) -> Result<(), Error> {
    // Another store may have the name by now: the server refuses another uid.
    let uid = &pass.store.metadata.uid;
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers, "uid": uid}}));
    pass.client().patch::<Store>(pass.key(""), &patch).await?;
    Ok(())
}
