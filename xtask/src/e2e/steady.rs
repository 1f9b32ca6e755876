//! A cluster with three operators and many objects, all over TLS: when nothing changes, nothing is asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Setup;
use super::cluster::{Cluster, Kubectl};
use super::operator::{self, ALL, Example, Running};

const SOON: Duration = Duration::from_secs(300);

/// A short slice; `cargo xtask soak steady` has a thousand of each for a minute.
pub fn run(setup: &Setup) -> Result<()> {
    at_rest(setup, 50, Duration::from_secs(10))
}

/// `count` objects for each operator at rest for some time.
pub fn at_rest(setup: &Setup, count: usize, quiet: Duration) -> Result<()> {
    let program = setup.peer("kubectl")?;
    let programs = operator::build()?;
    // Nodes have room for 110 pods each, as kubelets do.
    let nodes = (count * ALL.len()).div_ceil(100).to_string();
    let cluster = Cluster::start(&setup.setpoint, &["--nodes", &nodes])?;
    let kubectl = cluster.kubectl(&program);
    let mut running = Vec::new();
    for example in ALL {
        running.push(start(&kubectl, &cluster.kubeconfig(), &programs, &example)?);
        let sample = example.sample_text()?;
        let (_, name) = example.sample;
        let all: Vec<String> = (0..count)
            .map(|number| sample.replace(name, &format!("{}-{number}", example.sample.0)))
            .collect();
        kubectl.feed(&["create", "-f", "-"], Some(&all.join("\n---\n")))?;
    }
    for (example, running) in ALL.iter().zip(&running) {
        until_all_well(&kubectl, example, count).with_context(|| running.said())?;
    }
    let began = Instant::now();
    // Events and rollouts end a moment after the last status.
    let pause = Duration::from_secs(2);
    let before = operator::until_at_rest("the cluster to come to rest", SOON, pause, || asked(&kubectl))?;
    let rested = began.elapsed();
    std::thread::sleep(quiet);
    let after = asked(&kubectl)?;
    let more: Vec<String> = after
        .iter()
        .filter(|(what, count)| before.get(*what) != Some(count))
        .map(|(what, count)| format!("{} {what}", count - before.get(what).copied().unwrap_or(0)))
        .collect();
    ensure!(more.is_empty(), "while nothing changed: {more:?}; the last events: {}", last_events(&kubectl)?);
    println!(
        "steady: {count} objects of each operator, no request in {} s (at rest after {:.0} s)",
        quiet.as_secs(),
        rested.as_secs_f64()
    );
    Ok(())
}

fn start(kubectl: &Kubectl, kubeconfig: &Path, programs: &Path, example: &Example) -> Result<Running> {
    kubectl.feed(&["apply", "-f", "-"], Some(&example.prints(programs, &["crd"])?))?;
    Running::start(&programs.join(example.program), kubeconfig, &["--leader-elect"])
}

fn until_all_well(kubectl: &Kubectl, example: &Example, count: usize) -> Result<()> {
    let (kind, _) = example.sample;
    operator::until(&format!("{count} of {kind} to be well"), SOON, || {
        let list: Value = serde_json::from_str(&kubectl.ok(&["get", kind, "-o", "json"])?)?;
        let items = list["items"].as_array().context("no list")?;
        Ok(items.len() == count && items.iter().all(|object| example.is_well(object)))
    })
}

/// Returns the newest events, to find the component that was not at rest.
fn last_events(kubectl: &Kubectl) -> Result<String> {
    let list: Value = serde_json::from_str(&kubectl.ok(&["get", "events", "-A", "-o", "json"])?)?;
    let mut events: Vec<&Value> = list["items"].as_array().context("no list")?.iter().collect();
    let revision = |event: &Value| {
        event["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok())
    };
    events.sort_by_key(|event| revision(event));
    let newest: Vec<String> = events.iter().rev().take(3).map(|event| event.to_string()).collect();
    Ok(newest.join("\n"))
}

/// Every request of whatever kind, but for watches, leases, nodes' heartbeats and this question itself.
fn asked(kubectl: &Kubectl) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for (row, count) in operator::requests(kubectl)? {
        let (verb, resource) = (operator::label(&row, "verb"), operator::label(&row, "resource"));
        if verb != "WATCH" && !["leases", "nodes", ""].contains(&resource) {
            let subresource = operator::label(&row, "subresource");
            *counts.entry(format!("{verb} {resource} {subresource}")).or_insert(0) += count;
        }
    }
    Ok(counts)
}
