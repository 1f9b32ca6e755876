//! A cluster in this process, as a test starts one.

use std::time::{Duration, Instant};

use anyhow::Result;
use setpoint_cluster::{Cluster, Controllers, NodeOptions, Options};

use super::{Case, Figure};
use crate::server;

/// Clusters that live at the same time.
const CLUSTERS: usize = 200;

/// From calling `start` until the API answers, and what an idle cluster adds to the process.
pub async fn measure() -> Result<Vec<Case>> {
    // The first one decodes the schema table, which all share.
    held(&everything()).await?.shutdown().await;
    let mut cases = Vec::new();
    for (name, options) in [("library-start", everything()), ("library-start-bare", bare())] {
        cases.push(Case::less(name, "ms", Figure::plain(start_time(&options).await?)));
    }
    let mut clusters = Vec::with_capacity(CLUSTERS);
    let before = server::usage(std::process::id())?.resident_bytes;
    for _ in 0..CLUSTERS {
        clusters.push(held(&everything()).await?);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = server::usage(std::process::id())?.resident_bytes;
    let each = after.saturating_sub(before) as f64 / 1e6 / CLUSTERS as f64;
    cases.push(Case::less("library-rss", "MB", Figure::plain(each)));
    for cluster in clusters {
        cluster.shutdown().await;
    }
    Ok(cases)
}

/// The middle of several.
async fn start_time(options: &Options) -> Result<f64> {
    const TIMES: usize = 31;
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = Instant::now();
        let cluster = held(options).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        cluster.shutdown().await;
    }
    times.sort_by(f64::total_cmp);
    Ok(times[TIMES / 2])
}

async fn held(options: &Options) -> Result<Cluster> {
    let cluster = Cluster::start(options.clone()).await?;
    cluster.client().apiserver_version().await?;
    Ok(cluster)
}

/// Every controller and one node.
fn everything() -> Options {
    Options::default()
}

/// The API server alone.
fn bare() -> Options {
    let nodes = NodeOptions { count: 0, ..NodeOptions::default() };
    Options { controllers: Controllers::None, nodes, ..Options::default() }
}
