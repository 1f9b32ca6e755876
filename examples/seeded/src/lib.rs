//! An operator with bugs that somebody made before, behind a switch. Without a bug it is sound. `setpoint-prove` must
//! find the bugs and must find nothing in the sound operator: the tests of this package check both.
//!
//! A `Store` becomes two Secrets, a ConfigMap, a Service, a StatefulSet, one claim for each replica, and a monitor if
//! it asks for one. Claims have no owner: a finalizer deletes them.

mod reconcile;
mod children;
mod mistakes;
mod deletion;
mod status;
mod pass;
mod bug;
mod types;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};
use kube::CustomResourceExt;
use serde_json::Value;
use setpoint::{Action, Context, Controller, Error, Key, Manager, Reconciler, SetupError};

pub use bug::Bug;
pub use types::{Store, StoreSpec, StoreStatus};

use pass::Memory;

/// The name of the operator.
pub const NAME: &str = "store-operator";

struct Stores {
    bug: Option<Bug>,
    memory: Arc<Memory>,
}

impl Reconciler for Stores {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        reconcile::reconcile(ctx, &key, self.bug, &self.memory).await
    }
}

/// Registers the controller, with a bug or without.
///
/// # Errors
/// If the manager has a controller of this name.
pub fn register(manager: &Manager, bug: Option<Bug>) -> Result<(), SetupError> {
    let memory = Arc::new(Memory::new(manager.informer::<ConfigMap>().lister()));
    Controller::for_kind::<Store>(manager)
        .owns::<Secret>()
        .owns::<ConfigMap>()
        .owns::<Service>()
        .owns::<StatefulSet>()
        .reads::<PersistentVolumeClaim>()
        .field_owner(NAME)
        .register(Stores { bug, memory })?;
    Ok(())
}

/// Returns the custom resource definition.
pub fn definition() -> Value {
    serde_json::to_value(Store::crd()).expect("a definition has a JSON form")
}
