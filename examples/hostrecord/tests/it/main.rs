//! The operator on a cluster in this process, and a folder outside of it. Time is paused: waiting costs nothing.
#![allow(clippy::unwrap_used)]

mod life;
mod trials;

use hostrecord_operator::{Folder, HostRecord};
use operator_testing::{TestedOperator, World, until};
use serde_json::{Value, json};
use setpoint::{Key, Manager, SetupError};
use tempfile::TempDir;

thread_local! {
    /// The folder of this test: each test has a thread of its own.
    static FOLDER: TempDir = tempfile::tempdir().unwrap();
}

fn folder() -> Folder {
    FOLDER.with(|folder| Folder::open(folder.path()).unwrap())
}

fn register(manager: &Manager) -> Result<(), SetupError> {
    hostrecord_operator::register(manager, folder())
}

/// The operator as the trials see it.
const OPERATOR: TestedOperator =
    TestedOperator { name: hostrecord_operator::NAME, register, manifests: hostrecord_operator::manifests };

fn record(name: &str, service: &str) -> Value {
    json!({
        "apiVersion": "dns.example.com/v1", "kind": "HostRecord", "metadata": {"name": name},
        "spec": {"hostname": format!("{name}.example.com"), "service": service},
    })
}

fn service(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"clusterIP": address, "ports": [{"port": 80}]},
    })
}

/// The file of a record in the namespace `default`.
fn file(name: &str) -> Option<String> {
    folder().read(&Key::new(Some("default"), name)).unwrap()
}

async fn until_file(name: &str, line: Option<&str>) {
    until(&format!("{name} is {line:?}"), async || (file(name).as_deref() == line).then_some(())).await;
}

async fn until_state(world: &World, name: &str, state: &str) {
    until(&format!("{name} {state}"), async || {
        let record = world.get::<HostRecord>(name).await?;
        (record["status"]["state"] == state).then_some(())
    })
    .await;
}

async fn until_gone(world: &World, name: &str) {
    until(&format!("no {name}"), async || world.get::<HostRecord>(name).await.is_none().then_some(())).await;
}
