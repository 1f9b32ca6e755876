//! PersistentVolumes: one that is bound to a claim stays.

use k8s_openapi::api::core::v1::PersistentVolume;
use setpoint::{Action, Context, Controller, Error, Key, Kind, Manager, Object, Reconciler, SetupError};

use super::{Protected, unsettled};

const FINALIZER: &str = "kubernetes.io/pv-protection";

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let volumes = Protected { resource: PersistentVolume::api_resource(), finalizer: FINALIZER };
    Controller::for_kind::<PersistentVolume>(manager)
        .with_predicate(unsettled(FINALIZER))
        .named("persistentvolume-protection-controller")
        .field_owner(crate::FIELD_OWNER)
        .register(Volumes(volumes))?;
    Ok(())
}

struct Volumes(Protected);

impl Reconciler for Volumes {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        self.0.reconcile(ctx.client(), &key, |volume| async move { Ok(is_bound(&volume)) }).await
    }
}

fn is_bound(volume: &Object) -> bool {
    volume.path("status.phase").as_deref() == Some("Bound")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_phase_says_whether_a_volume_is_bound() {
        for (phase, expected) in [
            ("Pending", false),
            ("Available", false),
            ("Bound", true),
            ("Released", false),
            ("Failed", false),
        ] {
            let volume = json!({ "metadata": { "name": "v", "resourceVersion": "1" },
                "spec": { "claimRef": { "name": "c", "namespace": "ns" } }, "status": { "phase": phase } });
            let volume = Object::from_json(volume.to_string().as_bytes()).unwrap();
            assert_eq!(is_bound(&volume), expected, "{phase}");
        }
    }
}
