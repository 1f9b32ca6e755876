//! Nothing acknowledged is lost when the server is killed.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};

use super::Setup;
use super::cluster::Cluster;

/// A short slice; `cargo xtask soak` runs hundreds.
const KILLS: usize = 5;

pub fn run(setup: &Setup) -> Result<()> {
    let program = setup.peer("kubectl")?;
    let mut folder = super::folder::new()?;
    let mut written: BTreeSet<String> = BTreeSet::new();
    for round in 0..KILLS {
        let cluster =
            Cluster::start_in(&setup.setpoint, folder, &["--data-dir", "data", "--no-controllers"])?;
        let kubectl = cluster.kubectl(&program);
        let stored = kubectl.ok(&["get", "configmaps", "-o", "name"])?;
        let stored: BTreeSet<String> = stored.lines().map(str::to_owned).collect();
        let lost: Vec<&String> = written.difference(&stored).collect();
        ensure!(lost.is_empty(), "after kill {round}: {lost:?} were acknowledged and are gone");
        for number in 0..10 {
            let name = format!("c-{round}-{number}");
            let answer = kubectl.ok(&["create", "configmap", &name, "-o", "name"])?;
            written.insert(answer.trim().to_owned());
        }
        folder = cluster.kill().context("kill")?;
    }
    Ok(())
}
