//! Keeps a cache of ConfigMaps with kube's own reflector and tells on request what is in it: each line on its input is
//! answered with one line of JSON on its output. `kube-watcher KUBECONFIG list|stream`.

use std::collections::BTreeMap;
use std::error::Error;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let file = words.next().ok_or("no kubeconfig")?;
    let streaming = words.next().as_deref() == Some("stream");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?;
    let api: Api<ConfigMap> = Api::all(Client::try_from(config)?);
    let settings = watcher::Config::default();
    let settings = if streaming { settings.streaming_lists() } else { settings };
    let (reader, writer) = reflector::store();
    let changes = watcher(api, settings).default_backoff().reflect(writer);
    let mut changes = std::pin::pin!(changes);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        tokio::select! {
            biased;
            // An error is followed by a new attempt: that is what is looked at here.
            change = changes.next() => if change.is_none() { return Err("the watch ended".into()) },
            line = lines.next_line() => {
                if line?.is_none() {
                    return Ok(());
                }
                let version = |map: &ConfigMap| map.resource_version().unwrap_or_default();
                let name = |map: &ConfigMap| format!("{}/{}", map.namespace().unwrap_or_default(), map.name_any());
                let state = reader.state();
                let objects: BTreeMap<String, String> = state.iter().map(|map| (name(map), version(map))).collect();
                println!("{}", json!({"objects": objects}));
            }
        }
    }
}
