//! The operator on a cluster in this process. Time is paused, so waiting costs nothing.

mod static_site;
// setpoint new: modules

use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use serde_json::Value;
use setpoint::{Manager, ManagerOptions};
use setpoint_cluster::{Cluster, Options};
use template_operator::{manifests, register};

/// Starts a cluster with the definitions, and the operator on it.
async fn start() -> Cluster {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    // setpoint new: cluster
    for object in manifests("image") {
        // The operator runs in this process, not as a pod.
        if object["kind"] != "Deployment" {
            apply(cluster.client(), &object).await;
        }
    }
    let manager = Manager::new(cluster.client(), ManagerOptions::default());
    register(&manager).unwrap();
    tokio::spawn(async move { manager.run(std::future::pending()).await.unwrap() });
    cluster
}

/// Applies an object of any kind, as `kubectl apply --server-side` does.
async fn apply(client: Client, object: &Value) {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
    let (resource, capabilities) = pinned_kind(&client, &kind).await.unwrap();
    let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client, &resource),
        Scope::Namespaced => Api::namespaced_with(client, namespace, &resource),
    };
    let name = object.metadata.name.clone().unwrap();
    api.patch(&name, &PatchParams::apply("tests").force(), &Patch::Apply(&object)).await.unwrap();
}
