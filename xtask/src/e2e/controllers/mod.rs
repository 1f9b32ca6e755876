//! The same scenarios on our server and the real one, with our controllers and the real ones: each must come to the
//! same end state. The differences that remain are listed in [`known`], with their reasons.

mod daemons;
pub mod election;
mod garbage;
mod jobs;
mod known;
mod namespace;
mod normal;
mod quotas;
mod scheduling;
mod services;
mod rollout;
mod setup;
mod stateful;
mod volumes;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

pub use self::setup::{ALL, Controllers, World};
use self::setup::{Parts, REAL};
use super::Setup;
use super::cluster::Kubectl;
use super::proxy::{MERGE, Proxy, until};

/// One scenario. It works in its own namespace, and may return a value to compare beside the objects that it leaves.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    run: fn(&Place<'_>) -> Result<Value>,
}

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "rolling", run: rollout::rolling },
    Scenario { name: "recreate", run: rollout::recreate },
    Scenario { name: "pause", run: rollout::pause },
    Scenario { name: "proportional", run: rollout::proportional },
    Scenario { name: "rollback", run: rollout::rollback },
    Scenario { name: "deadline", run: rollout::deadline },
    Scenario { name: "adoption", run: rollout::adoption },
    Scenario { name: "collision", run: rollout::collision },
    Scenario { name: "history", run: rollout::history },
    Scenario { name: "stateful", run: stateful::ordered },
    Scenario { name: "stateful-parallel", run: stateful::parallel },
    Scenario { name: "stateful-partition", run: stateful::partitioned },
    Scenario { name: "namespace", run: namespace::deletion },
    Scenario { name: "background", run: garbage::background },
    Scenario { name: "foreground", run: garbage::foreground },
    Scenario { name: "misplaced", run: garbage::misplaced },
    Scenario { name: "orphan", run: garbage::orphan },
    Scenario { name: "custom-owner", run: garbage::custom_owner },
    Scenario { name: "accounts", run: namespace::accounts },
    Scenario { name: "job-complete", run: jobs::complete },
    Scenario { name: "job-fail", run: jobs::fail },
    Scenario { name: "job-indexed", run: jobs::indexed },
    Scenario { name: "job-suspend", run: jobs::suspend },
    Scenario { name: "job-limits", run: jobs::limits },
    Scenario { name: "job-pods", run: jobs::pods },
    Scenario { name: "cronjob", run: jobs::cron },
    Scenario { name: "services", run: services::services },
    Scenario { name: "quotas", run: quotas::quotas },
    Scenario { name: "scheduling", run: scheduling::constraints },
    Scenario { name: "volumes", run: volumes::bound },
    Scenario { name: "volumes-consumed", run: volumes::consumed },
];

pub fn run(setup: &Setup) -> Result<()> {
    compare(setup, "controllers", SCENARIOS, 1)
}

/// Those that need several nodes.
pub fn daemons(setup: &Setup) -> Result<()> {
    compare(setup, "daemons", daemons::SCENARIOS, daemons::NODES)
}

fn compare(setup: &Setup, part: &str, scenarios: &[Scenario], nodes: u32) -> Result<()> {
    let mut wrong = differing(setup, scenarios, nodes, &ALL)?;
    if !wrong.is_empty() {
        // A controller whose cache was a moment behind may write more, or other, events. That difference shows in one
        // run only.
        let differs = |one: &&Scenario| wrong.keys().any(|at| at.scenario == one.name);
        let scenarios: Vec<Scenario> = scenarios.iter().filter(differs).copied().collect();
        let differs = |one: &Parts| *one == REAL || wrong.keys().any(|at| at.cluster == one.name);
        let clusters: Vec<Parts> = ALL.into_iter().filter(differs).collect();
        let mut again = differing(setup, &scenarios, nodes, &clusters)?;
        let (both, once): (BTreeMap<_, _>, BTreeMap<_, _>) =
            wrong.into_iter().partition(|(at, _)| again.contains_key(at));
        again.retain(|at, _| !both.contains_key(at));
        wrong = both;
        for (at, lines) in once.into_iter().chain(again) {
            println!("{part}: differs in one of two tries: {}", at.told(&lines));
        }
    }
    let text: Vec<String> = wrong.iter().map(|(at, lines)| at.told(lines)).collect();
    ensure!(text.is_empty(), "{} differences, each in both of two tries:\n{}", text.len(), text.join("\n"));
    println!("{part}: {} scenarios end alike in {} clusters", scenarios.len(), ALL.len());
    Ok(())
}

/// A difference between a cluster and the real one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Difference {
    cluster: &'static str,
    scenario: &'static str,
    /// The field, without values and places in lists: both may be others at the next try.
    field: String,
}

impl Difference {
    fn new(cluster: &'static str, scenario: &'static str, line: &str) -> Difference {
        let (path, _) = line.split_once(": ").unwrap_or((line, ""));
        let names = path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
        Difference { cluster, scenario, field: names.collect() }
    }

    fn told(&self, lines: &[String]) -> String {
        let lines = lines.iter().map(|line| format!("{}: {line}", self.cluster));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// The lines that tell what differs and may not, of fresh clusters, [`REAL`] among them.
fn differing(
    setup: &Setup,
    scenarios: &[Scenario],
    nodes: u32,
    clusters: &[Parts],
) -> Result<BTreeMap<Difference, Vec<String>>> {
    let mut states = BTreeMap::new();
    for &parts in clusters {
        let left = || play(setup, parts, scenarios, nodes).context(parts.name);
        // A scenario that does not come to its end may only have been late, or beside one of those moments.
        let state = left().or_else(|error| {
            println!("all are played again: {error:#}");
            left()
        })?;
        states.insert(parts.name, state);
    }
    let real = states.remove(REAL.name).context("the real one does not play")?;
    let mut wrong: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (cluster, state) in &states {
        for Scenario { name, .. } in scenarios {
            let mut found = Vec::new();
            normal::differences(&state[name], &real[name], name, &mut found);
            for line in found.into_iter().filter(|line| !known::is_known(line)) {
                wrong.entry(Difference::new(cluster, name, &line)).or_default().push(line);
            }
        }
    }
    Ok(wrong)
}

/// All scenarios at once in a fresh cluster, each in its namespace; then, once no more events come, what each left.
fn play(
    setup: &Setup,
    parts: Parts,
    scenarios: &[Scenario],
    nodes: u32,
) -> Result<BTreeMap<&'static str, Value>> {
    let world = World::with_nodes(setup, parts, nodes, garbage::define)?;
    let kubectl = Kubectl::on(&setup.peer("kubectl")?, &world.kubeconfig());
    let played = at_once(scenarios, |scenario| {
        let place = Place::make(&world, &kubectl, scenario.name)?;
        let told = (scenario.run)(&place).with_context(|| format!("scenario {}", scenario.name))?;
        Ok((scenario.name, place, told))
    })?;
    events_rest(&world.api)?;
    let states = at_once(&played, |(name, place, told)| Ok((*name, place.settled(told.clone())?)))?;
    Ok(states.into_iter().collect())
}

/// Does something with each, all at the same time.
fn at_once<T: Sync, R: Send>(all: &[T], each: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let each = &each;
    std::thread::scope(|scope| {
        let running: Vec<_> = all.iter().map(|one| scope.spawn(move || each(one))).collect();
        running
            .into_iter()
            .map(|running| {
                running.join().map_err(|_| anyhow::anyhow!("it panicked")).and_then(|result| result)
            })
            .collect()
    })
}

/// Waits until no new events appear: a controller writes an event after its cause.
fn events_rest(api: &Proxy) -> Result<()> {
    let (mut before, mut same) = (0, 0);
    until("events come to rest", || {
        std::thread::sleep(Duration::from_millis(500));
        let count = api.items("/api/v1/events")?.len();
        same = if count == before { same + 1 } else { 0 };
        before = count;
        Ok((same >= EVENTS_REST).then_some(()))
    })
}

/// Number of looks in a row without a new event.
const EVENTS_REST: usize = 4;

/// After so long what kube-controller-manager has wrong is not on its way any more: it has to be made to look again.
const LOOKED_AT_WITHIN: Duration = Duration::from_secs(3);

/// A namespace of a cluster.
pub struct Place<'a> {
    pub api: &'a Proxy,
    pub kubectl: &'a Kubectl,
    pub namespace: String,
    /// Whether kube-controller-manager works in it.
    pub real_controllers: bool,
}

impl<'a> Place<'a> {
    fn make(world: &'a World, kubectl: &'a Kubectl, name: &str) -> Result<Place<'a>> {
        let namespace = format!("e2e-{name}");
        let api = &world.api;
        api.create("/api/v1/namespaces", &json!({ "metadata": { "name": namespace } }))?;
        let place = Place { api, kubectl, namespace, real_controllers: world.parts.real_controllers };
        // Pods are refused before their namespace has its account.
        until("the default service account", || api.find(&place.core("serviceaccounts", "default")))?;
        until("the root authority", || api.find(&place.core("configmaps", "kube-root-ca.crt")))?;
        Ok(place)
    }

    /// The path of a core object, or of the collection when the name is empty.
    pub fn core(&self, plural: &str, name: &str) -> String {
        let path = format!("/api/v1/namespaces/{}/{plural}/{name}", self.namespace);
        path.trim_end_matches('/').to_owned()
    }

    /// The same in a group.
    pub fn group(&self, group: &str, plural: &str, name: &str) -> String {
        let path = format!("/apis/{group}/namespaces/{}/{plural}/{name}", self.namespace);
        path.trim_end_matches('/').to_owned()
    }

    pub fn deployment(&self, name: &str) -> String {
        self.group("apps/v1", "deployments", name)
    }

    pub fn sets(&self) -> Result<Vec<Value>> {
        self.api.items(&self.group("apps/v1", "replicasets", ""))
    }

    pub fn pods(&self) -> Result<Vec<Value>> {
        self.api.items(&self.core("pods", ""))
    }

    pub fn create_deployment(&self, deployment: &Value) -> Result<Value> {
        self.api.create(&self.deployment(""), deployment)
    }

    pub fn change_deployment(&self, name: &str, change: &Value) -> Result<Value> {
        self.api.patch(&self.deployment(name), MERGE, change)
    }

    /// As `kubectl rollout status` judges it.
    pub fn rolled_out(&self, name: &str) -> Result<Value> {
        until(&format!("{name} is rolled out"), || {
            let deployment = self.api.get(&self.deployment(name))?;
            let (spec, status) = (&deployment["spec"], &deployment["status"]);
            let done = status["observedGeneration"] == deployment["metadata"]["generation"]
                && ["updatedReplicas", "replicas", "availableReplicas"].iter().all(|count| {
                    status[count].as_i64().unwrap_or(0) == spec["replicas"].as_i64().unwrap_or(0)
                });
            Ok(done.then_some(deployment))
        })
    }

    /// The end state, once it no longer changes.
    fn settled(&self, told: Value) -> Result<Value> {
        self.claims_tell()?;
        let mut before = Value::Null;
        let mut state = until("the namespace settles", || {
            std::thread::sleep(Duration::from_millis(500));
            // When a pod is to go is not compared, but it is not the end.
            let goes = self.pods()?.iter().any(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
            let state = normal::end_state(self.api, &self.namespace)?;
            let same = !goes && state == before;
            before = state.clone();
            Ok(same.then_some(state))
        })?;
        state["told"] = told;
        Ok(state)
    }
}
