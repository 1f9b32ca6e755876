//! Controllers killed at random points of a rollout: it always ends right.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use serde_json::json;
use setpoint_api::Random;
use tokio::task::JoinSet;

use super::{World, deployment, image};

const REPLICAS: i32 = 6;
const SURGE: i32 = 2;
const UNAVAILABLE: i32 = 1;
const CRASHES: u64 = 5;
/// Writes between two crashes, at most.
const APART: u64 = 25;

/// The pod that ends the witness's watch: the witness has then seen all earlier events.
const END: &str = "end";

/// Watches the pods and checks the two promises of a rolling update at every change.
async fn witness(pods: Api<Pod>, from: String) {
    let mut stream = Box::pin(pods.watch(&WatchParams::default(), &from).await.unwrap());
    let mut seen = BTreeMap::<String, (bool, bool)>::new();
    let mut complete = false;
    while let Some(event) = stream.try_next().await.unwrap() {
        match event {
            WatchEvent::Added(pod) if pod.metadata.name.as_deref() == Some(END) => return,
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
                let ready =
                    conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
                let alive = pod.metadata.deletion_timestamp.is_none();
                seen.insert(pod.metadata.name.unwrap(), (alive, ready && alive));
            }
            WatchEvent::Deleted(pod) => drop(seen.remove(&pod.metadata.name.unwrap())),
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(error) => panic!("{error}"),
        }
        let alive = seen.values().filter(|(alive, _)| *alive).count();
        let available = seen.values().filter(|(_, available)| *available).count();
        complete |= available == REPLICAS as usize;
        assert!(alive <= (REPLICAS + SURGE) as usize, "{alive} pods: more than surge allows");
        assert!(
            !complete || available >= (REPLICAS - UNAVAILABLE) as usize,
            "{available} pods available: too few"
        );
    }
    panic!("the watch ended early");
}

async fn rollout_with_crashes(seed: u64) {
    let mut world = World::with(seed).await;
    let mut manifest = deployment("web", REPLICAS, "web:1");
    manifest["spec"]["strategy"] = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": SURGE, "maxUnavailable": UNAVAILABLE } });
    world.create::<Deployment>(manifest).await;
    world.rolled_out("web").await;
    let mut witnesses = JoinSet::new();
    // From the beginning: the witness must know the pods that are there.
    witnesses.spawn(witness(world.api::<Pod>(), "0".to_owned()));
    world.patch::<Deployment>("web", image("web:2")).await;
    let random = Random::from_seed(seed);
    for _ in 0..CRASHES {
        let target = world.cluster.store().revision() + 1 + random.below(APART);
        let done = world
            .until("some writes, or the end", async || {
                let enough = world.cluster.store().revision() >= target;
                let over = super::is_rolled_out(&world.deployment("web").await);
                (enough || over).then_some(over)
            })
            .await;
        world.crash().await;
        world.run_controllers();
        if done {
            break;
        }
    }
    world.rolled_out("web").await;
    world
        .until("nothing is left over", async || (world.pods().await.len() == REPLICAS as usize).then_some(()))
        .await;
    let sets = world.sets().await;
    let mut sizes: Vec<i32> = sets.iter().map(|set| set.spec.replicas.unwrap()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, REPLICAS], "one ReplicaSet a template");
    for pod in world.pods().await {
        let owner = pod.metadata.owner_references.and_then(|owners| owners.into_iter().next());
        assert!(
            owner.is_some_and(|owner| sets.iter().any(|set| set.metadata.uid.as_ref() == Some(&owner.uid)))
        );
        assert_eq!(pod.spec.unwrap().containers[0].image.as_deref(), Some("web:2"));
    }
    let end = json!({ "metadata": { "name": END, "namespace": "default" },
        "spec": { "containers": [{ "name": "c", "image": "end" }] } });
    world.create::<Pod>(end).await;
    if let Some(Err(failed)) = witnesses.join_next().await {
        panic!("seed {seed}: {failed}");
    }
}

/// Seeds of one test run; `SETPOINT_CRASH_SEEDS` at compile time asks for more. Each is a rollout with up to five
/// crashes.
const SEEDS: u64 = match option_env!("SETPOINT_CRASH_SEEDS") {
    None => 12,
    Some(text) => match u64::from_str_radix(text, 10) {
        Ok(seeds) => seeds,
        Err(_) => panic!("SETPOINT_CRASH_SEEDS is no number"),
    },
};

#[tokio::test(start_paused = true)]
async fn a_rollout_survives_crashes_of_its_controllers() {
    for seed in 0..SEEDS {
        rollout_with_crashes(seed).await;
    }
}
