//! One of several processes leads: `cargo run -p setpoint --example leader -- NAME`.
//!
//! Start it twice against one cluster (`KUBECONFIG`). The leader writes its name into the ConfigMap
//! `default/heartbeat` five times a second; the other waits. Stop the leader with ctrl-c (it hands over at once),
//! kill it (the other takes over after 15 s), or pause it with SIGSTOP for longer than that and let it go on: it
//! writes nothing any more and exits.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use setpoint::{LeaderElection, Manager, ManagerOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let identity = std::env::args().nth(1).ok_or("the name of this process is missing")?;
    let election = LeaderElection::new("default", "setpoint-leader-example").identity(&identity);
    let options = ManagerOptions {
        name: identity.clone(),
        leader_election: Some(election),
        ..ManagerOptions::default()
    };
    let manager = Manager::new(setpoint::connect().await?, options);
    let client = manager.client();
    manager.add("heartbeat", move |stopping| async move {
        println!("{identity} leads");
        for beat in 0u64.. {
            let config = json!({"metadata": {"name": "heartbeat", "namespace": "default"},
                "data": {"leader": identity, "beat": beat.to_string()}});
            match client.apply_partial::<ConfigMap>(&config).await {
                Ok(_) => println!("{identity} wrote {beat}"),
                Err(error) => println!("{identity} did not write {beat}: {error}"),
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                () = tokio::time::sleep(Duration::from_millis(200)) => {}
            }
        }
        Ok(())
    })?;
    manager.run_until_signal().await?;
    Ok(())
}
