//! `setpoint up --demo`, as a newcomer meets it.

use std::time::Duration;

use anyhow::Result;

use super::Setup;
use super::cluster::Cluster;

pub fn run(setup: &Setup) -> Result<()> {
    let program = setup.peer("kubectl")?;
    let cluster = Cluster::start(&setup.setpoint, &["--demo"])?;
    let kubectl = cluster.kubectl(&program);
    let soon = Duration::from_secs(20);
    kubectl.comes_to_print(&["get", "markdownview", "markdownview-sample"], "Healthy", soon)?;
    kubectl.prints(&["get", "markdownview", "markdownview-sample"], "REPLICAS   STATUS")?;
    kubectl.prints(&["get", "deployment", "viewer-markdownview-sample"], "1/1")?;
    Ok(())
}
