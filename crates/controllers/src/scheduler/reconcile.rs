//! The thin part: keep the ledger, choose, bind, tell.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use setpoint::predicate::Change;
use setpoint::recorder::EventApi;
use setpoint::{
    Action, Context, Controller, Error, EventType, Key, Manager, Object, Patch, Reconciler, Request,
    SetupError,
};

use setpoint::recorder::reference;

use super::{Ledger, Unschedulable, Wish};
use crate::deployment::whole_seconds;
use crate::pod::{condition, is_active, node_name};

/// How many bindings are under way at a time.
const CONCURRENCY: usize = 16;
/// The scheduler that pods name unless they say otherwise.
const NAME: &str = "default-scheduler";

/// Registers the scheduler.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let state = State::default();
    let (of_pods, of_nodes) = (state.clone(), state.clone());
    Controller::new(manager, NAME)
        .watches_changes(manager.target::<Pod>(), move |change| of_pods.pod_changed(change))
        .watches_changes(manager.target::<Node>(), move |change| of_nodes.node_changed(change))
        .events(NAME, EventApi::EventsV1)
        .field_owner("kube-scheduler")
        .concurrency(CONCURRENCY)
        .run(Scheduler { state })?;
    Ok(())
}

/// What all placements share. One lock for both, so that a change never slips between a refusal and its note.
#[derive(Clone, Default)]
struct State(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    ledger: Ledger,
    /// Pods that nobody could take; any change that frees or adds room queues them again.
    waiting: BTreeSet<Key>,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().expect("no holder of this lock panics")
    }

    fn pod_changed(&self, change: &Change<'_>) -> Vec<Request> {
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
            shared.waiting.remove(new.key());
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
            requests.push(Request::from(new.key().clone()));
        }
        requests
    }

    fn node_changed(&self, change: &Change<'_>) -> Vec<Request> {
        let mut shared = self.lock();
        let Some(new) = change.new else {
            if let Some(old) = change.old {
                shared.ledger.node_gone(old.name());
            }
            return Vec::new();
        };
        let Ok(node) = new.decode::<Node>() else { return Vec::new() };
        let changed = shared.ledger.node(&node);
        shared.retry_if(changed)
    }
}

impl Shared {
    fn forget(&mut self, pod: &Object) -> bool {
        self.waiting.remove(pod.key());
        self.ledger.pod_gone(pod.namespace().unwrap_or_default(), pod.name())
    }

    fn retry_if(&self, something: bool) -> Vec<Request> {
        if !something {
            return Vec::new();
        }
        self.waiting.iter().cloned().map(Request::from).collect()
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
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let pod = ctx.client().get::<Pod>(&request).await?;
        let Some(pod) = pod.filter(|pod| is_schedulable(pod)) else {
            self.state.lock().waiting.remove(request.key());
            return Ok(Action::done());
        };
        let Some(spec) = &pod.spec else { return Ok(Action::done()) };
        let chosen = self.choose(request.key(), &Wish::of(spec));
        match chosen {
            None => Ok(Action::done()),
            Some(Ok(node)) => self.bind(ctx, request.key(), &pod, &node).await,
            Some(Err(why)) => refuse(ctx, request.key(), &pod, why).await,
        }
    }
}

/// Unbound, alive, and not held back by a gate.
fn is_schedulable(pod: &Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    is_active(pod) && node_name(pod).is_empty() && gates.is_none_or(Vec::is_empty)
}

impl Scheduler {
    /// Chooses and accounts at once, so that the next pod sees the room taken. None if the pod is placed already and
    /// only the cache does not show it yet.
    fn choose(&self, key: &Key, wish: &Wish<'_>) -> Option<Result<String, Unschedulable>> {
        let mut shared = self.state.lock();
        if shared.ledger.holds(key) {
            return None;
        }
        let chosen = shared.ledger.choose(wish).map(str::to_owned);
        match &chosen {
            Ok(node) => {
                shared.waiting.remove(key);
                let pod = (key.namespace().unwrap_or_default().to_owned(), key.name().to_owned());
                shared.ledger.place(pod, node, wish);
            }
            Err(_) => {
                shared.waiting.insert(key.clone());
            }
        }
        Some(chosen)
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
                // Gone, or bound by somebody else: the cache will show it.
                if error.is_not_found() || error.is_conflict() {
                    Ok(Action::done())
                } else {
                    Err(error.into())
                }
            }
        }
    }
}

/// Says why: in an event each time, which become a series, and in a condition once for each different reason.
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
