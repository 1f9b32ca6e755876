//! Prints the changes of the pods in a cluster, and how many pods each node has.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use pump_mirror::{Mirror, Processor};
use setpoint::informer::{Event, FactoryOptions};
use setpoint::program::{Program, Signals};
use setpoint::{Object, Target, client};
use tracing::info;
use tracing_subscriber::EnvFilter;

/// Prints the changes of the pods in a cluster, and how many pods each node has, until Ctrl-C.
#[derive(Parser, Debug)]
#[command(version)]
struct Command {
    /// The kubeconfig of the cluster.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// The number of pods by node.
type Tally = Arc<Mutex<BTreeMap<String, i64>>>;

#[tokio::main]
async fn main() -> Result<(), setpoint::Error> {
    let level = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(level).with_ansi(false).init();
    let Command { kubeconfig } = Command::parse();
    let config = Program::with(|program| program.kubeconfig = kubeconfig).config().await?;
    let tally = Tally::default();
    let mut processor = Processor::default();
    processor.add(print);
    processor.add({
        let tally = tally.clone();
        move |event| count(&tally, event)
    });
    let client = client::connect_with(config)?;
    let mirror = Mirror::new(client, &Target::of::<Pod>(), FactoryOptions::default().random, processor);
    let mut signals = Signals::new()?;
    let synced = async {
        if mirror.wait_synced().await {
            let version = mirror.last_sync_resource_version();
            let nodes = tally.lock().map(|tally| tally.clone()).unwrap_or_default();
            info!(pods = mirror.store().len(), version, ?nodes, "the first list is complete");
        }
    };
    let stop = async {
        signals.next().await;
        mirror.stop();
    };
    tokio::join!(mirror.run(), synced, stop);
    Ok(())
}

/// Logs each event.
fn print(event: &Event) {
    let (object, node) = (event.key(), node(event.object()));
    match event {
        Event::Add { is_initial, .. } => info!(%object, node, is_initial, "added"),
        Event::Update { .. } => info!(%object, node, "updated"),
        Event::Delete { final_state_unknown, .. } => info!(%object, node, final_state_unknown, "deleted"),
    }
}

/// Keeps the tally right.
fn count(tally: &Tally, event: &Event) {
    let Ok(mut tally) = tally.lock() else { return };
    let (gone, come) = match event {
        Event::Add { object, .. } => (None, Some(object)),
        Event::Update { old, new } => (Some(old), Some(new)),
        Event::Delete { object, .. } => (Some(object), None),
    };
    for (object, by) in gone.map(|object| (object, -1)).into_iter().chain(come.map(|object| (object, 1))) {
        *tally.entry(node(object).unwrap_or_else(|| "none".to_owned())).or_default() += by;
    }
    tally.retain(|_, pods| *pods != 0);
}

fn node(pod: &Object) -> Option<String> {
    pod.path("spec.nodeName")
}
