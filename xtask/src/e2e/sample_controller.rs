//! The original sample-controller and our Foo on clusters of ours: the same objects after the same actions, and the
//! requests that each needs for one Foo.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::cluster::{Cluster, Kubectl};
use super::operator::{self, FOO, Running};
use super::{Setup, objects};

const SOON: Duration = Duration::from_secs(60);
/// Foos whose requests are counted.
const COUNTED: usize = 20;

pub fn run(setup: &Setup) -> Result<()> {
    let kubectl = setup.peer("kubectl")?;
    let original = setup.peer("sample-controller")?;
    let programs = operator::build()?;
    let ours = programs.join(FOO.program);
    let crd = FOO.prints(&programs, &["crd"])?;
    let left = actions(setup, &kubectl, &original, &crd)?;
    let right = actions(setup, &kubectl, &ours, &crd)?;
    objects::equal("sample-controller and foo-controller", &left, &right)?;
    println!("sample-controller: {} objects are the same after the original and after ours", left.len());
    let theirs = count(setup, &kubectl, &original, &crd)?;
    let own = count(setup, &kubectl, &ours, &crd)?;
    println!("sample-controller: requests for a Foo from create to synced and available ({COUNTED} Foos)");
    println!("  original {theirs}");
    println!("  ours     {own}");
    ensure!(own.total() <= theirs.total(), "ours needs more requests than the original");
    Ok(())
}

fn started(
    setup: &Setup,
    kubectl: &Path,
    program: &Path,
    crd: &str,
    flags: &[&str],
) -> Result<(Cluster, Running)> {
    let cluster = Cluster::start(&setup.setpoint, flags)?;
    cluster.kubectl(kubectl).feed(&["apply", "-f", "-"], Some(crd))?;
    let running = Running::start(program, &cluster.kubeconfig(), &[])?;
    Ok((cluster, running))
}

/// Runs through the life of a Foo, and returns the remaining objects.
fn actions(setup: &Setup, program: &Path, controller: &Path, crd: &str) -> Result<Vec<Value>> {
    let (cluster, running) = started(setup, program, controller, crd, &[])?;
    let kubectl = cluster.kubectl(program);
    let available = |name: &str, wanted: &str| {
        let words = ["get", "foo", name, "-o", "jsonpath={.status.availableReplicas}"];
        operator::until(&format!("foo {name} with {wanted} available"), SOON, || {
            Ok(kubectl.ok(&words)? == wanted)
        })
        .with_context(|| running.said())
    };
    for (name, replicas) in [("one", 1), ("two", 2), ("gone", 1)] {
        kubectl.feed(&["apply", "-f", "-"], Some(&foo(name, replicas)))?;
        available(name, &replicas.to_string())?;
    }
    // Scaled by its Foo, scaled behind its back, deleted, and its owner deleted.
    kubectl.ok(&["patch", "foo", "one", "--type=merge", "-p", r#"{"spec":{"replicas":3}}"#])?;
    available("one", "3")?;
    kubectl.ok(&["scale", "deployment/two", "--replicas=5"])?;
    kubectl.comes_to_print(&["get", "deployment", "two", "-o", "jsonpath={.spec.replicas}"], "2", SOON)?;
    kubectl.ok(&["delete", "foo", "gone", "--cascade=foreground"])?;
    kubectl.ok(&["delete", "deployment", "two", "--cascade=foreground"])?;
    kubectl.comes_to_print(&["get", "deployment", "two", "-o", "jsonpath={.metadata.name}"], "two", SOON)?;
    // A Deployment with another owner.
    kubectl.ok(&["create", "deployment", "taken", "--image=nginx"])?;
    kubectl.feed(
        &["apply", "-f", "-"],
        Some(&foo("blocked", 1).replace("deploymentName: blocked", "deploymentName: taken")),
    )?;
    let reasons =
        ["get", "events", "-o", "jsonpath={range .items[*]}{.type}/{.reason}/{.message}{\"\\n\"}{end}"];
    let refused = "Warning/ErrResourceExists/Resource \"taken\" already exists and is not managed by Foo";
    kubectl.comes_to_print(&reasons, refused, SOON)?;
    kubectl.prints(&reasons, "Normal/Synced/Foo synced successfully")?;
    for name in ["one", "two", "taken"] {
        kubectl.ok(&["rollout", "status", "deployment", name, "--timeout=30s"])?;
    }
    available("one", "3")?;
    available("two", "2")?;
    objects::read(&kubectl, "foo,deployment", "default")
}

fn foo(name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata:\n  name: {name}\n\
         spec:\n  deploymentName: {name}\n  replicas: {replicas}\n"
    )
}

/// Requests by verb and resource.
#[derive(Default)]
struct Counts(BTreeMap<String, u64>);

impl Counts {
    fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} a Foo:", self.total() as f64 / COUNTED as f64)?;
        self.0.iter().try_for_each(|(what, count)| write!(f, " {count} {what}"))
    }
}

/// Counts all requests on a server without other clients, except watches and kubectl's own.
fn count(setup: &Setup, program: &Path, controller: &Path, crd: &str) -> Result<Counts> {
    let (cluster, running) = started(setup, program, controller, crd, &["--no-controllers"])?;
    let kubectl = cluster.kubectl(program);
    operator::until("the controller to watch", SOON, || {
        let watched = |row: &str| {
            operator::label(row, "verb") == "WATCH"
                && ["foos", "deployments"].contains(&operator::label(row, "resource"))
        };
        Ok(opened(&kubectl, watched)? >= 2)
    })
    .with_context(|| running.said())?;
    let before = asked(&kubectl)?;
    let all: Vec<String> = (0..COUNTED).map(|number| foo(&format!("foo-{number}"), 1)).collect();
    kubectl.feed(&["create", "-f", "-"], Some(&all.join("---\n")))?;
    let synced = |wanted: &str| {
        let words = ["get", "foo", "-o", "jsonpath={.items[*].status.availableReplicas}"];
        let all = vec![wanted; COUNTED].join(" ");
        operator::until(&format!("{COUNTED} Foos with {wanted}"), SOON, || Ok(kubectl.ok(&words)? == all))
            .with_context(|| running.said())
    };
    synced("0")?;
    let ready = r#"{"status":{"replicas":1,"readyReplicas":1,"availableReplicas":1}}"#;
    for number in 0..COUNTED {
        let name = format!("foo-{number}");
        kubectl.ok(&["patch", "deployment", &name, "--subresource=status", "--type=merge", "-p", ready])?;
    }
    synced("1")?;
    // The last event is on its way.
    let pause = Duration::from_millis(500);
    let last = operator::until_at_rest("the last request", SOON, pause, || asked(&kubectl))?;
    Ok(Counts(
        last.into_iter()
            .map(|(what, count)| {
                let earlier = before.get(&what).copied().unwrap_or(0);
                (what, count - earlier)
            })
            .filter(|(_, count)| *count > 0)
            .collect(),
    ))
}

/// Counts writes to kinds that a sample-controller writes, without kubectl's: it creates Foos and patches
/// Deployments.
fn asked(kubectl: &Kubectl) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for (row, count) in operator::requests(kubectl)? {
        let (verb, resource) = (operator::label(&row, "verb"), operator::label(&row, "resource"));
        let subresource = operator::label(&row, "subresource");
        let of_kubectl = resource == "foos" && subresource.is_empty()
            || resource == "deployments" && subresource == "status";
        if ["foos", "deployments", "events"].contains(&resource)
            && verb != "WATCH"
            && verb != "LIST"
            && !of_kubectl
        {
            let name = if subresource.is_empty() {
                resource.to_owned()
            } else {
                format!("{resource}/{subresource}")
            };
            *counts.entry(format!("{verb} {name}")).or_insert(0) += count;
        }
    }
    Ok(counts)
}

fn opened(kubectl: &Kubectl, wanted: impl Fn(&str) -> bool) -> Result<u64> {
    Ok(operator::requests(kubectl)?.iter().filter(|(row, _)| wanted(row)).map(|(_, count)| count).sum())
}
