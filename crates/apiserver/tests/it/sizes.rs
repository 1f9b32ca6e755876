//! Objects that are too large, and a store that is full. The words are etcd's, as kube-apiserver 1.37 passes them on.

use serde_json::{Map, Value, json};
use setpoint_store::Store;

use crate::cluster::{APPLY, Cluster, MERGE, start, start_with};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const LARGE: &str = "/apis/large.io/v1/namespaces/default/larges";
pub const TOO_LARGE: &str = "etcdserver: request is too large";

pub async fn with_definition() -> Cluster {
    let cluster = start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": "larges.large.io"}, "spec": {"group": "large.io",
        "scope": "Namespaced", "names": {"plural": "larges", "kind": "Large"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    cluster.post(DEFINITIONS, &definition).await.expect(201);
    cluster
}

pub fn large(name: &str, data: Value) -> Value {
    json!({"apiVersion": "large.io/v1", "kind": "Large", "metadata": {"name": name}, "data": data})
}

#[tokio::test]
async fn an_object_is_at_most_as_large_as_etcd_takes() {
    let cluster = with_definition().await;
    let mebibyte = "x".repeat(1024 * 1024);
    let half = "x".repeat(600 * 1024);
    cluster.post(LARGE, &large("a", json!({"a": mebibyte}))).await.expect(201);
    let path = format!("{LARGE}/a");
    let mut replaced = cluster.get(&path).await.expect(200);
    replaced["data"]["b"] = json!(half);
    for refused in [
        cluster.post(LARGE, &large("b", json!({"a": mebibyte, "b": half}))).await,
        cluster.patch(&path, MERGE, &json!({"data": {"b": half}})).await,
        cluster.put(&path, &replaced).await,
        cluster.patch(&format!("{path}?fieldManager=m"), APPLY, &large("a", json!({"b": half}))).await,
    ] {
        let status = refused.expect(500);
        assert_eq!(status["message"], TOO_LARGE);
        assert_eq!(status.get("reason"), None);
    }
    assert_eq!(cluster.get(&format!("{LARGE}/b")).await.code, 404);
    assert_eq!(cluster.get(&path).await.expect(200)["data"].as_object().map(Map::len), Some(1));
}

#[tokio::test]
async fn an_object_that_is_too_large_with_its_managers_is_stored_without() {
    let cluster = with_definition().await;
    // Each name of 30 letters stands in managedFields again.
    let data: Map<String, Value> =
        (0..25_000).map(|number| (format!("a-name-of-thirty-letters-{number:05}"), json!(1))).collect();
    let created = cluster.post(LARGE, &large("a", Value::Object(data.clone()))).await.expect(201);
    assert_eq!(created["metadata"].get("managedFields"), None);
    assert_eq!(created["data"].as_object().map(Map::len), Some(25_000));
    let applied = large("b", Value::Object(data));
    let applied = cluster.patch(&format!("{LARGE}/b?fieldManager=m"), APPLY, &applied).await.expect(500);
    assert_eq!(applied["message"], TOO_LARGE);
}

#[tokio::test]
async fn a_full_store_still_reads_and_deletes() {
    let cluster = start_with(|options| {
        let bounds = setpoint_store::Options {
            quota_bytes: 2 << 20,
            history_bytes: 1 << 16,
            ..setpoint_store::Options::default()
        };
        options.store = Store::memory(bounds);
    })
    .await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str| json!({"metadata": {"name": name}, "data": {"a": "x".repeat(500 * 1024)}});
    let mut made = Vec::new();
    let full = loop {
        let name = format!("a{}", made.len());
        let answer = cluster.post(maps, &map(&name)).await;
        if answer.code != 201 {
            break answer;
        }
        made.push(name);
    };
    assert_eq!(full.expect(500)["message"], "etcdserver: mvcc: database space exceeded");
    let first = format!("{maps}/{}", made[0]);
    cluster.get(&first).await.expect(200);
    cluster.patch(&first, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    cluster.delete(&first).await.expect(200);
    cluster.post(maps, &map("again")).await.expect(201);
}
