//! The requests that each webhook matches.

use serde_json::{Value, json};

use super::hook::{Hook, mutating, validating, with};
use crate::cluster::{MAPS, MERGE, map, start};
use crate::conversion::{V2, two, with_webhook};

fn rules(groups: &[&str], versions: &[&str], resources: &[&str]) -> Value {
    json!({"rules": [{"apiGroups": groups, "apiVersions": versions, "operations": ["*"], "resources": resources}]})
}

#[tokio::test]
async fn selectors_choose_by_namespace_and_by_object() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let namespaces = "/api/v1/namespaces";
    cluster
        .post(namespaces, &json!({"metadata": {"name": "in", "labels": {"hook": "yes"}}}))
        .await
        .expect(201);
    let selected = json!({"namespaceSelector": {"matchLabels": {"hook": "yes"}}});
    let all = rules(&["*"], &["*"], &["*"]);
    validating(&cluster, "n", &[with(with(hook.at("/n"), selected), all)]).await;
    let objects = json!({"objectSelector": {"matchExpressions": [{"key": "o", "operator": "Exists"}]}});
    validating(&cluster, "o", &[with(hook.at("/o"), objects)]).await;
    let marked = json!({"metadata": {"name": "m", "labels": {"o": ""}}});
    for (path, object, expected) in [
        (MAPS, map("a", json!({})), vec![]),
        (MAPS, marked.clone(), vec!["/o"]),
        ("/api/v1/namespaces/in/configmaps", map("a", json!({})), vec!["/n"]),
        // Namespaces have their own labels, and what lives in none is always selected.
        (namespaces, json!({"metadata": {"name": "out"}}), vec![]),
        (namespaces, json!({"metadata": {"name": "in2", "labels": {"hook": "yes"}}}), vec!["/n"]),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", json!({"metadata": {"name": "r"}}), vec!["/n"]),
    ] {
        cluster.post(path, &object).await.expect(201);
        assert_eq!(hook.paths(), expected, "{path} {object}");
    }
    // The object as it was counts too.
    let unmark = json!({"metadata": {"labels": null}});
    cluster.patch(&format!("{MAPS}/m"), MERGE, &unmark).await.expect(200);
    assert_eq!(hook.paths(), ["/o"]);
    cluster.patch(&format!("{MAPS}/m"), MERGE, &unmark).await.expect(200);
    assert_eq!(hook.paths(), Vec::<String>::new());
}

#[tokio::test]
async fn conditions_have_the_last_word() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let condition = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    let named = condition("request.operation == 'CREATE' && object.metadata.name.startsWith('a')");
    validating(&cluster, "v", &[with(hook.at("/look"), named)]).await;
    cluster.post(MAPS, &map("abc", json!({}))).await.expect(201);
    cluster.post(MAPS, &map("xyz", json!({}))).await.expect(201);
    assert_eq!(hook.paths(), ["/look"]);
    let broken = with(hook.at("/look"), condition("object.data.zzz == 'x'"));
    validating(&cluster, "w", &[with(broken.clone(), json!({"failurePolicy": "Ignore"}))]).await;
    cluster.post(MAPS, &map("x2", json!({"a": "b"}))).await.expect(201);
    mutating(&cluster, "x", &[broken]).await;
    let refused = cluster.post(MAPS, &map("x3", json!({"a": "b"}))).await.expect(403);
    let text = "configmaps \"x3\" is forbidden: expression 'object.data.zzz == 'x'' resulted in error: no such key: zzz";
    assert_eq!(refused["message"], text);
    assert_eq!(hook.paths(), Vec::<String>::new());
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let wrong = with(hook.at("/look"), condition("zork == 1"));
    let refused =
        cluster.post(path, &json!({"metadata": {"name": "z"}, "webhooks": [wrong]})).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "webhooks[0].matchConditions[0].expression");
}

/// Nobody is locked out by webhooks that refuse everything.
#[tokio::test]
async fn configurations_are_not_subject_to_webhooks() {
    let (cluster, hook) = (start().await, Hook::start().await);
    validating(&cluster, "v", &[with(hook.at("/deny"), rules(&["*"], &["*"], &["*/*"]))]).await;
    cluster.post(MAPS, &map("a", json!({}))).await.expect(418);
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v";
    cluster.patch(path, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    cluster.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await.expect(201);
    cluster.delete(path).await.expect(200);
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
}

/// As kube-apiserver 1.37 asks.
#[tokio::test]
async fn a_rule_for_another_version_sees_that_version() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let others = rules(&["events.k8s.io"], &["v1"], &["events"]);
    validating(&cluster, "v", &[with(hook.at("/equivalent"), others.clone())]).await;
    let exact = with(with(hook.at("/exact"), others), json!({"matchPolicy": "Exact"}));
    validating(&cluster, "w", &[exact]).await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default", "name": "x"}});
    cluster.post("/api/v1/namespaces/default/events", &event).await.expect(201);
    let [request] = hook.requests().try_into().unwrap();
    assert_eq!(request["kind"], json!({"group": "events.k8s.io", "version": "v1", "kind": "Event"}));
    assert_eq!(request["resource"], json!({"group": "events.k8s.io", "version": "v1", "resource": "events"}));
    assert_eq!(request["requestKind"], json!({"group": "", "version": "v1", "kind": "Event"}));
    assert_eq!(request["object"]["apiVersion"], "events.k8s.io/v1");
    assert_eq!(request["object"]["regarding"]["name"], "x");
}

#[tokio::test]
async fn versions_of_a_custom_resource_are_equivalent_and_patches_are_pruned_and_defaulted() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "properties": {
                "replicas": {"type": "integer"}, "mode": {"type": "string", "default": "fast"}}}}}}})
    };
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [version("v1", true), version("v2", false)]}});
    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect(201);
    mutating(&cluster, "m", &[with(hook.at("/replicas"), rules(&["example.com"], &["v1"], &["*"]))]).await;
    let object =
        json!({"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "t"}, "spec": {}});
    let created = cluster.post("/apis/example.com/v2/namespaces/default/things", &object).await.expect(201);
    assert_eq!(created["spec"], json!({"replicas": 7, "mode": "fast"}));
    assert_eq!(created["apiVersion"], "example.com/v2");
    let [request] = hook.requests().try_into().unwrap();
    assert_eq!(request["object"]["apiVersion"], "example.com/v1");
    assert_eq!(
        (&request["kind"]["version"], &request["requestKind"]["version"]),
        (&json!("v1"), &json!("v2"))
    );
}

#[tokio::test]
async fn a_version_that_a_webhook_converts_is_equivalent_too() {
    let ((cluster, conversion), hook) = (with_webhook().await, Hook::start().await);
    mutating(&cluster, "m", &[with(hook.at("/host"), rules(&["conv.io"], &["v1"], &["*"]))]).await;
    let created = cluster.post(V2, &two("b", "far")).await.expect(201);
    assert_eq!(
        (&created["apiVersion"], &created["spec"]["address"]["host"]),
        (&json!("conv.io/v2"), &json!("near"))
    );
    let [request] = hook.requests().try_into().unwrap();
    assert_eq!(
        (&request["object"]["apiVersion"], &request["object"]["spec"]["host"]),
        (&json!("conv.io/v1"), &json!("far"))
    );
    assert!(!conversion.asked().is_empty());
}
