//! An operator with bugs that somebody made before, behind a switch. Without a bug it is sound. `setpoint-prove` must
//! find the bugs and must find nothing in the sound operator: the tests of this package check both.
//!
//! A `Store` becomes two Secrets, a ConfigMap, a Service, a StatefulSet, a disruption budget, one claim for each
//! replica, and a monitor if it asks for one. Claims have no owner: a finalizer deletes them.

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
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::CustomResourceExt;
use serde_json::Value;
use setpoint::informer::Object;
use setpoint::{Action, Context, Controller, Error, Key, Manager, Reconciler, SetupError, Watch, predicate};

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
    let mut controller = Controller::for_kind::<Store>(manager)
        .owns::<Secret>()
        .owns::<ConfigMap>()
        .owns::<Service>()
        .owns::<StatefulSet>()
        .owns::<PodDisruptionBudget>()
        .reads::<PersistentVolumeClaim>()
        .field_owner(NAME);
    controller = match bug {
        Some(Bug::SwallowedConflict) => controller.with_predicate_for_all(predicate::generation_changed()),
        Some(Bug::GuardedByOther) => controller.without_read_your_writes(),
        Some(Bug::TerminatingByName) => {
            controller.watches(Watch::of::<PersistentVolumeClaim>().map(labelled_store))
        }
        Some(Bug::SeenTerminating) => controller.watches(Watch::of::<Pod>().map(labelled_store)),
        _ => controller,
    };
    controller.register(Stores { bug, memory })?;
    Ok(())
}

/// Returns the key of the store that a claim or pod belongs to.
fn labelled_store(object: &Object) -> Vec<Key> {
    let namespace = object.key().namespace().map(str::to_owned);
    let store = object.labels().get("store").map(|store| Key::new(namespace.as_deref(), store));
    store.into_iter().collect()
}

/// Returns the custom resource definition.
pub fn definition() -> Value {
    serde_json::to_value(Store::crd()).expect("a definition has a JSON form")
}
