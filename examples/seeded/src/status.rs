//! The status of a store.

use kube::ResourceExt;
use setpoint::Error;

use crate::pass::Pass;
use crate::types::StoreStatus;

/// Applies a status.
///
/// # Errors
/// When the server refuses the write.
pub async fn write(pass: &Pass<'_>, status: &StoreStatus) -> Result<(), Error> {
    let written = pass.client().apply_status(pass.store, status).await?;
    if let Some(version) = written.resource_version() {
        pass.memory.remember("own", &version);
    }
    Ok(())
}
