//! Two processes with the same controllers: one leads, and when it goes the other does.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::super::Setup;
use super::super::cluster::{Cluster, Kubectl};
use super::Controllers;

/// Much less than a lease lasts: who ends in order gives it back.
const AT_ONCE: Duration = Duration::from_secs(10);

pub fn run(setup: &Setup) -> Result<()> {
    let cluster = Cluster::start(&setup.setpoint, &["--no-controllers"])?;
    let (folder, kubeconfig) = (cluster.folder.path(), cluster.kubeconfig());
    let kubectl = cluster.kubectl(&setup.peer("kubectl")?);
    let start = || {
        let flags = ["--nodes", "0"];
        Controllers::start_elected(&setup.setpoint, &kubeconfig, folder, &flags)
    };
    let _node = Controllers::start(&setup.setpoint, &kubeconfig, folder, &["--only", "node"])?;
    let first = start()?;
    let leader = another(&kubectl, "", AT_ONCE)?;
    let second = start()?;
    kubectl.comes_to_print(&["get", "serviceaccounts"], "default", AT_ONCE)?;
    kubectl.ok(&["create", "deployment", "web", "--image=web:1", "--replicas=3"])?;
    kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    ensure!(holder(&kubectl)? == leader, "the lease moved though its holder lives");
    terminate(first)?;
    another(&kubectl, &leader, AT_ONCE)?;
    kubectl.ok(&["set", "image", "deployment/web", "web=web:2"])?;
    kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    terminate(second)
}

/// Returns the leader.
fn holder(kubectl: &Kubectl) -> Result<String> {
    let output = kubectl.command(&LEASE).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

const LEASE: [&str; 7] =
    ["get", "lease", "setpoint-controllers", "-n", "kube-system", "-o", "jsonpath={.spec.holderIdentity}"];

/// Waits for another leader.
fn another(kubectl: &Kubectl, than: &str, within: Duration) -> Result<String> {
    let deadline = std::time::Instant::now() + within;
    loop {
        let now = holder(kubectl)?;
        if !now.is_empty() && now != than {
            return Ok(now);
        }
        ensure!(std::time::Instant::now() < deadline, "after {within:?} the lease is {now:?}'s");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn terminate(mut controllers: Controllers) -> Result<()> {
    let pid = controllers.0.id().to_string();
    ensure!(Command::new("kill").arg(pid).status().context("kill")?.success(), "kill failed");
    let ended = controllers.0.wait()?;
    ensure!(ended.success(), "setpoint controllers ended with {ended}");
    Ok(())
}
