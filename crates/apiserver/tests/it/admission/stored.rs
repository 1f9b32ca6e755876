//! After mutation the server judges what it will store, at the revision at which it stores it.

use serde_json::{Value, json};

use super::hook::{Hook, mutating, with};
use crate::cluster::{Cluster, MAPS, MERGE, map, start, start_with};
use crate::sizes::{LARGE, TOO_LARGE, large, with_definition};

const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

fn pods() -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}])
}

fn pod() -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}})
}

/// A quota as it is once a controller has measured it.
async fn quota(cluster: &Cluster, hard: Value) {
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    cluster.post(QUOTAS, &quota).await.expect(201);
    let none = hard.as_object().unwrap().keys().map(|name| (name.clone(), json!("0")));
    let status = json!({"status": {"hard": hard, "used": none.collect::<Value>()}});
    cluster.patch(&format!("{QUOTAS}/q/status"), MERGE, &status).await.expect(200);
}

#[tokio::test]
async fn a_mutated_object_is_validated() {
    let (cluster, hook) = (start().await, Hook::start().await);
    mutating(&cluster, "m", &[hook.at("/mislabel")]).await;
    let refused = cluster.post(MAPS, &map("a", json!({}))).await.expect(422);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("metadata.labels: Invalid value: \"-\""), "{message}");
    cluster.get(&format!("{MAPS}/a")).await.expect(404);
}

#[tokio::test]
async fn a_mutated_object_is_as_large_as_another_may_be() {
    let (cluster, hook) = (start().await, Hook::start().await);
    mutating(&cluster, "m", &[hook.at("/fill")]).await;
    let refused = cluster.post(MAPS, &map("a", json!({}))).await;
    // Validation has a bound of its own for ConfigMaps.
    let refused = refused.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("Too long"), "{refused}");
    cluster.get(&format!("{MAPS}/a")).await.expect(404);
}

#[tokio::test]
async fn a_mutated_custom_object_is_stored_only_if_etcd_would_take_it() {
    let (cluster, hook) = (with_definition().await, Hook::start().await);
    let rules =
        json!([{"apiGroups": ["large.io"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]);
    mutating(&cluster, "m", &[with(hook.at("/fill"), json!({"rules": rules}))]).await;
    let refused = cluster.post(LARGE, &large("a", json!({}))).await.expect(500);
    assert_eq!(refused["message"], TOO_LARGE);
    cluster.get(&format!("{LARGE}/a")).await.expect(404);
}

#[tokio::test]
async fn a_mutated_pod_is_charged_and_judged_as_what_it_has_become() {
    let (cluster, hook) = (start().await, Hook::start().await);
    quota(&cluster, json!({"requests.cpu": "1500m"})).await;
    mutating(&cluster, "m", &[with(hook.at("/cpu"), json!({"rules": pods()}))]).await;
    let refused = cluster.post(PODS, &pod()).await.expect(403);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("exceeded quota: q, requested: requests.cpu=2,"), "{message}");
    cluster.get(&format!("{PODS}/p")).await.expect(404);
    assert_eq!(cluster.get(&format!("{QUOTAS}/q")).await.expect(200)["status"]["used"]["requests.cpu"], "0");
}

#[tokio::test]
async fn a_webhook_makes_no_pod_privileged_where_none_may_be() {
    let (cluster, hook) = (start_with(|options| options.allow_privileged = false).await, Hook::start().await);
    mutating(&cluster, "m", &[with(hook.at("/privilege"), json!({"rules": pods()}))]).await;
    let refused = cluster.post(PODS, &pod()).await.expect(422);
    let message = refused["message"].as_str().unwrap();
    let words = "spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy";
    assert!(message.contains(words), "{message}");
    cluster.get(&format!("{PODS}/p")).await.expect(404);
}

/// While the webhook thinks, another object takes the last of the quota.
#[tokio::test]
async fn a_quota_is_charged_at_the_stored_revision() {
    let (cluster, hook) = (start().await, Hook::start().await);
    quota(&cluster, json!({"count/configmaps": "1"})).await;
    let selector = json!({"matchLabels": {"slow": "yes"}});
    mutating(&cluster, "m", &[with(hook.at("/gate"), json!({"objectSelector": selector}))]).await;
    let mut slow = map("slow", json!({}));
    slow["metadata"]["labels"] = json!({"slow": "yes"});
    let first = cluster.post(MAPS, &slow);
    let other = async {
        hook.arrived().await;
        cluster.post(MAPS, &map("quick", json!({}))).await.expect(201);
        hook.release();
    };
    let (first, ()) = tokio::join!(first, other);
    let refused = first.expect(403);
    assert!(refused["message"].as_str().unwrap().contains("exceeded quota: q"), "{refused}");
    cluster.get(&format!("{MAPS}/slow")).await.expect(404);
}
