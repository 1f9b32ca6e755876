//! Controllers killed with `kill -9` at random points of a rollout and started again: it always ends right, and at no
//! version are there more pods than surge allows or fewer available than promised.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::Setup;
use super::cluster::Cluster;
use super::controllers::Controllers;
use super::proxy::{self, MERGE, Proxy};

/// Default number of runs of a soak.
const TIMES: u64 = 200;
const REPLICAS: i64 = 6;
const SURGE: i64 = 2;
const UNAVAILABLE: i64 = 1;
/// Most kills of one rollout.
const KILLS: u64 = 5;
/// Most changes that are seen between a start and the kill.
const APART: u64 = 25;
/// Controllers that were just started are given so long to change something.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time within which a rollout ends after the last kill.
const DEADLINE: Duration = Duration::from_secs(60);

/// `cargo xtask soak rollout [--times N] [--seed S]`.
pub fn soak(words: &[String]) -> Result<()> {
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let number = |name: &str, default: u64| value(name).map_or(Ok(default), |text| text.parse());
    let (times, seed) = (number("--times", TIMES)?, number("--seed", 1)?);
    run(&Setup { setpoint: super::build()? }, seed, times)
}

/// A slice for every change.
pub fn slice(setup: &Setup) -> Result<()> {
    run(setup, 1, 8)
}

/// `times` rollouts, the first on this seed.
fn run(setup: &Setup, seed: u64, times: u64) -> Result<()> {
    let began = Instant::now();
    let cluster = Cluster::start(&setup.setpoint, &["--no-controllers"])?;
    let kubeconfig = cluster.folder.path().join("k.yaml");
    let api = Proxy::start(&setup.peer("kubectl")?, &kubeconfig)?;
    let (mut kills, mut changes) = (0, 0);
    for seed in seed..seed + times {
        let mut rollout = Rollout::new(setup, &api, &kubeconfig, cluster.folder.path(), seed);
        rollout.play().with_context(|| format!("cargo xtask soak rollout --times 1 --seed {seed}"))?;
        kills += rollout.kills;
        changes += rollout.changes;
    }
    println!(
        "rollout: {times} rollouts, {kills} kills, {changes} changes of pods and sets seen, {:.0} s: all ended right",
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

struct Rollout<'a> {
    setup: &'a Setup,
    api: &'a Proxy,
    kubeconfig: &'a Path,
    folder: &'a Path,
    namespace: String,
    random: u64,
    kills: u64,
    changes: u64,
    witness: Witness,
}

impl<'a> Rollout<'a> {
    fn new(setup: &'a Setup, api: &'a Proxy, kubeconfig: &'a Path, folder: &'a Path, seed: u64) -> Self {
        let namespace = format!("rollout-{seed}");
        let witness = Witness::default();
        Rollout { setup, api, kubeconfig, folder, namespace, random: seed, kills: 0, changes: 0, witness }
    }

    /// SplitMix64: the same numbers on every machine.
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn path(&self, plural: &str) -> String {
        let root = if plural == "pods" { "/api/v1" } else { "/apis/apps/v1" };
        format!("{root}/namespaces/{}/{plural}", self.namespace)
    }

    fn controllers(&self) -> Result<Controllers> {
        Controllers::start(&self.setup.setpoint, self.kubeconfig, self.folder, &["--nodes", "2"])
    }

    fn play(&mut self) -> Result<()> {
        let mut running = self.controllers()?;
        self.api.create("/api/v1/namespaces", &json!({ "metadata": { "name": self.namespace } }))?;
        let account = format!("/api/v1/namespaces/{}/serviceaccounts/default", self.namespace);
        proxy::until("the account", || self.api.find(&account))?;
        let events = self.watch()?;
        let deployments = self.path("deployments");
        self.api.create(&deployments, &manifest())?;
        self.follow(&events, DEADLINE, |witness| witness.is_complete("web:1"))?;
        self.witness.promised = true;
        let image = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "web:2" }] } } } });
        self.api.patch(&format!("{deployments}/web"), MERGE, &image)?;
        for _ in 0..1 + self.below(KILLS) {
            let until = self.changes + 1 + self.below(APART);
            let done = self.some(&events, until)?;
            running.0.kill()?;
            running.0.wait()?;
            self.kills += 1;
            running = self.controllers()?;
            if done {
                break;
            }
        }
        self.follow(&events, DEADLINE, |witness| witness.is_complete("web:2"))?;
        self.check_end()?;
        self.api.delete(&format!("/api/v1/namespaces/{}", self.namespace), &Value::Null)?;
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        proxy::until("the namespace goes", || Ok(self.api.find(&path)?.is_none().then_some(())))
    }

    /// All changes of pods, sets and Deployments from now on.
    fn watch(&self) -> Result<Receiver<Value>> {
        let (send, receive) = channel();
        for plural in ["pods", "replicasets", "deployments"] {
            let path = self.path(plural);
            let version = self.api.get(&path)?["metadata"]["resourceVersion"].clone();
            let events = self.api.watch(&path, version.as_str().unwrap_or_default())?;
            let send = send.clone();
            // Ends with the namespace's watch, at the latest with the proxy.
            std::thread::spawn(move || {
                for event in events {
                    if send.send(event).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(receive)
    }

    /// Takes in changes until so many were seen, or the rollout is over.
    fn some(&mut self, events: &Receiver<Value>, until: u64) -> Result<bool> {
        while self.changes < until && !self.witness.is_complete("web:2") {
            self.next(events, Instant::now() + PATIENCE)?;
        }
        Ok(self.witness.is_complete("web:2"))
    }

    fn follow(
        &mut self,
        events: &Receiver<Value>,
        within: Duration,
        done: fn(&Witness) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + within;
        while !done(&self.witness) {
            self.next(events, deadline)?;
        }
        Ok(())
    }

    fn next(&mut self, events: &Receiver<Value>, deadline: Instant) -> Result<()> {
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(event) => {
                self.changes += 1;
                self.witness.see(&event)
            }
            Err(RecvTimeoutError::Timeout) => bail!("nothing moves any more: {:?}", self.witness),
            Err(RecvTimeoutError::Disconnected) => bail!("the watches ended"),
        }
    }

    /// One ReplicaSet a template, every pod of the new image, everything owned.
    fn check_end(&self) -> Result<()> {
        proxy::until("the deleted pods are gone", || {
            Ok((self.api.items(&self.path("pods"))?.len() as i64 == REPLICAS).then_some(()))
        })?;
        let deployment = self.api.get(&format!("{}/web", self.path("deployments")))?;
        let sets = self.api.items(&self.path("replicasets"))?;
        ensure!(sets.len() == 2, "{} ReplicaSets", sets.len());
        let owner = |object: &Value| object["metadata"]["ownerReferences"][0]["uid"].clone();
        for set in &sets {
            ensure!(owner(set) == deployment["metadata"]["uid"], "orphaned: {}", set["metadata"]["name"]);
        }
        let newest =
            sets.iter().find(|set| set["spec"]["replicas"] == REPLICAS).context("no set has all pods")?;
        for pod in self.api.items(&self.path("pods"))? {
            ensure!(owner(&pod) == newest["metadata"]["uid"], "orphaned: {}", pod["metadata"]["name"]);
        }
        Ok(())
    }
}

fn manifest() -> Value {
    json!({ "metadata": { "name": "web" }, "spec": { "replicas": REPLICAS,
        "strategy": { "type": "RollingUpdate",
            "rollingUpdate": { "maxSurge": SURGE, "maxUnavailable": UNAVAILABLE } },
        "selector": { "matchLabels": { "app": "web" } },
        "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "terminationGracePeriodSeconds": 1,
            "containers": [{ "name": "c", "image": "web:1" }] } } } })
}

#[derive(Clone, Debug)]
struct Seen {
    image: String,
    alive: bool,
    available: bool,
}

/// The events that the watches have reported so far, and whether every version kept the promises.
#[derive(Debug, Default)]
struct Witness {
    pods: BTreeMap<String, Seen>,
    /// The image of every ReplicaSet that there ever was.
    sets: BTreeMap<String, String>,
    /// The image that the Deployment reports as rolled out.
    rolled_out: Option<String>,
    /// Whether all were available once: from then on enough of them must be.
    promised: bool,
}

impl Witness {
    fn see(&mut self, event: &Value) -> Result<()> {
        let object = &event["object"];
        let gone = event["type"] == "DELETED";
        match object["kind"].as_str() {
            Some("Pod") => self.see_pod(object, gone),
            Some("ReplicaSet") if !gone => self.see_set(object),
            Some("Deployment") => {
                self.rolled_out = is_rolled_out(object).then(|| image(&object["spec"]["template"]));
                Ok(())
            }
            Some("Status") => bail!("a watch ended: {}", object["message"]),
            _ => Ok(()),
        }
    }

    fn see_set(&mut self, set: &Value) -> Result<()> {
        let uid = set["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        self.sets.insert(uid, image(&set["spec"]["template"]));
        let mut images: Vec<&String> = self.sets.values().collect();
        images.sort_unstable();
        let all = images.len();
        images.dedup();
        ensure!(images.len() == all, "two ReplicaSets for one template");
        Ok(())
    }

    fn see_pod(&mut self, pod: &Value, gone: bool) -> Result<()> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if gone {
            self.pods.remove(&name);
        } else {
            let alive = pod["metadata"]["deletionTimestamp"].is_null();
            let conditions = pod["status"]["conditions"].as_array();
            let ready =
                conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
            self.pods.insert(name, Seen { image: image(pod), alive, available: alive && ready });
        }
        let alive = self.pods.values().filter(|pod| pod.alive).count() as i64;
        let available = self.pods.values().filter(|pod| pod.available).count() as i64;
        ensure!(alive <= REPLICAS + SURGE, "{alive} pods: more than surge allows");
        ensure!(!self.promised || available >= REPLICAS - UNAVAILABLE, "{available} available: too few");
        Ok(())
    }

    fn is_complete(&self, image: &str) -> bool {
        let right = self.pods.values().filter(|pod| pod.available && pod.image == image).count() as i64;
        self.rolled_out.as_deref() == Some(image)
            && right == REPLICAS
            && self.pods.values().filter(|pod| pod.alive).count() as i64 == REPLICAS
    }
}

/// The image of a template or pod.
fn image(object: &Value) -> String {
    object["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned()
}

fn is_rolled_out(deployment: &Value) -> bool {
    let status = &deployment["status"];
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && ["updatedReplicas", "replicas", "availableReplicas"].iter().all(|count| status[count] == REPLICAS)
}
