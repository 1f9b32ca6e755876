//! `bench apiserver`: ours and the real kube-apiserver with etcd under the same load, one after the other.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::load::{self, Call};
use crate::server::{self, Durability, Server};

const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

/// What one server gave in one case: a rate or a time, and its CPU time per operation.
#[derive(Clone, Copy, Debug)]
struct Figure {
    value: f64,
    cpu: Option<Duration>,
}

struct Flags {
    program: PathBuf,
    objects: usize,
    pods: usize,
    watchers: usize,
}

pub async fn run(words: &[String]) -> Result<()> {
    let flags = flags(words)?;
    println!(
        "# {} connections over TLS and HTTP/2, one request at a time each; servers one after the other",
        load::CONNECTIONS
    );
    let ours = measure_all(server::setpoint(&flags.program, Durability::None).await?, &flags).await?;
    let theirs = measure_all(server::kube_apiserver(Durability::None).await?, &flags).await?;
    for ((name, unit, smaller_is_better, our), (_, _, _, their)) in ours.iter().zip(&theirs) {
        line(name, unit, *smaller_is_better, *our, *their);
    }
    let ours =
        create(&server::setpoint(&flags.program, Durability::Fsync).await?, "durable", flags.objects).await?;
    let theirs = create(&server::kube_apiserver(Durability::Fsync).await?, "durable", flags.objects).await?;
    line("create-fsync", "op/s", false, ours, theirs);
    Ok(())
}

fn flags(words: &[String]) -> Result<Flags> {
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let number = |name: &str, default: usize| value(name).map_or(Ok(default), |text| text.parse());
    Ok(Flags {
        program: value("--setpoint").context("--setpoint PROGRAM")?.into(),
        objects: number("--objects", 8000)?,
        pods: number("--pods", 50_000)?,
        watchers: number("--watchers", 1000)?,
    })
}

fn line(name: &str, unit: &str, smaller_is_better: bool, ours: Figure, theirs: Figure) {
    let ratio = if smaller_is_better { theirs.value / ours.value } else { ours.value / theirs.value };
    let cpu = match (ours.cpu, theirs.cpu) {
        (Some(ours), Some(theirs)) if !ours.is_zero() => {
            format!(
                "{:.1} setpoint_cpu={:.0}us kube-apiserver_cpu={:.0}us",
                theirs.as_secs_f64() / ours.as_secs_f64(),
                ours.as_secs_f64() * 1e6,
                theirs.as_secs_f64() * 1e6
            )
        }
        _ => "-".into(),
    };
    println!(
        "case={name} setpoint={:.1} kube-apiserver={:.1} unit={unit} ratio={ratio:.1} cpu_ratio={cpu}",
        ours.value, theirs.value
    );
}

type Case = (&'static str, &'static str, bool, Figure);

async fn measure_all(server: Server, flags: &Flags) -> Result<Vec<Case>> {
    let plain = |value: f64| Figure { value, cpu: None };
    let idle = server.usage()?.resident_bytes as f64 / 1e6;
    let mut cases: Vec<Case> = vec![
        ("start", "ms", true, plain(server.start.as_secs_f64() * 1e3)),
        ("idle-rss", "MB", true, plain(idle)),
    ];
    let count = flags.objects;
    cases.push(("create", "op/s", false, create(&server, "bench", count).await?));
    let on_each = |method: Method, kind: Option<&'static str>, body: fn(usize) -> Bytes| {
        let calls = (0..count).map(|at| Call {
            method: method.clone(),
            path: format!("/api/v1/namespaces/default/configmaps/bench-{at}"),
            content_type: kind,
            body: body(at),
        });
        calls.collect::<Vec<_>>()
    };
    cases.push(("get", "op/s", false, timed(&server, on_each(Method::GET, None, |_| Bytes::new())).await?));
    let patch = on_each(Method::PATCH, Some(MERGE_PATCH), |at| {
        json!({"data": {"patched": at.to_string()}}).to_string().into()
    });
    cases.push(("merge-patch", "op/s", false, timed(&server, patch).await?));
    cases.push(("apply", "op/s", false, timed(&server, applies(count)).await?));
    cases.push(("apply-noop", "op/s", false, timed(&server, applies(count)).await?));
    cases.push((
        "delete",
        "op/s",
        false,
        timed(&server, on_each(Method::DELETE, None, |_| Bytes::new())).await?,
    ));
    cases.push(("watch", "event/s", false, watch(&server, flags.watchers).await?));
    cases.push(("list-pods", "ms", true, list(&server, flags.pods).await?));
    Ok(cases)
}

async fn timed(server: &Server, calls: Vec<Call>) -> Result<Figure> {
    let before = server.usage()?.cpu;
    let outcome = load::drive(&server.target, calls).await?;
    let cpu = (server.usage()?.cpu - before) / u32::try_from(outcome.operations)?;
    Ok(Figure { value: outcome.rate(), cpu: Some(cpu) })
}

async fn create(server: &Server, prefix: &str, count: usize) -> Result<Figure> {
    let calls = (0..count).map(|at| Call {
        method: Method::POST,
        path: "/api/v1/namespaces/default/configmaps".into(),
        content_type: Some(JSON),
        body: config_map(&format!("{prefix}-{at}"), at).to_string().into(),
    });
    timed(server, calls.collect()).await
}

fn config_map(name: &str, at: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench", "shard": format!("s{}", at % 32)}},
        "data": {"key": format!("value-{at}"), "text": "x".repeat(512)},
    })
}

/// One apply of a typical Deployment each.
fn applies(count: usize) -> Vec<Call> {
    (0..count / 2)
        .map(|at| Call {
            method: Method::PATCH,
            path: format!(
                "/apis/apps/v1/namespaces/default/deployments/bench-{at}?fieldManager=bench&force=true"
            ),
            content_type: Some(APPLY_PATCH),
            body: deployment(&format!("bench-{at}")).to_string().into(),
        })
        .collect()
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "main", "image": "nginx:1.29",
                    "ports": [{"name": "http", "containerPort": 80}],
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
                    "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
                }]},
            },
        },
    })
}

/// Watchers of one kind on few connections, and writes that all of them must see.
async fn watch(server: &Server, watchers: usize) -> Result<Figure> {
    const WRITES: usize = 1000;
    const STREAMS: usize = 100;
    let path = "/api/v1/namespaces/default/secrets?watch=true";
    let mut readers = tokio::task::JoinSet::new();
    let mut left = watchers;
    let mut held = Vec::new();
    while left > 0 {
        let mut connection = Connection::open(&server.target).await?;
        for _ in 0..left.min(STREAMS) {
            let response = connection.start(Method::GET, path, None, Bytes::new()).await?;
            anyhow::ensure!(response.status().is_success(), "watch: {}", response.status());
            readers.spawn(async move {
                let mut body = response.into_body();
                let mut events = 0;
                while events < WRITES {
                    let Some(frame) = body.frame().await else { break };
                    let frame = frame?;
                    events +=
                        frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
                }
                anyhow::Ok(events)
            });
        }
        left -= left.min(STREAMS);
        held.push(connection);
    }
    let before = server.usage()?;
    let started = Instant::now();
    let calls = (0..WRITES).map(|at| Call {
        method: Method::POST,
        path: "/api/v1/namespaces/default/secrets".into(),
        content_type: Some(JSON),
        body: json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("watched-{at}")}})
            .to_string()
            .into(),
    });
    load::drive(&server.target, calls.collect()).await?;
    let mut seen = 0;
    while let Some(reader) = readers.join_next().await {
        let events = reader??;
        anyhow::ensure!(events == WRITES, "a watcher saw {events} of {WRITES} writes");
        seen += events;
    }
    let cpu = (server.usage()?.cpu - before.cpu) / u32::try_from(seen)?;
    Ok(Figure { value: seen as f64 / started.elapsed().as_secs_f64(), cpu: Some(cpu) })
}

/// One list of all pods, about 4 KB each.
async fn list(server: &Server, pods: usize) -> Result<Figure> {
    let calls = (0..pods).map(|at| Call {
        method: Method::POST,
        path: "/api/v1/namespaces/default/pods".into(),
        content_type: Some(JSON),
        body: pod(at).to_string().into(),
    });
    load::drive(&server.target, calls.collect()).await?;
    let mut connection = Connection::open(&server.target).await?;
    let mut best = Duration::MAX;
    let mut cpu = Duration::MAX;
    for _ in 0..3 {
        let before = server.usage()?.cpu;
        let started = Instant::now();
        let length =
            connection.call(Method::GET, "/api/v1/namespaces/default/pods", None, Bytes::new()).await?;
        anyhow::ensure!(length > pods * 1000, "a list of {length} bytes");
        best = best.min(started.elapsed());
        cpu = cpu.min(server.usage()?.cpu - before);
    }
    Ok(Figure { value: best.as_secs_f64() * 1e3, cpu: Some(cpu) })
}

fn pod(at: usize) -> Value {
    let environment: Vec<Value> =
        (0..24).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": format!("value-{at}-{n}-{}", "y".repeat(40))})).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{at}"), "labels": {"app": format!("app-{}", at % 50)}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1.29", "env": environment}]},
    })
}
