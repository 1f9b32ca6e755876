//! VolumeAttributesClasses: one that a volume or claim names stays.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::core::{ApiResource, GroupVersionKind};
use setpoint::predicate::Change;
use setpoint::{
    Action, Client, ClientError, Context, Controller, Error, Key, Kind, Manager, Object, Query, Reconciler,
    SetupError, Target, Watch,
};
use tokio_util::sync::CancellationToken;

use super::{Protected, unsettled};

const FINALIZER: &str = "kubernetes.io/vac-protection";
const NAME: &str = "volumeattributesclass-protection-controller";
/// Interval at which a server without the kind is asked again: it may have been upgraded.
const ASK_PERIOD: Duration = Duration::from_secs(30);

/// Fields of volumes and claims that name classes: the desired one, the present one, and the one being changed to.
const NAMED_IN: [&str; 3] = [
    "spec.volumeAttributesClassName",
    "status.currentVolumeAttributesClassName",
    "status.modifyVolumeStatus.targetVolumeAttributesClassName",
];

/// Registers the controller. It begins when the server has the kind, as it does since Kubernetes 1.34: a manager ends
/// when a kind cannot be watched.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let own = manager.clone();
    manager.add(NAME, move |stopping| begin(own, stopping))
}

/// Known at run time only: older versions of the types do not have it.
fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("storage.k8s.io", "v1", "VolumeAttributesClass");
    ApiResource::from_gvk_with_plural(&kind, "volumeattributesclasses")
}

async fn begin(manager: Manager, stopping: CancellationToken) -> Result<(), Error> {
    let classes = Protected { resource: resource(), finalizer: FINALIZER };
    let mut tick = tokio::time::interval(ASK_PERIOD);
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => return Ok(()),
            _ = tick.tick() => {}
        }
        match manager.client().live().list_values(&classes.resource, Query::all()).await {
            Ok(_) => break,
            Err(error) => tracing::debug!(%error, "could not find the kind VolumeAttributesClass; retrying"),
        }
    }
    Controller::for_target(&manager, Target::resource(classes.resource.clone()))
        .cluster_scoped()
        .with_predicate(unsettled(FINALIZER))
        .watches(Watch::of::<PersistentVolume>().map_changes(let_go))
        .watches(Watch::of::<PersistentVolumeClaim>().map_changes(let_go))
        .named(NAME)
        .field_owner(crate::FIELD_OWNER)
        .register(Classes(classes))?;
    Ok(())
}

struct Classes(Protected);

impl Reconciler for Classes {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        self.0.reconcile(client, &key, |class| is_named(client, class)).await
    }
}

async fn is_named(client: &Client, class: Object) -> Result<bool, ClientError> {
    for resource in [PersistentVolume::api_resource(), PersistentVolumeClaim::api_resource()] {
        let users = client.list_objects(&resource, Query::all()).await?;
        if users.iter().any(|user| class_names(user).contains(class.name())) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The classes that a volume or claim names.
fn class_names(user: &Object) -> BTreeSet<String> {
    NAMED_IN.iter().filter_map(|path| user.path(path)).filter(|name| !name.is_empty()).collect()
}

/// Returns the classes that a volume or claim no longer names.
fn let_go(change: &Change<'_>) -> Vec<Key> {
    let names = |user: Option<&Object>| user.map(class_names).unwrap_or_default();
    names(change.old).difference(&names(change.new)).map(|name| Key::cluster(name)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint::queue::Trigger;

    use super::*;

    /// A claim that wants one class, has another and is on its way to a third.
    fn claim(wanted: &str, present: &str, target: &str) -> Object {
        let claim = json!({ "metadata": { "name": "c", "namespace": "ns", "resourceVersion": "1" },
            "spec": { "volumeAttributesClassName": wanted },
            "status": { "currentVolumeAttributesClassName": present,
                "modifyVolumeStatus": { "targetVolumeAttributesClassName": target } } });
        Object::from_json(claim.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_class_is_looked_at_when_it_is_named_no_more() {
        for (old, new, expected) in [
            (None, Some(claim("a", "b", "c")), vec![]),
            (Some(claim("a", "b", "c")), None, vec!["a", "b", "c"]),
            (Some(claim("a", "", "")), Some(claim("b", "a", "b")), vec![]),
            (Some(claim("b", "a", "b")), Some(claim("b", "b", "")), vec!["a"]),
        ] {
            let change = Change { trigger: Trigger::Updated, old: old.as_ref(), new: new.as_ref() };
            let requests = let_go(&change);
            assert_eq!(requests.iter().map(Key::name).collect::<Vec<_>>(), expected);
        }
    }
}
