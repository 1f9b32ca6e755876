//! A cluster in this process with one operator on it.

use std::cell::RefCell;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use setpoint::leader_election::LeaderElection;
use setpoint::manifests::Rights;
use setpoint::metrics::Metrics;
use setpoint::{Manager, ManagerOptions, SetupError};
use setpoint_cluster::{Cluster, Options, changes};
use setpoint_store::KeyRange;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::requests::{Fault, Requests};

/// How much virtual time a state is given to come.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// How much virtual time passes between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

thread_local! {
    /// The errors with which managers ended. Each test has a thread of its own.
    static ENDED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The errors with which managers ended in this test.
pub fn ended() -> Vec<String> {
    ENDED.with_borrow(Clone::clone)
}

/// An operator as the trials see it.
#[derive(Clone, Copy)]
pub struct TestedOperator {
    /// Its name: of its lease, its service account, its role.
    pub name: &'static str,
    /// Registers its controllers.
    pub register: fn(&Manager) -> Result<(), SetupError>,
    /// Everything that it needs in a cluster.
    pub manifests: fn(image: &str) -> Vec<Value>,
}

impl TestedOperator {
    /// The namespace of its service account.
    pub fn namespace(&self) -> String {
        let account = self.manifest("ServiceAccount");
        account["metadata"]["namespace"].as_str().unwrap().to_owned()
    }

    /// The program that its Deployment runs.
    pub fn command(&self) -> Value {
        self.manifest("Deployment")["spec"]["template"]["spec"]["containers"][0]["command"].clone()
    }

    /// The manifest of a kind.
    pub fn manifest(&self, kind: &str) -> Value {
        (self.manifests)("image").into_iter().find(|object| object["kind"] == kind).unwrap()
    }
}

/// A cluster, an operator, and the operator's requests.
pub struct World {
    /// The cluster.
    pub cluster: Cluster,
    /// The operator.
    pub operator: TestedOperator,
    /// The requests of all its replicas together.
    pub requests: Requests,
    /// The numbers of the replica that was started last.
    pub metrics: Metrics,
    /// The rights that its declared watches need.
    pub watched: Rights,
    stop: watch::Sender<bool>,
    replicas: JoinSet<()>,
}

impl World {
    /// A cluster with the operator's definitions, and the operator running on it with every right.
    pub async fn start(operator: TestedOperator) -> World {
        let mut world = World::idle(operator).await;
        world.run(world.cluster.client(), None);
        world
    }

    /// The same without the operator.
    pub async fn idle(operator: TestedOperator) -> World {
        let cluster = Cluster::start(Options { seed: Some(1), ..Options::default() }).await.unwrap();
        let world = World::on(cluster, operator, Fault::None);
        for object in (operator.manifests)("image") {
            if object["kind"] == "CustomResourceDefinition" {
                world.apply(&object).await;
            }
        }
        world
    }

    /// On a cluster that has the definitions already.
    pub fn on(cluster: Cluster, operator: TestedOperator, fault: Fault) -> World {
        let (stop, _) = watch::channel(false);
        let requests = Requests::new(fault);
        World {
            cluster,
            operator,
            requests,
            metrics: Metrics::new(),
            watched: Rights::default(),
            stop,
            replicas: JoinSet::new(),
        }
    }

    /// Starts a replica on a client; with an identity it competes for the lease.
    pub fn run(&mut self, client: Client, identity: Option<&str>) {
        let requests = self.requests.clone();
        self.run_logged(client, identity, &requests);
    }

    /// The same with its requests written down elsewhere.
    pub fn run_logged(&mut self, client: Client, identity: Option<&str>, requests: &Requests) {
        let election = |identity: &str| {
            LeaderElection::new(&self.operator.namespace(), self.operator.name).identity(identity)
        };
        let options = ManagerOptions::with(|options| {
            options.name = self.operator.name.into();
            options.leader_election = identity.map(election);
        });
        let manager = Manager::new(requests.client(client), options);
        self.metrics = manager.metrics().clone();
        (self.operator.register)(&manager).unwrap();
        manager.targets().iter().for_each(|target| self.watched.add_watch(target));
        let mut stop = self.stop.subscribe();
        self.replicas.spawn(async move {
            let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
            // One that lost its lease or its rights ends with an error: the tests look at what it did. Whoever waits in
            // vain is told.
            if let Err(error) = manager.run(stopped).await {
                ENDED.with_borrow_mut(|ended| ended.push(error.to_string()));
            }
        });
    }

    /// Drops every replica wherever it is: no request is finished, no lease given back.
    pub async fn crash(&mut self) {
        self.replicas.shutdown().await;
    }

    /// Lets every replica end in order.
    pub async fn stop(&mut self) {
        self.stop.send_replace(true);
        while self.replicas.join_next().await.is_some() {}
        self.stop.send_replace(false);
    }

    /// Objects of a kind in the namespace `default`, with every right.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::default_namespaced(self.cluster.client())
    }

    /// One object of a kind as JSON.
    pub async fn get<K>(&self, name: &str) -> Option<Value>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
    {
        let found = self.api::<K>().get_opt(name).await.unwrap()?;
        Some(serde_json::to_value(found).unwrap())
    }

    /// Merges a change into an object.
    pub async fn change<K>(&self, name: &str, change: Value)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: DeserializeOwned + Clone + std::fmt::Debug,
    {
        let parameters = PatchParams { field_manager: Some("somebody".into()), ..PatchParams::default() };
        self.api::<K>().patch(name, &parameters, &Patch::Merge(change)).await.unwrap();
    }

    /// Deletes an object.
    pub async fn delete<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: DeserializeOwned + Clone + std::fmt::Debug,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Applies an object of any kind, as `kubectl apply --server-side` does.
    pub async fn apply(&self, object: &Value) -> DynamicObject {
        self.try_apply(object).await.unwrap()
    }

    /// The same where it may be refused.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn try_apply(&self, object: &Value) -> kube::Result<DynamicObject> {
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let api = self.api_of(&object).await;
        let parameters = PatchParams::apply("somebody").force();
        api.patch(&object.name_any(), &parameters, &Patch::Apply(&object)).await
    }

    /// The uid of a namespace.
    pub async fn namespace_uid(&self, namespace: &str) -> String {
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.cluster.client());
        namespaces.get(namespace).await.unwrap().metadata.uid.unwrap()
    }

    /// The events with this reason in the namespace `default`.
    pub async fn events(&self, reason: &str) -> Vec<k8s_openapi::api::events::v1::Event> {
        let all =
            self.api::<k8s_openapi::api::events::v1::Event>().list(&ListParams::default()).await.unwrap();
        all.items.into_iter().filter(|event| event.reason.as_deref() == Some(reason)).collect()
    }

    /// The values that a field of one object went through: `key` is the end of its key in the store.
    pub fn history(&self, key: &str, field: &str) -> Vec<Value> {
        let changes = changes(self.cluster.store(), KeyRange::all());
        let of_object = changes.iter().filter(|change| change.key.ends_with(key));
        let mut values: Vec<Value> =
            of_object.filter_map(|change| change.object.pointer(field).cloned()).collect();
        values.dedup();
        values
    }

    /// The sum of a counter or gauge over all its labels.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.encode();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let of_name = lines.filter(|line| line.split(['{', ' ']).next() == Some(name));
        of_name.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

/// Waits for a state, in virtual time.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(DEADLINE, waiting).await {
        Ok(found) => found,
        Err(_) => match ended().as_slice() {
            [] => panic!("not within {DEADLINE:?}: {what}"),
            ended => panic!("not within {DEADLINE:?}: {what}; the manager ended: {}", ended.join("; ")),
        },
    }
}
