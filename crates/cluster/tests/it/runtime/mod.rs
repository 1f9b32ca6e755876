//! The runtime on a server that is no fake: a cluster in this process, or the one that the kubeconfig named by
//! `SETPOINT_TEST_KUBECONFIG` leads to. `cargo xtask e2e runtime` runs these against `setpoint up` and against the
//! real kube-apiserver. Time is real, every wait is for a stated condition.

mod applies;
mod children;
mod custom;
mod elections;
mod informers;
mod recorded;
mod writes;

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use setpoint::informer::Namespaces;
use setpoint::{Manager, ManagerOptions};
use setpoint_cluster::{Cluster, Controllers, NodeOptions, Options};
use tokio::time::Instant;

/// Time limit of a condition: servers in continuous integration are slow.
const DEADLINE: Duration = Duration::from_secs(60);

/// A server, and a namespace of one's own on it.
pub struct Place {
    pub client: Client,
    pub namespace: String,
    _cluster: Option<Cluster>,
}

// The one place where a test asks which server it is to run against.
#[allow(clippy::disallowed_methods)]
fn named_kubeconfig() -> Option<String> {
    std::env::var("SETPOINT_TEST_KUBECONFIG").ok()
}

impl Place {
    pub async fn new() -> Place {
        let (client, cluster) = match named_kubeconfig() {
            Some(path) => (connect(&path).await, None),
            None => {
                let nodes = NodeOptions { count: 0, ..NodeOptions::default() };
                let options = Options { controllers: Controllers::None, nodes, ..Options::default() };
                let cluster = Cluster::start(options).await.unwrap();
                (cluster.client(), Some(cluster))
            }
        };
        let namespace = make_namespace(&client, json!({})).await;
        Place { client, namespace, _cluster: cluster }
    }

    /// A manager that covers this namespace.
    pub fn manager(&self) -> Manager {
        self.manager_with(ManagerOptions::default())
    }

    pub fn manager_with(&self, mut options: ManagerOptions) -> Manager {
        options.namespaces = Namespaces::Named([self.namespace.clone()].into());
        Manager::new(self.client.clone(), options)
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn config_map(&self, name: &str, value: &str) -> ConfigMap {
        let json = json!({"metadata": {"name": name, "namespace": self.namespace}, "data": {"key": value}});
        serde_json::from_value(json).unwrap()
    }

    /// Creates a ConfigMap past the runtime, as another client would.
    pub async fn put(&self, name: &str, value: &str) -> ConfigMap {
        let object = self.config_map(name, value);
        self.api::<ConfigMap>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub fn key(&self, name: &str) -> setpoint::Key {
        setpoint::Key::new(Some(&self.namespace), name)
    }
}

async fn connect(path: &str) -> Client {
    let file = kube::config::Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
    setpoint::client::connect_with(config).unwrap()
}

/// A new namespace with these labels; the server chooses the name.
pub async fn make_namespace(client: &Client, labels: Value) -> String {
    let metadata = ObjectMeta {
        generate_name: Some("runtime-".into()),
        labels: serde_json::from_value(labels).unwrap(),
        ..ObjectMeta::default()
    };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let object = Namespace { metadata, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &object).await.unwrap().metadata.name.unwrap()
}

/// Runs a manager beside a test until the test's future ends.
pub async fn beside<T>(manager: &Manager, test: impl Future<Output = T>) -> T {
    let stop = tokio_util::sync::CancellationToken::new();
    let running = manager.run(stop.clone().cancelled_owned());
    tokio::pin!(running);
    let result = tokio::select! {
        biased;
        ended = &mut running => panic!("the manager ended early: {ended:?}"),
        result = test => result,
    };
    stop.cancel();
    running.await.expect("the manager stops cleanly");
    result
}

/// Waits until `condition` gives something.
pub async fn until<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The same for a plain condition.
pub async fn until_true(what: &str, condition: impl Fn() -> bool) {
    until(what, async || condition().then_some(())).await;
}
