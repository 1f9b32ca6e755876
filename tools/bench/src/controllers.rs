//! `bench controllers`: our cluster beside the real kube-apiserver with kube-controller-manager. Where pods run, they
//! run on our simulated nodes on both sides.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::connection::Call;
use crate::connection::Connection;
use crate::load;
use crate::pair::{Pair, Workload};
use crate::watch::Watch;

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
/// Deployments of the first case, and the replicas of each.
const DEPLOYMENTS: (usize, usize) = (200, 10);
/// Nodes, Deployments and replicas of the large cluster.
const LARGE: (u32, usize, usize) = (100, 100, 100);
const ROLLED: usize = 100;
const CONTENT: usize = 5000;
const DEPENDENTS: usize = 2000;
/// The large cluster is left alone for so long before its idle time is measured, and for how long that is.
const SETTLE: Duration = Duration::from_secs(12);
const IDLE: Duration = Duration::from_secs(20);
/// Until when the pods of the large cluster must be ready.
const PATIENCE: Duration = Duration::from_secs(300);

/// A case: its name, its unit, and what each side needed.
type Figures = Vec<(&'static str, &'static str, f64)>;

/// A comparison: the programs of each side, and the cases that use them.
struct Group {
    names: &'static [&'static str],
    workload: Workload,
}

const GROUPS: [Group; 3] = [
    Group { names: &["deployments"], workload: Workload { nodes: 0, scheduler: false } },
    Group {
        names: &["rollout", "namespace", "foreground"],
        workload: Workload { nodes: 5, scheduler: true },
    },
    Group { names: &["large"], workload: Workload { nodes: LARGE.0, scheduler: true } },
];

pub async fn run(words: &[String]) -> Result<()> {
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let program: PathBuf = value("--setpoint").context("--setpoint PROGRAM")?.into();
    let only = value("--only").map(String::as_str);
    let alone = words.iter().any(|word| word == "--alone");
    println!("# one side after the other; less is better; ratio = kube / setpoint");
    for group in GROUPS.iter().filter(|group| only.is_none_or(|only| group.names.contains(&only))) {
        let wanted = |name: &&str| only.is_none_or(|only| only == *name);
        let names: Vec<&str> = group.names.iter().copied().filter(wanted).collect();
        let ours = measure(Pair::ours(&program, group.workload).await?, &names).await?;
        let theirs = match alone {
            true => Vec::new(),
            false => measure(Pair::real(&program, group.workload).await?, &names).await?,
        };
        report(&ours, &theirs);
    }
    Ok(())
}

fn report(ours: &Figures, theirs: &Figures) {
    for (at, (name, unit, our)) in ours.iter().enumerate() {
        let (kube, ratio) = match theirs.get(at) {
            Some((_, _, their)) => (format!("{their:.2}"), format!("{:.1}", their / our)),
            None => ("-".into(), "-".into()),
        };
        println!("case={name} setpoint={our:.2} kube={kube} unit={unit} ratio={ratio}");
    }
}

async fn measure(pair: Pair, names: &[&str]) -> Result<Figures> {
    let mut figures = Vec::new();
    for name in names {
        match *name {
            "deployments" => figures.extend(deployments(&pair).await?),
            "rollout" => figures.extend(rollout(&pair).await?),
            "namespace" => figures.extend(namespace(&pair).await?),
            "foreground" => figures.extend(foreground(&pair).await?),
            _ => figures.extend(large(&pair).await?),
        }
    }
    Ok(figures)
}

fn post(path: &str, object: &Value) -> Call {
    Call {
        method: Method::POST,
        path: path.to_owned(),
        content_type: Some(JSON),
        accept: JSON,
        body: object.to_string().into(),
    }
}

fn deployment(name: &str, replicas: usize) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name }, "spec": {
        "replicas": replicas, "selector": { "matchLabels": { "app": name } },
        "template": { "metadata": { "labels": { "app": name } }, "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{ "name": "c", "image": "nginx:1.28", "resources": { "requests": { "cpu": "1m" } } }] } },
    } })
}

/// Creates Deployments in `default` and gives the moment before the first.
async fn create_deployments(pair: &Pair, count: usize, replicas: usize) -> Result<Instant> {
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let calls = (0..count).map(|at| post(path, &deployment(&format!("web-{at}"), replicas)));
    let calls: Vec<Call> = calls.collect();
    let began = Instant::now();
    load::drive(&pair.target, calls).await?;
    Ok(began)
}

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn deployments(pair: &Pair) -> Result<Figures> {
    let mut pods = Watch::open(&pair.target, PODS).await?;
    let (count, replicas) = DEPLOYMENTS;
    let before = pair.usage()?.cpu;
    let began = create_deployments(pair, count, replicas).await?;
    let mut seen = 0;
    while seen < count * replicas {
        seen += usize::from(pods.next().await?.kind == "ADDED");
    }
    let elapsed = began.elapsed().as_secs_f64();
    let cpu = (pair.usage()?.cpu - before).as_secs_f64();
    Ok(vec![("deployments", "s", elapsed), ("deployments-cpu", "s", cpu)])
}

/// Reads changes until so many pods are ready.
async fn ready(pods: &mut Watch, wanted: usize) -> Result<()> {
    let mut ready = std::collections::BTreeSet::new();
    while ready.len() < wanted {
        let event = pods.next().await?;
        let name = event.object.metadata.name.clone();
        match event.kind != "DELETED" && event.object.is_ready() {
            true => ready.insert(name),
            false => ready.remove(&name),
        };
    }
    Ok(())
}

/// Polls until the Deployments have enough ready pods: a watch of every step would cost as much as the measured work.
async fn all_ready(pair: &Pair, wanted: u64) -> Result<()> {
    let mut connection = Connection::open(&pair.target).await?;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let deadline = Instant::now() + PATIENCE;
    loop {
        let list = connection.read(&Call::get(path)).await?;
        let list: Value = serde_json::from_slice(&list)?;
        let ready = |deployment: &Value| deployment["status"]["readyReplicas"].as_u64().unwrap_or(0);
        let sum: u64 = list["items"].as_array().into_iter().flatten().map(ready).sum();
        if sum >= wanted {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{sum} of {wanted} pods are ready");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn large(pair: &Pair) -> Result<Figures> {
    let (_, count, replicas) = LARGE;
    let began = create_deployments(pair, count, replicas).await?;
    all_ready(pair, (count * replicas) as u64).await?;
    let elapsed = began.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLE).await;
    let before = pair.usage()?.cpu;
    tokio::time::sleep(IDLE).await;
    let after = pair.usage()?;
    let idle = (after.cpu - before).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    let memory = after.resident_bytes as f64 / 1e6;
    Ok(vec![("pods-10000", "s", elapsed), ("idle-cpu", "%", idle), ("rss", "MB", memory)])
}

async fn rollout(pair: &Pair) -> Result<Figures> {
    let mut pods = Watch::open(&pair.target, PODS).await?;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    load::drive(&pair.target, vec![post(path, &deployment("rolled", ROLLED))]).await?;
    ready(&mut pods, ROLLED).await?;
    let mut deployments = Watch::open(&pair.target, path).await?;
    let mut sets = Watch::open(&pair.target, "/apis/apps/v1/namespaces/default/replicasets").await?;
    while !deployments.next().await?.object.is_rolled_out(ROLLED) {}
    let image = "/spec/template/spec/containers/0/image";
    let patch = json!([{ "op": "replace", "path": image, "value": "nginx:1.29" }]);
    let change = Call {
        method: Method::PATCH,
        path: format!("{path}/rolled"),
        content_type: Some(JSON_PATCH),
        accept: JSON,
        body: patch.to_string().into(),
    };
    let began = Instant::now();
    load::drive(&pair.target, vec![change]).await?;
    let mut writes = 0;
    loop {
        let event = deployments.next().await?;
        writes += 1;
        if event.object.metadata.generation >= 2 && event.object.is_rolled_out(ROLLED) {
            break;
        }
    }
    let elapsed = began.elapsed().as_secs_f64();
    // The first was ours.
    writes -= 1;
    // Writes to ReplicaSets, and writes to pods by the controllers that keep their number. Writes of nodes do not
    // count.
    writes += sets.rest().await.len();
    let mut gone = std::collections::BTreeSet::new();
    for event in pods.rest().await {
        let going = event.object.metadata.deletion_timestamp.is_some();
        writes += usize::from(event.kind == "ADDED");
        writes += usize::from(going && gone.insert(event.object.metadata.name));
    }
    Ok(vec![("rollout-100", "s", elapsed), ("rollout-100-writes", "writes", writes as f64)])
}

fn config_map(name: String, owner: Option<&Value>) -> Value {
    let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
        "data": { "key": "value" } });
    if let Some(owner) = owner {
        object["metadata"]["ownerReferences"] = json!([{ "apiVersion": "v1", "kind": "ConfigMap",
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true }]);
    }
    object
}

/// Deletes with these options and waits until the object is gone.
async fn delete(pair: &Pair, collection: &str, name: &str, options: &Value) -> Result<f64> {
    let mut watch = Watch::open(&pair.target, collection).await?;
    let call = Call {
        method: Method::DELETE,
        path: format!("{collection}/{name}"),
        content_type: Some(JSON),
        accept: JSON,
        body: options.to_string().into(),
    };
    let began = Instant::now();
    load::drive(&pair.target, vec![call]).await?;
    loop {
        let event = watch.next().await?;
        if event.kind == "DELETED" && event.object.metadata.name == name {
            return Ok(began.elapsed().as_secs_f64());
        }
    }
}

async fn namespace(pair: &Pair) -> Result<Figures> {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "full" } });
    load::drive(&pair.target, vec![post("/api/v1/namespaces", &namespace)]).await?;
    let path = "/api/v1/namespaces/full/configmaps";
    let calls = (0..CONTENT).map(|at| post(path, &config_map(format!("c-{at}"), None))).collect();
    load::drive(&pair.target, calls).await?;
    let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
    let elapsed = delete(pair, "/api/v1/namespaces", "full", &options).await?;
    Ok(vec![("namespace-5000", "s", elapsed)])
}

async fn foreground(pair: &Pair) -> Result<Figures> {
    let path = "/api/v1/namespaces/default/configmaps";
    load::drive(&pair.target, vec![post(path, &config_map("owner".into(), None))]).await?;
    let mut connection = Connection::open(&pair.target).await?;
    let owner = connection.read(&Call::get(format!("{path}/owner"))).await?;
    let owner: Value = serde_json::from_slice(&owner)?;
    ensure!(owner["metadata"]["uid"].is_string(), "{owner}");
    let calls = (0..DEPENDENTS).map(|at| post(path, &config_map(format!("d-{at}"), Some(&owner)))).collect();
    load::drive(&pair.target, calls).await?;
    let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground" });
    let elapsed = delete(pair, path, "owner", &options).await?;
    Ok(vec![("foreground-2000", "s", elapsed)])
}
