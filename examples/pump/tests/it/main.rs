//! The mirror of a server in this process. Time is paused: waiting costs nothing.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use pump_mirror::{Mirror, Processor};
use serde_json::json;
use setpoint::Target;
use setpoint::clock::Random;
use setpoint::informer::{Event, Store};
use setpoint_cluster::{Cluster, Controllers, NodeOptions, Options};

/// The lines that the handlers wrote down.
type Told = Arc<Mutex<Vec<String>>>;

async fn cluster() -> Cluster {
    let nodes = NodeOptions { count: 0, ..NodeOptions::default() };
    let options = Options { seed: Some(1), controllers: Controllers::None, nodes, ..Options::default() };
    Cluster::start(options).await.unwrap()
}

fn config_maps(cluster: &Cluster) -> Api<ConfigMap> {
    Api::default_namespaced(cluster.client())
}

async fn create(cluster: &Cluster, name: &str) {
    let object = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    config_maps(cluster).create(&PostParams::default(), &object).await.unwrap();
}

fn say(event: &Event) -> String {
    let what = match event {
        Event::Add { is_initial: true, .. } => "initial",
        Event::Add { .. } => "add",
        Event::Update { .. } if event.is_resync() => "resync",
        Event::Update { .. } => "update",
        Event::Delete { .. } => "delete",
    };
    format!("{what} {}", event.key())
}

/// A mirror of the ConfigMaps in `default` whose handlers write down what they are told, in one list.
fn mirror(cluster: &Cluster, handlers: &[&'static str]) -> (Mirror, Told) {
    let (told, mut processor) = (Told::default(), Processor::default());
    for &name in handlers {
        let told = told.clone();
        processor.add(move |event| told.lock().unwrap().push(format!("{name}: {}", say(event))));
    }
    let target = Target::of::<ConfigMap>().fields("metadata.namespace=default");
    (Mirror::new(cluster.client(), &target, Random::from_seed(1), processor), told)
}

/// Waits until the mirror's copy is as wanted.
async fn until(store: &Store, wanted: impl Fn(&Store) -> bool) {
    let waiting = async {
        loop {
            let changed = store.next_change();
            if wanted(store) {
                return;
            }
            changed.await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_handler_is_told_of_each_change_in_order() {
    let cluster = cluster().await;
    create(&cluster, "one").await;
    let (mirror, told) = mirror(&cluster, &["first", "second"]);
    let test = async {
        assert!(mirror.wait_synced().await);
        let version = mirror.last_sync_resource_version().unwrap();
        create(&cluster, "two").await;
        let change = Patch::Merge(json!({"data": {"a": "b"}}));
        config_maps(&cluster).patch("one", &PatchParams::default(), &change).await.unwrap();
        config_maps(&cluster).delete("two", &DeleteParams::default()).await.unwrap();
        until(mirror.store(), |store| {
            let one = store.get("default/one").and_then(|one| one.path("data.a"));
            one.is_some() && store.get("default/two").is_none()
        })
        .await;
        assert_ne!(mirror.last_sync_resource_version().unwrap(), version);
        mirror.stop();
    };
    tokio::join!(mirror.run(), test);
    let told = told.lock().unwrap();
    let wanted = ["initial default/one", "add default/two", "update default/one", "delete default/two"];
    for handler in ["first", "second"] {
        let prefix = format!("{handler}: ");
        let of_handler: Vec<&str> = told.iter().filter_map(|line| line.strip_prefix(&prefix)).collect();
        assert_eq!(of_handler, wanted, "{handler}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resync_tells_of_every_object_again_and_asks_the_server_nothing() {
    let cluster = cluster().await;
    create(&cluster, "one").await;
    let (mirror, told) = mirror(&cluster, &["only"]);
    let mirror = mirror.full_resync(Duration::from_secs(60));
    let test = async {
        assert!(mirror.wait_synced().await);
        let revision = cluster.store().revision();
        tokio::time::sleep(Duration::from_secs(70)).await;
        assert_eq!(cluster.store().revision(), revision);
        mirror.stop();
    };
    tokio::join!(mirror.run(), test);
    assert_eq!(*told.lock().unwrap(), ["only: initial default/one", "only: resync default/one"]);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_is_stopped_first_never_syncs() {
    let cluster = cluster().await;
    let (mirror, told) = mirror(&cluster, &["only"]);
    mirror.stop();
    tokio::join!(mirror.run(), async { assert!(!mirror.wait_synced().await) });
    assert!(told.lock().unwrap().is_empty());
}
