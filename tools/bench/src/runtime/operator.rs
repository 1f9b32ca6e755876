//! The small operator on the real kube-apiserver: get the object, create its child, patch the object.

use anyhow::Result;
use bytes::Bytes;
use http::Method;
use setpoint_peers::ControlPlane;

use super::Options;
use super::client::{Figures, Side};
use super::report::{Better, Line};
use crate::connection::Call;
use crate::connection::{Target, client_config};
use crate::load::drive;

const OBJECTS: u64 = 3_000;
/// Objects that a side works on at a time.
const WORKERS: u64 = 16;
/// Runs of each side, in turn; the best counts.
const RUNS: usize = 2;

pub fn run(options: &Options) -> Result<()> {
    let mut best: [Option<Figures>; 2] = [None, None];
    for _ in 0..RUNS {
        for (place, side) in [Side::Setpoint, Side::ControllerRuntime].into_iter().enumerate() {
            let figures = measure(options, side)?;
            println!(
                "side={side:?} operator_seconds={:.3} client_cpu={:.3} server_cpu={:.3}",
                figures["seconds"], figures["cpu"], figures["server"]
            );
            if best[place].as_ref().is_none_or(|best| figures["seconds"] < best["seconds"]) {
                best[place] = Some(figures);
            }
        }
    }
    let [Some(ours), Some(theirs)] = best else { return Ok(()) };
    let objects = OBJECTS as f64;
    Line::new("small_operator_converged", "objects/s", Better::More, objects / ours["seconds"])
        .against("controller-runtime", Some(objects / theirs["seconds"]))
        .print();
    let each = |figures: &Figures, name: &str| figures[name] * 1e6 / objects;
    for (case, name) in [("small_operator_cpu", "cpu"), ("small_operator_server_cpu", "server")] {
        Line::new(case, "microseconds/object", Better::Less, each(&ours, name))
            .against("controller-runtime", Some(each(&theirs, name)))
            .print();
    }
    Ok(())
}

fn measure(options: &Options, side: Side) -> Result<Figures> {
    let folder = tempfile::tempdir()?;
    let plane = ControlPlane::start(folder.path(), &setpoint_peers::Options::default())?;
    create_parents(&plane)?;
    let flags = [
        ("config", plane.kubeconfig().display().to_string()),
        ("objects", OBJECTS.to_string()),
        ("workers", WORKERS.to_string()),
    ];
    let mut client = side.start(options, "operator", &flags, &[])?;
    client.expect("ready")?;
    let before = cpu(&plane)?;
    client.go()?;
    let mut figures = client.expect("converged")?;
    figures.insert("server".to_owned(), cpu(&plane)? - before);
    client.finish()?;
    Ok(figures)
}

/// Processor seconds of kube-apiserver and etcd.
fn cpu(plane: &ControlPlane) -> Result<f64> {
    plane.server_pids().into_iter().map(super::client::cpu).sum()
}

fn create_parents(plane: &ControlPlane) -> Result<()> {
    let tls = client_config(&std::fs::read(plane.authority())?, None)?;
    let target = Target { address: plane.address(), tls, token: Some("token-of-admin".to_owned()) };
    let calls = (0..OBJECTS).map(|number| {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"parent-{number:05}","labels":{{"bench":"parent"}}}},"data":{{"size":"{number}","text":"{}"}}}}"#,
            "some words of a setting ".repeat(8)
        );
        Call {
            method: Method::POST,
            path: "/api/v1/namespaces/default/configmaps".to_owned(),
            content_type: Some("application/json"),
            accept: "application/json",
            body: Bytes::from(body),
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(drive(&target, calls.collect()))?;
    Ok(())
}
