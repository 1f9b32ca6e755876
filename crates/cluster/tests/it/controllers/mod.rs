//! The built-in controllers on a cluster in this process, with a pretend kubelet: time is virtual, so waiting is free.

mod aggregation;
mod crash;
mod cronjob;
mod daemons;
mod disruption;
mod garbage;
mod held;
mod job;
mod namespace;
mod nodes;
mod protection;
mod quota;
mod replication;
mod rollout;
mod scheduling;
mod services;
mod stateful;
mod tokens;
mod volumes;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use setpoint::clock::tokio_clock;
use setpoint::{
    Action, Context, Controller, DeleteOptions, Error, Key, Manager, ManagerOptions, NotFoundExt,
};
use setpoint_apiserver::jwt;
use setpoint_cluster::{Cluster, Controllers, Options};
use setpoint_controllers::TokenSigner;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A cluster with controllers that can be killed and started again.
pub struct World {
    pub cluster: Cluster,
    pub client: Client,
    running: JoinSet<()>,
    /// Whether the controllers hear nothing of pods.
    held: watch::Sender<bool>,
}

impl World {
    /// All controllers and two nodes.
    pub async fn start() -> World {
        World::with(1).await
    }

    pub async fn with(seed: u64) -> World {
        let nodes = setpoint_node::NodeOptions { count: 0, ..Default::default() };
        let options =
            Options { controllers: Controllers::None, nodes, seed: Some(seed), ..Options::default() };
        let cluster = Cluster::start(options).await.unwrap();
        let client = cluster.client();
        let mut world = World { cluster, client, running: JoinSet::new(), held: watch::Sender::new(false) };
        for name in ["node-0", "node-1"] {
            world.add_node(name, "8", json!({})).await;
        }
        world.add_class("standard", setpoint_controllers::PROVISIONER, true).await;
        world.run_controllers();
        // Pods are refused before their namespace has its account.
        let accounts = world.api::<ServiceAccount>();
        world.until("the default service account", async || accounts.get_opt("default").await.unwrap()).await;
        world
    }

    /// Starts the controllers, cold.
    pub fn run_controllers(&mut self) {
        let options = ManagerOptions::with(|options| {
            options.clock = tokio_clock(self.cluster.clock().now());
            options.random = self.cluster.random().clone();
        });
        let client = held::holding(self.cluster.client(), self.held.subscribe());
        let manager = Manager::new(client, options);
        let key = self.cluster.server().options().service_accounts.signing.clone().unwrap();
        let options = setpoint_controllers::Options {
            only: None,
            root_ca: Some("the bundle".into()),
            token_signer: Some(TokenSigner::new(move |claims| jwt::sign(&key, claims))),
        };
        setpoint_controllers::register(&manager, &options).unwrap();
        Controller::for_kind::<Pod>(&manager).named("kubelet").register(kubelet).unwrap();
        let client = self.cluster.client();
        manager.add_always("heartbeats", |_| heartbeats(client)).unwrap();
        self.running.spawn(async move { manager.run(std::future::pending()).await.unwrap() });
    }

    /// Holds the controllers' watch of pods, or lets it go on.
    pub fn hold_pods(&self, held: bool) {
        self.held.send_replace(held);
    }

    /// Kills the controllers wherever they are.
    pub async fn crash(&mut self) {
        self.running.shutdown().await;
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    pub async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    /// A storage class whose volumes are found when a pod has its node.
    pub async fn add_class(&self, name: &str, provisioner: &str, default: bool) {
        let classes: Api<StorageClass> = Api::all(self.client.clone());
        let default = json!({ "storageclass.kubernetes.io/is-default-class": default.to_string() });
        let class = json!({ "metadata": { "name": name, "annotations": default }, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer" });
        classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    }

    pub async fn add_node(&self, name: &str, cpu: &str, labels: Value) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels } })).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        let resources = json!({ "cpu": cpu, "memory": "64Gi", "pods": "500" });
        let status = json!({ "status": { "capacity": resources, "allocatable": resources,
            "conditions": [{ "type": "Ready", "status": "True" }] } });
        nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        // The taint that admission puts on new nodes is a node lifecycle controller's to remove.
        let spec = json!({ "spec": { "taints": null } });
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(spec)).await.unwrap();
    }

    pub async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: DeserializeOwned + Clone + std::fmt::Debug,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    pub async fn deployment(&self, name: &str) -> Deployment {
        self.api().get(name).await.unwrap()
    }

    pub async fn sets(&self) -> Vec<ReplicaSet> {
        self.api().list(&ListParams::default()).await.unwrap().items
    }

    pub async fn pods(&self) -> Vec<Pod> {
        self.api().list(&ListParams::default()).await.unwrap().items
    }

    pub async fn delete<K>(&self, name: &str, parameters: &DeleteParams)
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: DeserializeOwned + Clone + std::fmt::Debug,
    {
        self.api::<K>().delete(name, parameters).await.unwrap();
    }

    /// Waits for a condition, in virtual time.
    pub async fn until<T, F, R>(&self, what: &str, check: F) -> T
    where
        F: FnMut() -> R,
        R: Future<Output = Option<T>>,
    {
        self.cluster.eventually(what, check).await.unwrap_or_else(|never| panic!("{never}"))
    }

    /// Waits until the newest generation is rolled out, as `kubectl rollout status` judges it.
    pub async fn rolled_out(&self, name: &str) -> Deployment {
        self.until(&format!("{name} is rolled out"), async || {
            let deployment = self.deployment(name).await;
            is_rolled_out(&deployment).then_some(deployment)
        })
        .await
    }
}

/// The condition that `kubectl rollout status` waits for.
pub fn is_rolled_out(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let desired = deployment.spec.replicas.unwrap_or(1);
    status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0)
        && status.updated_replicas.unwrap_or(0) == desired
        && status.replicas.unwrap_or(0) == desired
        && status.available_replicas.unwrap_or(0) == desired
}

/// A Deployment of `image`.
pub fn deployment(name: &str, replicas: i32, image: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default" }, "spec": {
        "replicas": replicas,
        "selector": { "matchLabels": { "app": name } },
        "template": {
            "metadata": { "labels": { "app": name } },
            "spec": { "containers": [{ "name": "c", "image": image,
                "resources": { "requests": { "cpu": "10m" } },
                "ports": [{ "name": "http", "containerPort": 8080 }] }] },
        },
    } })
}

pub fn image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": image,
        "resources": { "requests": { "cpu": "10m" } },
        "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }] }] } } } })
}

/// Renews the leases of all nodes, without those labelled `test/dead`.
async fn heartbeats(client: Client) -> Result<(), Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let living = ListParams::default().labels("!test/dead");
    let mut beat = tokio::time::interval(std::time::Duration::from_secs(10));
    for count in 0.. {
        beat.tick().await;
        for node in Api::<Node>::all(client.clone()).list(&living).await.unwrap() {
            let name = node.metadata.name.unwrap();
            let renewed = Timestamp::from_second(count * 10).unwrap();
            let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": name },
                "spec": { "renewTime": format!("{renewed:.6}") } });
            leases.patch(&name, &PatchParams::apply("kubelet").force(), &Patch::Apply(lease)).await.unwrap();
        }
    }
    Ok(())
}

/// Runs bound pods and ends deleted ones. Pods with the annotation `test/broken` never become ready. Pods with
/// `test/failed` have failed.
async fn kubelet(ctx: Context, key: Key) -> Result<Action, Error> {
    let client = ctx.client();
    let Some(pod) = client.get::<Pod>(&key).await? else { return Ok(Action::done()) };
    if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
        return Ok(Action::done());
    }
    if pod.metadata.deletion_timestamp.is_some() {
        let options = DeleteOptions::default().grace_period(0);
        client.delete_with::<Pod>(&key, &options).await.ignore_not_found()?;
        return Ok(Action::done());
    }
    if pod.status.as_ref().is_some_and(|status| status.phase.as_deref() != Some("Pending")) {
        return Ok(Action::done());
    }
    let annotations = pod.metadata.annotations.as_ref();
    let has = |name: &str| annotations.is_some_and(|annotations| annotations.contains_key(name));
    if has("test/failed") {
        let status = json!({ "status": { "phase": "Failed" } });
        client.patch_status::<Pod>(&key, &setpoint::Patch::Merge(status)).await.ignore_not_found()?;
        return Ok(Action::done());
    }
    let broken = has("test/broken");
    let number = ctx.random().below(60_000);
    let ip = format!("10.244.{}.{}", number / 250, number % 250 + 1);
    let ready = json!({ "type": "Ready", "status": if broken { "False" } else { "True" },
        "lastTransitionTime": ctx.clock().now_rfc3339() });
    let status = json!({ "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }], "conditions": [ready] } });
    client.patch_status::<Pod>(&key, &setpoint::Patch::Strategic(status)).await.ignore_not_found()?;
    Ok(Action::done())
}
