//! One of several processes leads: `cargo run -p setpoint --example leader -- NAME [LEASE RENEW RETRY]`.
//!
//! Start it twice against one cluster (`KUBECONFIG`). Ten times a second the leader's controller reconciles and
//! writes a count into the ConfigMap `default/heartbeat-NAME`; the other waits. Stop the leader with ctrl-c (it hands
//! over at once), kill it (the other takes over after the lease, 15 s unless another number of seconds is given), or
//! pause it with SIGSTOP for longer than that and let it go on: it begins no reconcile, writes nothing and exits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use setpoint::leader_election::LeaderElection;
use setpoint::{Action, Context, Controller, Key, Manager, ManagerOptions};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn election(words: &[String]) -> Result<LeaderElection, BoxError> {
    let identity = words.first().ok_or("the name of this process is missing")?;
    let mut election = LeaderElection::new("default", "setpoint-leader-example").identity(identity);
    if let [_, lease, renew, retry] = words {
        election.lease_duration = Duration::from_secs_f64(lease.parse()?);
        election.renew_deadline = Duration::from_secs_f64(renew.parse()?);
        election.retry_period = Duration::from_secs_f64(retry.parse()?);
    }
    Ok(election)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let election = election(&words)?;
    let name = election.identity.clone();
    let options = ManagerOptions::with(|options| {
        options.name = name.clone();
        options.leader_election = Some(election);
    });
    let manager = Manager::new(setpoint::connect().await?, options);
    let (ticks, received) = tokio::sync::mpsc::channel(1);
    let beats = Arc::new(AtomicU64::new(0));
    Controller::new(&manager, "heartbeat").channel("ticks", received).register(
        move |ctx: Context, key: Key| {
            let (beats, name) = (Arc::clone(&beats), name.clone());
            async move {
                let beat = beats.fetch_add(1, Ordering::Relaxed);
                println!("{name} reconciles {beat}");
                let config = json!({"metadata": {"name": key.name(), "namespace": key.namespace()},
                    "data": {"beat": beat.to_string()}});
                match ctx.client().apply_partial::<ConfigMap>(&config).await {
                    Ok(_) => println!("{name} wrote {beat}"),
                    Err(error) => println!("{name} did not write {beat}: {error}"),
                }
                Ok(Action::done())
            }
        },
    )?;
    let key = Key::namespaced("default", &format!("heartbeat-{}", words[0]));
    manager.add_always("ticks", |stopping| async move {
        while !stopping.is_cancelled() {
            // A full channel means that a tick waits already.
            let _ = ticks.try_send(key.clone());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    })?;
    manager.run_until_signal().await?;
    Ok(())
}
