//! `setpoint up --demo`, as a newcomer meets it.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Setup;
use super::cluster::Cluster;

/// The promised time between ready and all samples healthy, in milliseconds.
const HEALTHY_WITHIN: u64 = 2000;
/// One start of so many must keep the promise: whatever else the machine does takes its time too.
const TRIES: usize = 3;

/// A cluster that kept the promise.
fn healthy(setup: &Setup) -> Result<Cluster> {
    for _ in 0..TRIES {
        let mut cluster = Cluster::start(&setup.setpoint, &["--demo"])?;
        cluster.line_with("Three operators run on this cluster")?;
        let healthy = cluster.line_with("all healthy")?;
        println!("demo: {}; {healthy}", cluster.ready.trim());
        let taken = healthy.split(' ').find_map(|word| word.parse::<u64>().ok()).context("no number")?;
        if taken < HEALTHY_WITHIN {
            return Ok(cluster);
        }
    }
    bail!("not once in {TRIES} tries were all healthy within the promised {HEALTHY_WITHIN} ms")
}

pub fn run(setup: &Setup) -> Result<()> {
    let program = setup.peer("kubectl")?;
    let cluster = healthy(setup)?;
    let kubectl = cluster.kubectl(&program);
    let soon = Duration::from_secs(20);
    kubectl.prints(&["get", "markdownview", "markdownview-sample"], "REPLICAS   STATUS")?;
    kubectl.prints(&["get", "markdownview", "markdownview-sample"], "Healthy")?;
    kubectl.prints(&["get", "deployment", "viewer-markdownview-sample"], "1/1")?;
    kubectl.prints(&["get", "--namespace", "foo", "deployment", "example-foo"], "1/1")?;
    kubectl.prints(&["get", "--namespace", "myresource", "myresource", "my-res1"], "Ready")?;
    // Without a port-forward: the page comes through the API server.
    let proxy = "/api/v1/namespaces/default/services/viewer-markdownview-sample:80/proxy/";
    kubectl.prints(&["get", "--raw", proxy], "<li>one</li>")?;
    // The suggestion of the text: the Foo restores its replicas.
    kubectl.ok(&["scale", "--namespace", "foo", "deployment", "example-foo", "--replicas=5"])?;
    let replicas =
        ["get", "--namespace", "foo", "deployment", "example-foo", "-o", "jsonpath={.spec.replicas}"];
    kubectl.comes_to_print(&replicas, "1", soon)
}
