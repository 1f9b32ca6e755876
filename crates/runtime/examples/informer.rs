//! Watches ConfigMaps through a shared informer and says what happens to them.
//!
//! ```text
//! KUBECONFIG=... cargo run -p setpoint --example informer
//! ```

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint::Target;
use setpoint::informer::{Event, FactoryOptions, InformerFactory, SubscribeOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = kube::Config::infer().await?;
    // Informers wait and try again themselves.
    config.default_retry = false;
    let factory = InformerFactory::new(kube::Client::try_from(config)?, FactoryOptions::default());
    let informer = factory.informer(Target::of::<ConfigMap>());
    informer.start();
    informer.wait_synced().await;
    let version = informer.last_sync_resource_version().unwrap_or_default();
    println!("synced {} at {version} with {} lists", informer.store().len(), informer.metrics().lists.get());
    let mut events = informer.subscribe(&SubscribeOptions::default());
    while let Some(event) = events.recv().await {
        let verb = match &event {
            Event::Add { is_initial: true, .. } => "found",
            Event::Add { .. } => "added",
            Event::Update { .. } => "changed",
            Event::Delete { .. } => "deleted",
        };
        println!("{verb} {} at {}", event.key(), event.object().revision());
    }
    Ok(())
}
