//! Measures a cluster inside a process: the time until its API answers, and the memory of an idle one. `cargo run
//! --release -p setpoint-cluster --example library` prints `case=NAME value=VALUE unit=UNIT` lines.

// A program that prints figures: it measures in real time.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::time::{Duration, Instant};

use setpoint_cluster::{Cluster, Controllers, NodeOptions, Options};

/// Starts that the middle one is taken of.
const TIMES: usize = 31;
/// Clusters that live at the same time.
const CLUSTERS: usize = 200;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let first = answering(&everything()).await?;
    // The first one of a process decodes what all others share.
    println!("case=library-first-start value={:.2} unit=ms", millis(began));
    first.shutdown().await;
    println!("case=library-start value={:.2} unit=ms", start_time(&everything()).await?);
    println!("case=library-start-bare value={:.2} unit=ms", start_time(&bare()).await?);
    // All clusters stay until both kinds are measured. Otherwise the second kind would reuse memory that the first
    // released.
    let mut clusters = Vec::with_capacity(2 * CLUSTERS);
    println!("case=library-rss value={:.3} unit=MB", idle_size(&everything(), &mut clusters).await?);
    println!("case=library-rss-bare value={:.3} unit=MB", idle_size(&bare(), &mut clusters).await?);
    for cluster in clusters {
        cluster.shutdown().await;
    }
    Ok(())
}

/// Every controller and one node, as tests have it.
fn everything() -> Options {
    Options::default()
}

/// The API server alone.
fn bare() -> Options {
    let nodes = NodeOptions { count: 0, ..NodeOptions::default() };
    Options { controllers: Controllers::None, nodes, ..Options::default() }
}

async fn answering(options: &Options) -> Result<Cluster, Box<dyn Error>> {
    let cluster = Cluster::start(options.clone()).await?;
    cluster.client().apiserver_version().await?;
    Ok(cluster)
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

async fn start_time(options: &Options) -> Result<f64, Box<dyn Error>> {
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = Instant::now();
        let cluster = answering(options).await?;
        times.push(millis(began));
        cluster.shutdown().await;
    }
    times.sort_by(f64::total_cmp);
    Ok(times[TIMES / 2])
}

async fn idle_size(options: &Options, clusters: &mut Vec<Cluster>) -> Result<f64, Box<dyn Error>> {
    let before = resident()?;
    for _ in 0..CLUSTERS {
        clusters.push(answering(options).await?);
    }
    // Controllers and nodes come to rest.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok((resident()? - before) / CLUSTERS as f64)
}

/// This process's resident memory, in MB.
fn resident() -> Result<f64, Box<dyn Error>> {
    const PAGE: f64 = 4096.0;
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = pages.split_whitespace().nth(1).ok_or("no resident size")?.parse()?;
    Ok(pages * PAGE / 1e6)
}
