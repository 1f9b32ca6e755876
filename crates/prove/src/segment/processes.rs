//! The processes of a run: their starts, their deaths, and who takes over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use setpoint::clock::{Clock, Random};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::World;
use crate::plan::Fault;
use crate::rest::Unrest;
use crate::service;
use crate::state;
use crate::subject::{Election, Program, Start};

/// The namespace of the nodes' Leases.
const NODE_LEASES: &str = "kube-node-lease";
/// A program that ends by itself this often is not started again.
const EXITS: usize = 3;

/// The running processes of the operator.
#[derive(Default)]
pub(super) struct Processes {
    tasks: JoinSet<Result<(), String>>,
    running: BTreeMap<Id, Process>,
    /// The ends that nobody has been told of.
    ended: Vec<(u32, String)>,
    begun: usize,
}

struct Process {
    incarnation: u32,
    task: AbortHandle,
    stop: CancellationToken,
}

type Joined = Result<(Id, Result<(), String>), JoinError>;

impl Processes {
    fn spawn(&mut self, incarnation: u32, stop: CancellationToken, program: Program) {
        let task = self.tasks.spawn(program);
        self.begun += 1;
        self.running.insert(task.id(), Process { incarnation, task, stop });
    }

    /// Returns the number of processes so far.
    pub(super) fn count(&self) -> usize {
        self.begun
    }

    /// Returns the next process that ended by itself, and its last words.
    pub(super) async fn ended(&mut self) -> Option<(u32, String)> {
        if self.ended.is_empty() {
            let joined = self.tasks.join_next_with_id().await?;
            self.note(joined);
        }
        self.ended.pop()
    }

    fn note(&mut self, joined: Joined) -> Id {
        let (id, words) = match joined {
            Ok((id, Ok(()))) => (id, "it returned".to_owned()),
            Ok((id, Err(error))) => (id, error),
            Err(error) => (error.id(), last_words(error)),
        };
        if let Some(process) = self.running.remove(&id) {
            self.ended.push((process.incarnation, words));
        }
        id
    }

    /// Tells a process to stop in order.
    pub(super) fn stop(&self, incarnation: u32) {
        self.running
            .values()
            .filter(|process| process.incarnation == incarnation)
            .for_each(|process| process.stop.cancel());
    }

    /// Drops a process where it is.
    async fn kill(&mut self, incarnation: u32) {
        let found = self.running.iter().find(|(_, process)| process.incarnation == incarnation);
        let Some((id, process)) = found.map(|(id, process)| (*id, process)) else { return };
        process.task.abort();
        self.running.remove(&id);
        while let Some(joined) = self.tasks.join_next_with_id().await {
            if self.note(joined) == id {
                return;
            }
        }
    }

    async fn kill_all(&mut self) {
        self.tasks.shutdown().await;
        self.running.clear();
        self.ended.clear();
    }
}

impl World<'_> {
    /// Starts the operator before the first step, once or with a standby.
    pub(super) async fn begin_to_live(&mut self, fault: &Option<Fault>) -> Result<(), Unrest> {
        if self.segment.asleep {
            return self.settle().await;
        }
        self.free_leases().await;
        let lease = self.segment.subject.lease.clone();
        let elects = fault.as_ref().is_some_and(Fault::needs_replicas);
        let Some((namespace, name)) = lease.filter(|_| elects) else {
            self.boot(None);
            return self.settle().await;
        };
        self.wire.elect(&namespace, &name);
        self.boot(Some((&namespace, &name)));
        self.settle().await?;
        self.standby = self.boot(Some((&namespace, &name)));
        self.settle().await
    }

    /// Starts a process of the operator. With a Lease it competes for that. Returns its number.
    pub(super) fn boot(&mut self, lease: Option<(&str, &str)>) -> u32 {
        let inner = match self.segment.subject.service_account() {
            None => self.cluster.client(),
            Some((namespace, name)) => {
                let user = format!("system:serviceaccount:{namespace}:{name}");
                let of_namespace = format!("system:serviceaccounts:{namespace}");
                self.cluster
                    .client_as(&user, &["system:serviceaccounts", &of_namespace, "system:authenticated"])
            }
        };
        let identity = lease.map(|_| format!("replica-{}", self.processes.count() + 1));
        let incarnation = self.wire.begin_process(identity.clone());
        let election = lease.zip(identity).map(|((namespace, name), identity)| Election {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity,
        });
        let stop = CancellationToken::new();
        let start = Start {
            client: service::client(&self.wire, incarnation, inner, self.cluster.client()),
            clock: skewed(self.cluster.clock().clone(), self.skew.clone()),
            random: Random::from_seed(self.segment.settings.seed.wrapping_add(u64::from(incarnation))),
            election,
            stop: stop.clone(),
        };
        let running = (self.segment.subject.start)(start);
        self.wire.runs_as(incarnation, running.activity);
        self.processes.spawn(incarnation, stop, running.program);
        self.panics.push(running.panics);
        incarnation
    }

    /// Drops all processes where they are.
    pub(super) async fn kill(&mut self) {
        self.processes.kill_all().await;
        self.wire.end_processes();
    }

    /// Drops the leader where it is. The standby waits for the end of the Lease.
    pub(super) async fn lose(&mut self, leader: u32) {
        self.processes.kill(leader).await;
        self.wire.end_process(leader);
    }

    /// Drops the operator where it is and starts it again. Returns `false` if an earlier run did so in this state.
    pub(super) async fn restart(&mut self, step: usize) -> bool {
        self.kill().await;
        let hash = state::hash(&self.store().snapshot(), self.segment.from.store().revision());
        if !self.visited.insert((step, hash)) {
            return false;
        }
        self.free_leases().await;
        self.boot(None);
        true
    }

    /// Notes the end of a process, and starts another one as a Deployment would.
    pub(super) async fn bury(&mut self, incarnation: u32, words: String, fault: &Option<Fault>) {
        self.wire.end_process(incarnation);
        // A leader that cannot renew its Lease ends, and so does one that is replaced.
        let replaces = matches!(fault, Some(Fault::Replacement { .. }));
        let deposed = replaces || matches!(fault, Some(Fault::LeaderCutOff { .. }));
        let expected = deposed && self.wire.struck() && incarnation < self.standby;
        if expected && replaces {
            return;
        }
        if !expected {
            self.exits.push(words);
        }
        tokio::time::sleep(self.segment.settings.pace.again).await;
        if self.exits.len() < EXITS {
            self.free_leases().await;
            let lease = self.segment.subject.lease.clone().filter(|_| self.standby > 0);
            self.boot(lease.as_ref().map(|(namespace, name)| (namespace.as_str(), name.as_str())));
        }
    }

    /// Releases the Leases of a process that was killed, as they would expire. In virtual time they do.
    pub(super) async fn free_leases(&self) {
        if !self.segment.settings.pace.real {
            return;
        }
        let client = self.cluster.client();
        let all: Api<Lease> = Api::all(client.clone());
        let Ok(leases) = all.list(&Default::default()).await else { return };
        for lease in leases {
            let held =
                lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
            let (Some(namespace), Some(name)) = (&lease.metadata.namespace, &lease.metadata.name) else {
                continue;
            };
            if namespace == NODE_LEASES || held.is_empty() {
                continue;
            }
            let released = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
            let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
            // A lease that is not released costs its duration, and no more.
            let _ = leases.patch(name, &PatchParams::default(), &Patch::Merge(&released)).await;
        }
    }
}

/// Returns a clock that is wrong by some seconds.
fn skewed(clock: Clock, skew: Arc<AtomicI64>) -> Clock {
    Clock::new(move || {
        let seconds = skew.load(Ordering::Relaxed);
        let by = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { clock.now() - by } else { clock.now() + by }
    })
}

fn last_words(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => format!("panic: {}", message(&panic)),
        Err(error) => error.to_string(),
    }
}

fn message(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}
