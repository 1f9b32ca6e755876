//! Quotas that several want to use at once, and what costs nothing.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::cluster::{Cluster, MAPS, MERGE, start};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A quota as it is once a controller has measured it.
async fn quota(cluster: &Cluster, name: &str, hard: Value) {
    let quota = json!({"metadata": {"name": name}, "spec": {"hard": hard}});
    cluster.post(QUOTAS, &quota).await.expect(201);
    let none = hard.as_object().unwrap().keys().map(|name| (name.clone(), json!("0")));
    let status = json!({"status": {"hard": hard, "used": none.collect::<Value>()}});
    cluster.patch(&format!("{QUOTAS}/{name}/status"), MERGE, &status).await.expect(200);
}

async fn used(cluster: &Cluster, name: &str) -> Value {
    cluster.get(&format!("{QUOTAS}/{name}")).await.expect(200)["status"]["used"].clone()
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_at_once_never_use_more_than_there_is() {
    let cluster = Arc::new(start().await);
    quota(&cluster, "few", json!({"count/configmaps": "7"})).await;
    let mut writers = JoinSet::new();
    for number in 0..32 {
        let cluster = cluster.clone();
        writers.spawn(async move {
            let map = json!({"metadata": {"name": format!("m{number}")}});
            cluster.post(MAPS, &map).await.code
        });
    }
    let codes = writers.join_all().await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 7, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 403).count(), 25, "{codes:?}");
    assert_eq!(cluster.get(MAPS).await.expect(200)["items"].as_array().unwrap().len(), 7);
    assert_eq!(used(&cluster, "few").await, json!({"count/configmaps": "7"}));
}

#[tokio::test]
async fn what_is_not_written_costs_nothing() {
    let cluster = start().await;
    quota(&cluster, "q", json!({"count/configmaps": "2", "count/pods": "1", "requests.cpu": "1"})).await;
    let map = json!({"metadata": {"name": "m"}});
    cluster.post(&format!("{MAPS}?dryRun=All"), &map).await.expect(201);
    cluster.post(MAPS, &map).await.expect(201);
    cluster.post(MAPS, &map).await.expect(409);
    cluster.post(MAPS, &json!({"metadata": {"name": "M"}})).await.expect(422);
    cluster.patch(&format!("{MAPS}/m"), MERGE, &json!({"data": {"k": "v"}})).await.expect(200);
    let expected = json!({"count/configmaps": "1", "count/pods": "0", "requests.cpu": "0"});
    assert_eq!(used(&cluster, "q").await, expected);
    // If one of two quotas refuses an object, neither is charged.
    quota(&cluster, "second", json!({"count/pods": "1", "requests.cpu": "100m"})).await;
    let refused = cluster.post(PODS, &pod("p", "200m")).await.expect(403);
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: exceeded quota: second, requested: requests.cpu=200m, used: requests.cpu=0, \
         limited: requests.cpu=100m"
    );
    assert_eq!(used(&cluster, "q").await, expected);
    cluster.post(PODS, &pod("p", "100m")).await.expect(201);
    assert_eq!(used(&cluster, "q").await["requests.cpu"], "100m");
    assert_eq!(used(&cluster, "second").await, json!({"count/pods": "1", "requests.cpu": "100m"}));
    // Events are nobody's use.
    quota(&cluster, "third", json!({"count/events": "0"})).await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    cluster.post("/api/v1/namespaces/default/events", &event).await.expect(201);
}
