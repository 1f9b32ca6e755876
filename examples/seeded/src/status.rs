//! The status of a store.

use kube::ResourceExt;
use serde_json::json;
use setpoint::Error;

use crate::pass::Pass;
use crate::types::{Store, StoreStatus};

/// Applies a status.
///
/// # Errors
/// When the server refuses the write.
pub async fn write(pass: &Pass<'_>, status: &StoreStatus) -> Result<(), Error> {
    let metadata = json!({"name": pass.store.name_any(), "namespace": pass.namespace()});
    let written =
        pass.client().apply_status::<Store>(&json!({"metadata": metadata, "status": status})).await?;
    if let Some(version) = written.resource_version() {
        pass.memory.remember("own", &version);
    }
    Ok(())
}
