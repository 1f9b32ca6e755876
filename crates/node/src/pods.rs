//! The pods of this process's nodes. Each reconcile updates one pod's status to the present time.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use setpoint::clock::Clock;
use setpoint::informer::SharedInformer;
use setpoint::{Action, Context, DeleteOptions, Error, Key, Reconciler};

use crate::address::{PodAddresses, PodPorts};
use crate::annotation::Script;
use crate::events::{PodEvents, backing_off};
use crate::node_name;
use crate::options::NodeOptions;
use crate::process::pods::ProcessPods;
use crate::process::reconcile::{PodReconcile, is_process};
use crate::simulated::{self, Plan};
use crate::status::Addresses;

/// The pods of this process's nodes. Clones share them.
#[derive(Clone)]
pub struct Pods(Arc<Inner>);

struct Inner {
    options: Arc<NodeOptions>,
    clock: Clock,
    addresses: Mutex<AddressBook>,
    processes: Option<ProcessPods>,
    /// Names and states of simulated pods' containers, for `kubectl logs`.
    seen: SharedInformer,
}

/// The addresses of the pods.
#[derive(Default)]
struct AddressBook {
    nodes: BTreeMap<u32, PodAddresses>,
    pods: BTreeMap<Key, Given>,
}

struct Given {
    uid: String,
    node: u32,
    address: Ipv4Addr,
}

impl AddressBook {
    /// Returns the address of a pod: its present one, the one in its status, or a free one.
    fn of(&mut self, key: &Key, uid: &str, node: u32, stored: Option<Ipv4Addr>) -> Option<Ipv4Addr> {
        if let Some(given) = self.pods.get(key) {
            if given.uid == uid {
                return Some(given.address);
            }
            self.forget(key);
        }
        let free = self.nodes.entry(node).or_insert_with(|| PodAddresses::new(node));
        let address = stored.filter(|address| free.claim(*address)).or_else(|| free.take())?;
        self.pods.insert(key.clone(), Given { uid: uid.to_owned(), node, address });
        Some(address)
    }

    fn forget(&mut self, key: &Key) {
        if let Some(given) = self.pods.remove(key)
            && let Some(node) = self.nodes.get_mut(&given.node)
        {
            node.free(given.address);
        }
    }
}

impl Pods {
    pub(crate) fn new(
        options: Arc<NodeOptions>,
        clock: Clock,
        processes: Option<ProcessPods>,
        seen: SharedInformer,
    ) -> Self {
        Pods(Arc::new(Inner { options, clock, addresses: Mutex::default(), processes, seen }))
    }

    pub(crate) fn options(&self) -> &NodeOptions {
        &self.0.options
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Returns the real addresses of a pod's ports, or `None` if it does not run here as processes.
    pub fn ports(&self, namespace: &str, name: &str) -> Option<PodPorts> {
        self.processes()?.ports(&Key::new(Some(namespace), name))
    }

    pub(crate) fn processes(&self) -> Option<&ProcessPods> {
        self.0.processes.as_ref()
    }

    /// Returns a pod of any of the nodes from the cache.
    pub(crate) fn pod(&self, key: &Key) -> Option<Arc<Pod>> {
        self.0.seen.lister::<Pod>().get_key(key.as_str()).ok()?
    }

    /// Returns the number of the node that a pod is bound to, if it is one of these.
    pub(crate) fn node_of(&self, pod: &Pod) -> Option<u32> {
        self.0.options.index(pod.spec.as_ref()?.node_name.as_deref()?)
    }

    /// Returns the pods of one node from the cache.
    pub(crate) fn of_node(&self, node: u32) -> Vec<Arc<Pod>> {
        let all = self.0.seen.lister::<Pod>().list().unwrap_or_default();
        all.into_iter().filter(|pod| self.node_of(pod) == Some(node)).collect()
    }

    fn addresses(&self, key: &Key, pod: &Pod, node: u32) -> Option<Addresses> {
        let host = self.0.options.address.to_string();
        let spec = pod.spec.as_ref()?;
        if spec.host_network == Some(true) {
            return Some(Addresses { pod: host.clone(), host });
        }
        let stored = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()?.parse().ok());
        let mut book = self.0.addresses.lock().expect("no holder of this lock panics");
        let address = book.of(key, &pod.uid().unwrap_or_default(), node, stored)?;
        Some(Addresses { host, pod: address.to_string() })
    }

    fn forget(&self, key: &Key) {
        if let Some(processes) = &self.0.processes {
            processes.forget(key);
        }
        self.0.addresses.lock().expect("no holder of this lock panics").forget(key);
    }

    async fn carry_out(&self, ctx: &Context, pod: &Pod, plan: Plan, now: Timestamp) -> Result<Action, Error> {
        if plan.remove {
            let options = DeleteOptions::background().uid(pod.uid().unwrap_or_default()).grace_period(0);
            ctx.client().delete_with::<Pod>(key_of(pod), &options).await?;
            return Ok(Action::done());
        }
        let mut again_at = plan.again_at;
        match plan.status {
            Some(status) => {
                let changed = Pod { status: Some(status), ..pod.clone() };
                ctx.client().update_status(&changed).await?;
            }
            // Written at each reconcile that finds the back-off, as a kubelet writes it at each sync.
            None if pod.status.iter().any(|status| backing_off(status).next().is_some()) => {
                PodEvents::of(ctx.recorder(), pod).back_off();
                again_at = again_at.map(|at| at.min(now + BACK_OFF_LOOK));
            }
            None => {}
        }
        Ok(match again_at {
            Some(at) => Action::requeue_after(until(at, now)),
            None => Action::done(),
        })
    }
}

/// Interval at which a node looks at a container in back-off.
const BACK_OFF_LOOK: SignedDuration = SignedDuration::from_secs(60);

fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default().max(Duration::from_millis(1))
}

fn key_of(pod: &Pod) -> Key {
    Key::new(pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref().unwrap_or_default())
}

impl Reconciler for Pods {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let pod = ctx.client().get::<Pod>(&key).await?;
        let place = pod.as_ref().and_then(|pod| self.node_of(pod));
        let (Some(pod), Some(node)) = (pod, place) else {
            self.forget(&key);
            return Ok(Action::done());
        };
        let now = self.0.clock.now();
        let script = match Script::read(pod.annotations(), self.0.options.script) {
            Ok(script) => script,
            Err(error) => {
                PodEvents::of(ctx.recorder(), &pod).warning("Failed", error.to_string());
                self.0.options.script
            }
        };
        let Some(addresses) = self.addresses(&key, &pod, node) else {
            return Err(Error::msg(format!("node {} has no address left", node_name::name(node))));
        };
        let plan = match &self.0.processes {
            // A pod that had a program stays a process pod when its image changes: that program must end.
            Some(processes) if is_process(&pod, &self.0.options.images) || processes.knows(&key) => {
                let options = &self.0.options;
                let reconcile = PodReconcile { pods: processes, options, addresses: &addresses, script, now };
                reconcile.run(ctx, &key, &pod).await?
            }
            _ => {
                let plan = simulated::plan(&pod, &script, &addresses, now);
                for name in &plan.redefined {
                    PodEvents::of(ctx.recorder(), &pod).redefined(name);
                }
                plan
            }
        };
        if plan.expired {
            PodEvents::of(ctx.recorder(), &pod).expired();
        }
        self.carry_out(ctx, &pod, plan, now).await
    }
}
