//! Adding nodes to a manager: they register, send heartbeats, and run the pods bound to them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service,
};
use kube::ResourceExt;
use serde_json::{Value, json};
use setpoint::informer::SharedInformer;
use setpoint::recorder::EventApi;
use setpoint::{
    Client, ClientError, Controller, Error, Key, Manager, Patch, Predicate, Recorder, SetupError, Watch,
};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::events;
use crate::node;
use crate::node_name;
use crate::options::NodeOptions;
use crate::pods::Pods;
use crate::process::lasting;
use crate::process::pods::{ProcessPods, WAKES};
use crate::serving::Serving;

/// Pods that are worked on at a time, over all nodes of the process.
const CONCURRENCY: usize = 16;

/// Adds the nodes to the manager; they run with it, whether or not it leads.
///
/// # Errors
/// When the manager has stopped, or has nodes already.
pub fn register(manager: &Manager, options: NodeOptions) -> Result<Pods, SetupError> {
    add(manager, options, &[])
}

/// The same, and the kubelet's paths of each node are served at an address of this host.
///
/// # Errors
/// When the manager has stopped, or has nodes already.
pub fn register_serving(
    manager: &Manager,
    options: NodeOptions,
    serving: Serving,
) -> Result<Pods, SetupError> {
    let ports = serving.ports();
    let pods = add(manager, options, &ports)?;
    let (served, clock) = (pods.clone(), manager.clock().clone());
    manager.add_always("kubelet", move |stop| serving.run(served, clock, stop))?;
    Ok(pods)
}

fn add(manager: &Manager, options: NodeOptions, ports: &[u16]) -> Result<Pods, SetupError> {
    let options = Arc::new(options);
    let (wake, woken) = mpsc::channel(WAKES);
    let processes = process_pods(manager, &options, wake);
    let pods =
        Pods::new(options.clone(), manager.clock().clone(), processes.clone(), manager.informer::<Pod>());
    let heartbeat = Heartbeat {
        client: manager.client_without_lease("kubelet"),
        options: options.clone(),
        ports: ports.to_vec(),
        seen: manager.informer::<Node>(),
        manager: manager.clone(),
    };
    manager.add_always("nodes", |stop| heartbeat.beat(stop))?;
    let nodes = options.clone();
    let ours = Predicate::new(move |change| {
        change.objects().any(|pod| {
            let node = pod.path("spec.nodeName");
            node.is_some_and(|name| nodes.index(&name).is_some())
        })
    });
    let mut controller = Controller::for_kind::<Pod>(manager)
        .with_predicate(ours)
        .named("kubelet")
        .events("kubelet", EventApi::CoreV1)
        .without_leader_election()
        .concurrency(CONCURRENCY)
        .channel("container", woken);
    if let Some(processes) = processes {
        let stopping = processes.clone();
        manager.add_always("containers", |stop| async move {
            stopping.stop_with(stop).await;
            Ok(())
        })?;
        if let Some(folder) = &options.folder {
            lasting::register(manager, folder)?;
        }
        // A change of an object that a pod's files come from updates the files.
        let (configs, secrets, claims) = (processes.clone(), processes.clone(), processes.clone());
        controller = controller
            .reads::<Service>()
            .watches(Watch::of::<PersistentVolumeClaim>().map(move |claim| {
                let name = claim.name().to_owned();
                claims.readers(claim.namespace().unwrap_or_default(), |names| names.claims.contains(&name))
            }))
            .watches(Watch::of::<PersistentVolume>().map(move |volume| {
                let claim = |field: &str| volume.path(&format!("spec.claimRef.{field}"));
                let (Some(namespace), Some(name)) = (claim("namespace"), claim("name")) else {
                    return Vec::new();
                };
                processes.readers(&namespace, |names| names.claims.contains(&*name))
            }))
            .watches(Watch::of::<ConfigMap>().map(move |config| {
                let name = config.name().to_owned();
                configs.readers(config.namespace().unwrap_or_default(), |names| {
                    names.config_maps.contains(&name)
                })
            }))
            .watches(Watch::of::<Secret>().map(move |secret| {
                let name = secret.name().to_owned();
                secrets.readers(secret.namespace().unwrap_or_default(), |names| names.secrets.contains(&name))
            }));
    }
    controller.register(pods.clone())?;
    Ok(pods)
}

/// The process pods, where the options name images, a helper and a folder for them.
fn process_pods(manager: &Manager, options: &NodeOptions, wake: mpsc::Sender<Key>) -> Option<ProcessPods> {
    let folder = options.folder.clone()?;
    // Whatever a node that was killed left behind: its processes died with it, and its pods start afresh.
    let _ = std::fs::remove_dir_all(folder.join("pods"));
    if options.images.images.is_empty() {
        return None;
    }
    let helper = options.helper.clone()?;
    let recorder = events::recorder(manager);
    Some(ProcessPods::new((folder, helper), manager.clock().clone(), recorder, wake))
}

/// The taint of a node that has not reported yet.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Interval at which a node reports its status without a change.
const REPORT: Duration = Duration::from_secs(300);
/// Number of attempts to change a Node that other writers change too, as in a kubelet.
const UPDATE_TRIES: u32 = 5;
/// After how long a node that could not register tries again at first, and at most; a kubelet's figures.
const REGISTER_FIRST: Duration = Duration::from_millis(100);
const REGISTER_MOST: Duration = Duration::from_secs(7);

/// Returns the pause after registration was refused `refused` times.
fn register_again(refused: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(refused.saturating_sub(1));
    REGISTER_FIRST.saturating_mul(doubled).min(REGISTER_MOST)
}

struct Heartbeat {
    client: Client,
    options: Arc<NodeOptions>,
    /// Port on which each node serves the kubelet's paths. Empty if none does.
    ports: Vec<u16>,
    /// The Nodes as the cache has them.
    seen: SharedInformer,
    manager: Manager,
}

/// A node that is registered.
struct Registered {
    reported: Instant,
    /// It has had a lease.
    leased: bool,
}

fn is_complete(registered: &Option<Registered>) -> bool {
    registered.as_ref().is_some_and(|registered| registered.leased)
}

impl Heartbeat {
    /// Registers every node, then renews their leases until `stop` is cancelled.
    async fn beat(self, stop: CancellationToken) -> Result<(), Error> {
        let mut nodes: Vec<Option<Registered>> = self.options.indices().map(|_| None).collect();
        let mut beat = tokio::time::interval(self.options.heartbeat);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut refused = 0;
        loop {
            let every = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                _ = beat.tick() => true,
                () = tokio::time::sleep(register_again(refused)), if refused > 0 => false,
            };
            for (index, registered) in self.options.indices().zip(&mut nodes) {
                if !every && is_complete(registered) {
                    continue;
                }
                // One node's failure is not the others'.
                if let Err(error) = self.one(index, registered).await {
                    tracing::warn!(node = node_name::name(index), %error, "could not report the node's status or lease; retrying");
                }
            }
            refused = if nodes.iter().all(is_complete) { 0 } else { refused + 1 };
        }
    }

    async fn one(&self, index: u32, registered: &mut Option<Registered>) -> Result<(), ClientError> {
        let uid = match registered {
            None => {
                let uid = self.register(index).await?;
                let reported = Instant::now();
                *registered = Some(Registered { reported, leased: false });
                uid
            }
            Some(registered) => match self.report_again(index, registered).await? {
                Some(uid) => uid,
                // A lease of a Node that is gone would go too.
                None => return Ok(()),
            },
        };
        let lease = node::lease(index, &uid, self.manager.clock().now());
        self.renew(index, lease).await?;
        if let Some(registered) = registered {
            registered.leased = true;
        }
        Ok(())
    }

    /// Makes the Node exist with a ready status; its uid.
    async fn register(&self, index: u32) -> Result<String, ClientError> {
        let wanted: Node = decode(node::node(index));
        let node = match self.client.create(&wanted).await {
            Err(error) if error.is_already_exists() => {
                self.client.live().get::<Node>(node_name::name(index).as_str()).await?
            }
            created => Some(created?),
        };
        let node = self.report(index, node.as_ref()).await?;
        self.recorder(index).normal(&node, "Starting", "Starting kubelet.");
        Ok(node.uid().unwrap_or_default())
    }

    /// Reports the status from time to time. Reports at once if the Node does not say that it is ready: a controller
    /// marked it because it was silent for too long. As in a kubelet, a deleted Node stays deleted until the process
    /// starts again. Returns the uid of the Node, which may have been created anew.
    async fn report_again(
        &self,
        index: u32,
        registered: &mut Registered,
    ) -> Result<Option<String>, ClientError> {
        let name = node_name::name(index);
        let Ok(Some(node)) = self.seen.lister::<Node>().get(None, &name) else { return Ok(None) };
        let (uid, was_ready) = (node.uid(), node::is_ready(&node));
        if was_ready && registered.reported.elapsed() < REPORT {
            return Ok(uid);
        }
        let node = self.report(index, Some(&node)).await?;
        registered.reported = Instant::now();
        if !was_ready {
            let message = format!("Node {name} status is now: NodeReady");
            self.recorder(index).normal(&node, "NodeReady", message);
        }
        Ok(uid)
    }

    fn recorder(&self, index: u32) -> Recorder {
        events::recorder(&self.manager).with_host(&node_name::name(index))
    }

    async fn report(&self, index: u32, before: Option<&Node>) -> Result<Node, ClientError> {
        let name = node_name::name(index);
        let port = self.ports.get((index - self.options.first) as usize).copied();
        let status = node::status(index, &self.options, port, before, self.manager.clock().now());
        // Conditions of others stay.
        let patch = Patch::Strategic(json!({"status": status}));
        let node = self.client.patch_status::<Node>(name.as_str(), &patch).await?;
        self.remove_taint(&node).await?;
        Ok(node)
    }

    /// Admission taints every new node as not ready. Where no node-lifecycle controller runs, the node itself has to
    /// say that it is.
    async fn remove_taint(&self, node: &Node) -> Result<(), ClientError> {
        let name = node.name_any();
        let mut newest = Cow::Borrowed(node);
        for tries in 1.. {
            let taints = newest.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            let others: Vec<_> = taints.iter().filter(|taint| taint.key != NOT_READY).collect();
            if others.len() == taints.len() {
                return Ok(());
            }
            let patch = Patch::Merge(json!({"spec": {"taints": others}}));
            let patch = patch.locked(&newest.resource_version().unwrap_or_default());
            match self.client.patch::<Node>(name.as_str(), &patch).await {
                // A node-lifecycle controller may be removing it at this very moment.
                Err(error) if error.is_conflict() && tries < UPDATE_TRIES => {
                    let Some(node) = self.client.live().get::<Node>(name.as_str()).await? else {
                        return Ok(());
                    };
                    newest = Cow::Owned(node);
                }
                result => return result.map(drop),
            }
        }
        unreachable!("the last try returns")
    }

    async fn renew(&self, index: u32, lease: Value) -> Result<(), ClientError> {
        let name = node_name::name(index);
        let renewal = Patch::Merge(json!({"spec": lease["spec"]}));
        match self.client.patch::<Lease>((node::LEASE_NAMESPACE, name.as_str()), &renewal).await {
            Err(error) if error.is_not_found() => self.client.create::<Lease>(&decode(lease)).await.map(drop),
            result => result.map(drop),
        }
    }
}

/// Our own JSON as a typed object.
fn decode<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("what this crate writes is of the type that it says")
}
