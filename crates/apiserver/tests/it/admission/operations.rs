//! Deletions, subresources and connections.

use serde_json::{Value, json};

use super::hook::{Hook, mutating, validating, with};
use crate::cluster::{Cluster, MAPS, MERGE, map, start};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Both kinds of webhook for everything, and an answer to the question what they saw.
async fn watched(cluster: &Cluster, hook: &Hook) {
    let all = json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]});
    mutating(cluster, "m", &[with(hook.at("/m"), all.clone())]).await;
    validating(cluster, "v", &[with(hook.at("/v"), all)]).await;
}

/// The request that both webhooks got, once.
fn seen(hook: &Hook) -> (String, String, String, Value, Value) {
    let [first, second] = hook.requests().try_into().unwrap();
    let short = |request: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        (
            text(&request["operation"]),
            text(&request["kind"]["kind"]),
            text(&request["subResource"]),
            request["object"].clone(),
            request["oldObject"].clone(),
        )
    };
    assert_eq!(short(&first).0, short(&second).0);
    short(&second)
}

#[tokio::test]
async fn deletions_show_what_goes_and_nothing_that_comes() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let created = cluster.post(MAPS, &map("a", json!({"k": "v"}))).await.expect(201);
    for name in ["b", "c"] {
        cluster.post(MAPS, &map(name, json!({}))).await.expect(201);
    }
    watched(&cluster, &hook).await;
    cluster.delete(&format!("{MAPS}/a?propagationPolicy=Background")).await.expect(200);
    let requests = hook.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!((&request["operation"], &request["object"]), (&json!("DELETE"), &Value::Null));
        assert_eq!(request["oldObject"], created);
        let options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"});
        assert_eq!(request["options"], options);
    }
    cluster.delete(MAPS).await.expect(200);
    let names: Vec<_> = hook
        .requests()
        .iter()
        .map(|request| (request.get("name").cloned(), request["oldObject"]["metadata"]["name"].clone()))
        .collect();
    assert_eq!(names, ["b", "b", "c", "c"].map(|name| (None, json!(name))));
    let label = hook.at("/label");
    mutating(&cluster, "z", &[label]).await;
    cluster.post(MAPS, &map("d", json!({}))).await.expect(201);
    let refused = cluster.delete(&format!("{MAPS}/d")).await.expect(500);
    let text = "Internal error occurred: admission webhook \"label.example.com\" attempted to modify the object, which is \
                not supported for this operation";
    assert_eq!(refused["message"], text);
}

#[tokio::test]
async fn a_pod_that_is_on_its_way_is_judged_again_only_if_it_is_hurried() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    cluster.post(PODS, &pod).await.expect(201);
    watched(&cluster, &hook).await;
    let path = format!("{PODS}/p");
    for (options, asked) in [("", 2), ("", 0), ("?gracePeriodSeconds=60", 0), ("?gracePeriodSeconds=0", 2)] {
        cluster.delete(&format!("{path}{options}")).await.expect(200);
        assert_eq!(hook.requests().len(), asked, "{options}");
    }
}

/// As kube-apiserver 1.37 asks.
#[tokio::test]
async fn subresources_are_asked_about_with_their_own_kinds() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post(PODS, &pod).await.expect(201);
    cluster
        .post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "s"}}))
        .await
        .expect(201);
    watched(&cluster, &hook).await;
    let texts = |(operation, kind, sub, _, _): &(String, String, String, Value, Value)| {
        format!("{operation} {kind} {sub}")
    };
    cluster
        .patch(&format!("{PODS}/p/status"), MERGE, &json!({"status": {"phase": "Running"}}))
        .await
        .expect(200);
    let status = seen(&hook);
    assert_eq!(texts(&status), "UPDATE Pod status");
    assert_eq!(
        (&status.3["status"]["phase"], &status.4["status"]["phase"]),
        (&json!("Running"), &json!("Pending"))
    );
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    cluster.post(&format!("{PODS}/p/binding"), &binding).await.expect(201);
    let bound = seen(&hook);
    assert_eq!(texts(&bound), "CREATE Binding binding");
    assert_eq!((&bound.3["kind"], &bound.3["target"]), (&json!("Binding"), &json!({"name": "n"})));
    assert_eq!(bound.3["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:target": {}}));
    cluster.post(&format!("{PODS}/p/exec?command=ls&command=-l&stdout=true&container=c"), &json!({})).await;
    let exec = seen(&hook);
    assert_eq!(texts(&exec), "CONNECT PodExecOptions exec");
    let expected = json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdout": true, "container": "c", "command": ["ls", "-l"]});
    assert_eq!(exec.3, expected);
    cluster.post(&format!("{PODS}/p/eviction"), &json!({"metadata": {"name": "p"}})).await.expect(201);
    assert_eq!(texts(&seen(&hook)), "CREATE Eviction eviction");
    let path = "/api/v1/namespaces/default/serviceaccounts/s/token";
    cluster.post(path, &json!({"spec": {"audiences": ["x"]}})).await.expect(201);
    assert_eq!(texts(&seen(&hook)), "CREATE TokenRequest token");
}

#[tokio::test]
async fn a_scale_is_judged_and_changed_as_a_scale() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    cluster.post(deployments, &deployment).await.expect(201);
    let rules = json!({"rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["*/scale"]}]});
    mutating(&cluster, "m", &[with(hook.at("/replicas"), rules.clone())]).await;
    validating(&cluster, "v", &[with(hook.at("/v"), rules)]).await;
    let scaled = cluster
        .patch(&format!("{deployments}/d/scale"), MERGE, &json!({"spec": {"replicas": 3}}))
        .await
        .expect(200);
    assert_eq!(scaled["spec"]["replicas"], 7);
    let judged = seen(&hook);
    assert_eq!((judged.1.as_str(), judged.2.as_str()), ("Scale", "scale"));
    assert_eq!((&judged.3["spec"]["replicas"], &judged.4["spec"]["replicas"]), (&json!(7), &json!(1)));
    let stored = cluster.get(&format!("{deployments}/d")).await.expect(200);
    assert_eq!(stored["spec"]["replicas"], 7);
}

#[tokio::test]
async fn a_refused_subresource_keeps_the_warnings_of_webhooks() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post(PODS, &pod).await.expect(201);
    let all = json!({"rules": [{"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"],
        "resources": ["pods/eviction", "pods/binding"]}]});
    validating(&cluster, "v", &[with(hook.at("/warn"), all.clone())]).await;
    let unbound = cluster
        .post(&format!("{PODS}/p/binding"), &json!({"metadata": {"name": "p"}, "target": {"name": ""}}))
        .await;
    assert_eq!((unbound.code, unbound.warnings()), (500, vec!["299 - \"careful\""]));
    validating(&cluster, "w", &[with(hook.at("/deny"), all)]).await;
    let denied = cluster.post(&format!("{PODS}/p/eviction"), &json!({"metadata": {"name": "p"}})).await;
    assert_eq!((denied.code, denied.warnings()), (418, vec!["299 - \"careful\""]));
}

#[tokio::test]
async fn preconditions_of_a_deletion_come_before_the_webhooks_that_judge_it() {
    let (cluster, hook) = (start().await, Hook::start().await);
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    validating(&cluster, "v", &[hook.at("/deny")]).await;
    cluster.delete(&format!("{MAPS}/a?uid=another")).await.expect(409);
    assert_eq!(hook.requests().len(), 0);
}
