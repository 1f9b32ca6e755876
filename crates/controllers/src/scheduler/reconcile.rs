//! The thin part: keep the ledger, choose, bind, tell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Binding, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod, PodCondition, PodSpec,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use setpoint::predicate::Change;
use setpoint::recorder::EventApi;
use setpoint::recorder::EventType;
use setpoint::{
    Action, ClientError, Context, Controller, Error, Key, Manager, Object, Patch, Reconciler, SetupError,
    Watch,
};

use setpoint::recorder::reference;

use super::volumes::{self, PodVolumes, Step};
use super::{Ledger, PodInfo, Unschedulable};
use crate::object::pod::{condition, is_active, node_name};
use crate::object::time::whole_seconds;
use crate::volume::claimed;

/// Number of bindings in flight.
const CONCURRENCY: usize = 16;
/// The scheduler that pods name unless they say otherwise.
const NAME: &str = "default-scheduler";

/// Registers the scheduler.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let state = State::default();
    let (of_pods, of_nodes, of_claims) = (state.clone(), state.clone(), state.clone());
    let (of_volumes, of_classes) = (state.clone(), state.clone());
    Controller::new(manager, NAME)
        .watches(Watch::of::<Pod>().map_changes(move |change| of_pods.pod_changed(change)))
        .watches(Watch::of::<Node>().map_changes(move |change| of_nodes.node_changed(change)))
        .watches(
            Watch::of::<PersistentVolumeClaim>().map_changes(move |change| of_claims.claim_changed(change)),
        )
        .watches(Watch::of::<PersistentVolume>().map_changes(move |change| of_volumes.volume_changed(change)))
        .watches(Watch::of::<StorageClass>().map_changes(move |_| of_classes.classes_changed()))
        .events(NAME, EventApi::EventsV1)
        .field_owner("kube-scheduler")
        .concurrency(CONCURRENCY)
        .register(Scheduler { state })?;
    Ok(())
}

/// State shared by all placements. One lock protects both parts, so that no change falls between a refusal and its
/// record.
#[derive(Clone, Default)]
struct State(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    ledger: Ledger,
    /// Pods that no node could take. Any change that frees or adds room queues them again.
    waiting: BTreeSet<Key>,
    /// Waiting pods with claims.
    claiming: BTreeMap<Key, Claiming>,
    /// Pods with a chosen node whose volumes are being bound. The ledger holds their room.
    reserved: BTreeSet<Key>,
}

/// A pod with claims that has no node yet.
struct Claiming {
    /// Names of the claims. Any change of a claim queues the pod again.
    claims: BTreeSet<String>,
    /// Whether a volume or class that comes may help it. It is so while the pod is looked at, whatever comes of that.
    open: bool,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().expect("no holder of this lock panics")
    }

    fn pod_changed(&self, change: &Change<'_>) -> Vec<Key> {
        let mut shared = self.lock();
        let replaced = change.update().is_some_and(|(old, new)| old.uid() != new.uid());
        let mut freed = false;
        if let Some(old) = change.old.filter(|_| replaced || change.new.is_none()) {
            freed = shared.forget(old);
        }
        let Some(new) = change.new else { return shared.retry_if(freed) };
        let phase = new.path("status.phase");
        if matches!(phase.as_deref(), Some("Succeeded" | "Failed")) {
            freed |= shared.forget(new);
            return shared.retry_if(freed);
        }
        if new.path("spec.nodeName").is_some_and(|node| !node.is_empty()) {
            shared.stop_waiting(new.key());
            if !shared.ledger.holds(new.key())
                && let Ok(pod) = new.decode::<Pod>()
            {
                shared.ledger.pod(&pod);
            }
            return shared.retry_if(freed);
        }
        let mut requests = shared.retry_if(freed);
        let ours = new.path("spec.schedulerName").is_none_or(|name| name == NAME);
        if ours && !new.is_terminating() && !shared.said_nothing_new(change) {
            requests.push(new.key().clone());
        }
        requests
    }

    fn node_changed(&self, change: &Change<'_>) -> Vec<Key> {
        let mut shared = self.lock();
        let Some(new) = change.new else {
            if let Some(old) = change.old {
                shared.ledger.node_gone(old.name());
            }
            return shared.reserved.iter().cloned().collect();
        };
        let Ok(node) = new.decode::<Node>() else { return Vec::new() };
        let changed = shared.ledger.node(&node);
        shared.retry_if(changed)
    }

    /// Pods that wait with this claim.
    fn claim_changed(&self, change: &Change<'_>) -> Vec<Key> {
        let claim = change.object().map(|claim| claim.key().clone());
        self.lock().with_claims(&claim.into_iter().collect::<Vec<_>>())
    }

    /// Returns the pods that wait with the claim of the volume, and those that were refused if the volume is free.
    fn volume_changed(&self, change: &Change<'_>) -> Vec<Key> {
        let claims: Vec<Key> = change.old.into_iter().chain(change.new).filter_map(claimed).collect();
        let shared = self.lock();
        let mut requests = shared.with_claims(&claims);
        if change.new.is_some_and(|new| claimed(new).is_none()) {
            requests.extend(shared.open_with_claims());
        }
        requests
    }

    fn classes_changed(&self) -> Vec<Key> {
        self.lock().open_with_claims()
    }
}

impl Shared {
    fn forget(&mut self, pod: &Object) -> bool {
        self.stop_waiting(pod.key());
        self.ledger.pod_gone(pod.namespace().unwrap_or_default(), pod.name())
    }

    /// Removes the pod from the waiting pods.
    fn stop_waiting(&mut self, pod: &Key) {
        self.waiting.remove(pod);
        self.claiming.remove(pod);
        self.reserved.remove(pod);
    }

    /// Frees the room of a pod whose volumes are not bound yet.
    fn unreserve(&mut self, pod: &Key) {
        if self.reserved.remove(pod) {
            self.ledger.pod_gone(pod.namespace().unwrap_or_default(), pod.name());
        }
    }

    fn with_claims(&self, claims: &[Key]) -> Vec<Key> {
        let has = |pod: &Key, with: &Claiming| {
            claims
                .iter()
                .any(|claim| claim.namespace() == pod.namespace() && with.claims.contains(claim.name()))
        };
        let pods = self.claiming.iter().filter(|(pod, with)| has(pod, with));
        pods.map(|(pod, _)| pod.clone()).collect()
    }

    fn open_with_claims(&self) -> Vec<Key> {
        let pods = self.claiming.iter().filter(|(_, with)| with.open);
        pods.map(|(pod, _)| pod.clone()).collect()
    }

    fn retry_if(&self, something: bool) -> Vec<Key> {
        if !something {
            return Vec::new();
        }
        self.waiting.iter().cloned().collect()
    }

    /// Our own words about a waiting pod are no reason to try it again.
    fn said_nothing_new(&self, change: &Change<'_>) -> bool {
        let same = |(old, new): (&Object, &Object)| {
            old.uid() == new.uid() && old.generation() == new.generation() && old.labels() == new.labels()
        };
        change.update().is_some_and(same) && change.new.is_some_and(|new| self.waiting.contains(new.key()))
    }
}

struct Scheduler {
    state: State,
}

impl Reconciler for Scheduler {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let pod = client.get::<Pod>(&key).await?;
        let Some(pod) = pod.filter(|pod| is_schedulable(pod)) else {
            let mut shared = self.state.lock();
            shared.unreserve(&key);
            shared.stop_waiting(&key);
            return Ok(Action::done());
        };
        let Some(spec) = &pod.spec else { return Ok(Action::done()) };
        let volumes = self.volumes(ctx, &key, &pod).await?;
        match self.choose(&key, spec, &volumes) {
            None => Ok(Action::done()),
            Some(Ok(chosen)) if chosen.steps.is_empty() => self.bind(ctx, &key, &pod, &chosen.node).await,
            Some(Ok(chosen)) => self.reserve(ctx, &key, &chosen).await,
            Some(Err(why)) => refuse(ctx, &key, &pod, why).await,
        }
    }
}

/// A node for a pod, and the bindings that must precede the pod's.
struct Chosen<'a> {
    node: String,
    steps: Vec<Step<'a>>,
}

/// Unbound, alive, and not held back by a gate.
fn is_schedulable(pod: &Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    is_active(pod) && node_name(pod).is_empty() && gates.is_none_or(Vec::is_empty)
}

impl Scheduler {
    /// The volumes behind the pod's claims, or why no node can take it as these are.
    async fn volumes(
        &self,
        ctx: &Context,
        key: &Key,
        pod: &Pod,
    ) -> Result<Result<PodVolumes, String>, Error> {
        let claims = volumes::claims_of(pod);
        if claims.is_empty() {
            return Ok(Ok(PodVolumes::default()));
        }
        // Noted before they are read: a change that comes later queues the pod again.
        self.state.lock().claiming.insert(key.clone(), Claiming { claims, open: true });
        Ok(volumes::read(ctx.client(), pod).await?)
    }

    /// Chooses a node and accounts for the pod at once, so that the next pod sees the room taken. Returns `None` if
    /// the pod is placed already and only the cache is late. A pod whose volumes are being bound is placed again: its
    /// written bindings lead to the same node, unless that node can no longer take it.
    fn choose<'a>(
        &self,
        key: &Key,
        spec: &PodSpec,
        volumes: &'a Result<PodVolumes, String>,
    ) -> Option<Result<Chosen<'a>, Unschedulable>> {
        let mut shared = self.state.lock();
        shared.unreserve(key);
        if shared.ledger.holds(key) {
            return None;
        }
        let mut pod_info = PodInfo::of(spec);
        let chosen = volumes.as_ref().map_err(|why| shared.ledger.refuse(why)).and_then(|volumes| {
            pod_info.volumes = Some(volumes);
            let info = shared.ledger.choose(&pod_info)?;
            let steps = volumes.steps(&info.name, &info.labels).unwrap_or_default();
            Ok(Chosen { node: info.name.clone(), steps })
        });
        match &chosen {
            Err(_) => drop(shared.waiting.insert(key.clone())),
            Ok(chosen) => {
                let pod = (key.namespace().unwrap_or_default().to_owned(), key.name().to_owned());
                shared.ledger.place(pod, &chosen.node, &pod_info);
                shared.waiting.remove(key);
                if chosen.steps.is_empty() {
                    shared.claiming.remove(key);
                } else {
                    shared.claiming.entry(key.clone()).and_modify(|with| with.open = false);
                    shared.reserved.insert(key.clone());
                }
            }
        }
        Some(chosen)
    }

    /// Has the pod's volumes bound for its node. The pod is queued again when they change.
    async fn reserve(&self, ctx: &Context, key: &Key, chosen: &Chosen<'_>) -> Result<Action, Error> {
        for step in &chosen.steps {
            if let Err(error) = write(ctx, step, &chosen.node).await {
                self.state.lock().unreserve(key);
                return Err(error.into());
            }
        }
        Ok(Action::done())
    }

    async fn bind(&self, ctx: &Context, key: &Key, pod: &Pod, node: &str) -> Result<Action, Error> {
        let binding = Binding {
            metadata: ObjectMeta {
                name: pod.metadata.name.clone(),
                namespace: pod.metadata.namespace.clone(),
                uid: pod.metadata.uid.clone(),
                ..Default::default()
            },
            target: ObjectReference {
                kind: Some("Node".into()),
                name: Some(node.into()),
                ..Default::default()
            },
        };
        match ctx.client().create_subresource::<Pod, Value>(key, "binding", &binding).await {
            Ok(_) => {
                let message = format!("Successfully assigned {key} to {node}");
                publish(ctx, EventType::Normal, pod, "Scheduled", "Binding", message);
                Ok(Action::done())
            }
            Err(error) => {
                self.state.lock().ledger.pod_gone(key.namespace().unwrap_or_default(), key.name());
                // The pod is gone, or another writer bound it. The cache will show it.
                if error.is_not_found() || error.is_conflict() {
                    Ok(Action::done())
                } else {
                    Err(error.into())
                }
            }
        }
    }
}

/// Writes to the volume or claim as it was seen: who chose it for another pod meanwhile came first.
async fn write(ctx: &Context, step: &Step<'_>, node: &str) -> Result<(), ClientError> {
    let Some(patch) = step.patch(node) else { return Ok(()) };
    let locked =
        |meta: &ObjectMeta| Patch::Merge(patch).locked(meta.resource_version.as_deref().unwrap_or_default());
    match step {
        Step::Bind(volume, _) => {
            let key = Key::new(None, volume.metadata.name.as_deref().unwrap_or_default());
            ctx.client().patch::<PersistentVolume>(key, &locked(&volume.metadata)).await.map(drop)
        }
        Step::Provision(claim) => {
            let meta = &claim.metadata;
            let key = Key::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
            ctx.client().patch::<PersistentVolumeClaim>(key, &locked(meta)).await.map(drop)
        }
    }
}

/// Reports the refusal: in an event each time, which become a series, and in a condition once per reason.
async fn refuse(ctx: &Context, key: &Key, pod: &Pod, why: Unschedulable) -> Result<Action, Error> {
    publish(ctx, EventType::Warning, pod, "FailedScheduling", "Scheduling", why.message.clone());
    let said = condition(pod, "PodScheduled");
    let repeated = said.is_some_and(|said| {
        said.status == "False"
            && said.reason.as_deref() == Some("Unschedulable")
            && said.message.as_deref() == Some(&why.message)
    });
    if repeated {
        return Ok(Action::done());
    }
    let patch = json!({
        "metadata": { "uid": pod.metadata.uid },
        "status": { "conditions": [unschedulable(said, &why, pod.metadata.generation, ctx.now())] },
    });
    match ctx.client().patch_status::<Pod>(key, &Patch::Strategic(patch)).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

fn unschedulable(
    said: Option<&PodCondition>,
    why: &Unschedulable,
    generation: Option<i64>,
    now: Timestamp,
) -> PodCondition {
    let since = said.filter(|said| said.status == "False").and_then(|said| said.last_transition_time.clone());
    PodCondition {
        type_: "PodScheduled".into(),
        status: "False".into(),
        reason: Some("Unschedulable".into()),
        message: Some(why.message.clone()),
        observed_generation: generation,
        last_transition_time: Some(since.unwrap_or_else(|| whole_seconds(now))),
        last_probe_time: None,
    }
}

fn publish(ctx: &Context, kind: EventType, pod: &Pod, reason: &str, action: &str, message: String) {
    ctx.recorder().publish(kind, reference(pod), None, reason, action, message);
}
