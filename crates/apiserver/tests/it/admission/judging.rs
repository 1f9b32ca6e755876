//! Refusals, failures and what policies make of them.

use std::net::Ipv4Addr;
use std::sync::Arc;

use serde_json::json;
use setpoint_apiserver::{Dialing, Io, Nodes};
use tokio::net::TcpStream;

use super::hook::{Hook, mutating, validating, with};
use crate::cluster::{MAPS, map, start, start_with};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// In kube-apiserver 1.37's words.
#[tokio::test]
async fn a_refusal_is_answered_as_the_webhook_put_it() {
    let (cluster, hook) = (start().await, Hook::start().await);
    validating(&cluster, "v", &[hook.at("/warn"), hook.at("/deny")]).await;
    let answer = cluster.post(MAPS, &map("a", json!({}))).await;
    assert_eq!(answer.warnings(), ["299 - \"careful\""]);
    let refused = answer.expect(418);
    assert_eq!(refused["message"], "admission webhook \"deny.example.com\" denied the request: no way");
    assert_eq!((&refused["reason"], &refused["status"]), (&json!("Teapot"), &json!("Failure")));
    cluster.get(&format!("{MAPS}/a")).await.expect(404);
    // A refusal is no failure.
    cluster.delete(CONFIGURATIONS).await.expect(200);
    mutating(&cluster, "m", &[with(hook.at("/deny"), json!({"failurePolicy": "Ignore"}))]).await;
    cluster.post(MAPS, &map("a", json!({}))).await.expect(418);
}

/// A user who writes endpoints names pods in them, but only a pod's own address leads to the pod.
#[tokio::test]
async fn an_endpoint_that_is_not_its_pods_address_leads_to_no_pod() {
    let hook = Hook::start().await;
    let port = hook.port;
    let cluster = start_with(|options| options.nodes = Some(Arc::new(Node(port)))).await;
    let core = "/api/v1/namespaces/default";
    let pod = json!({"metadata": {"name": "hook-0"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post(&format!("{core}/pods"), &pod).await.expect(201);
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}});
    cluster.post(&format!("{core}/services"), &service).await.expect(201);
    let service = json!({"namespace": "default", "name": "hook", "path": "/deny"});
    let client =
        json!({"clientConfig": {"service": service, "caBundle": hook.ca_bundle}, "timeoutSeconds": 1});
    validating(&cluster, "v", &[with(hook.at("/deny"), client)]).await;
    let pod = json!({"kind": "Pod", "namespace": "default", "name": "hook-0"});
    let endpoints = json!({"metadata": {"name": "hook"}, "subsets": [
        {"addresses": [{"ip": "203.0.113.9", "targetRef": pod}], "ports": [{"port": 9443}]}]});
    cluster.post(&format!("{core}/endpoints"), &endpoints).await.expect(201);
    cluster.post(MAPS, &map("a", json!({}))).await.expect(500);
    assert_eq!(hook.requests().len(), 0, "the hook was not asked");
    let address = json!({"status": {"podIP": "203.0.113.9", "podIPs": [{"ip": "203.0.113.9"}]}});
    cluster
        .patch(&format!("{core}/pods/hook-0/status"), "application/merge-patch+json", &address)
        .await
        .expect(200);
    cluster.post(MAPS, &map("a", json!({}))).await.expect(418);
}

/// In kube-apiserver 1.37's words.
#[tokio::test]
async fn a_webhook_that_fails_is_waited_for_or_not_as_its_policy_says() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let port = hook.port;
    let url = |url: &str| json!({"clientConfig": {"url": url, "caBundle": hook.ca_bundle}});
    let cases = [
        (
            with(hook.at("/silent"), json!({"timeoutSeconds": 1})),
            format!("failed to call webhook: Post \"https://127.0.0.1:{port}/silent?timeout=1s\": context deadline exceeded"),
        ),
        (
            with(hook.at("/closed"), url("https://127.0.0.1:1/x")),
            "failed to call webhook: Post \"https://127.0.0.1:1/x?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused".to_owned(),
        ),
        (
            with(hook.at("/service"), json!({"clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/p"}, "caBundle": hook.ca_bundle}})),
            "failed to call webhook: Post \"https://hook.default.svc:443/p?timeout=10s\": service \"hook\" not found".to_owned(),
        ),
    ];
    for (webhook, expected) in cases {
        validating(&cluster, "v", std::slice::from_ref(&webhook)).await;
        let refused = cluster.post(MAPS, &map("a", json!({}))).await.expect(500);
        let name = webhook["name"].as_str().unwrap();
        let text = format!("failed calling webhook \"{name}\": {expected}");
        assert_eq!(refused["message"], format!("Internal error occurred: {text}"));
        assert_eq!(refused["details"]["causes"], json!([{"message": text}]));
        cluster.delete(CONFIGURATIONS).await.expect(200);
        validating(&cluster, "v", &[with(webhook, json!({"failurePolicy": "Ignore"}))]).await;
        cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
        cluster.delete(&format!("{MAPS}/a")).await.expect(200);
        cluster.delete(CONFIGURATIONS).await.expect(200);
    }
}

#[tokio::test]
async fn an_answer_to_another_question_does_not_count() {
    let (cluster, hook) = (start().await, Hook::start().await);
    mutating(&cluster, "m", &[hook.at("/uid")]).await;
    let refused = cluster.post(MAPS, &map("a", json!({}))).await.expect(500);
    let [request] = hook.requests().try_into().unwrap();
    let uid = request["uid"].as_str().unwrap();
    let text = format!(
        "Internal error occurred: failed calling webhook \"uid.example.com\": received invalid webhook response: \
         expected response.uid=\"{uid}\", got \"another\""
    );
    assert_eq!(refused["message"], text);
}

#[tokio::test]
async fn an_older_review_is_spoken_where_it_is_asked_for() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let versions = json!({"admissionReviewVersions": ["v1beta1", "v1"]});
    mutating(&cluster, "m", &[with(hook.at("/label"), versions)]).await;
    let created = cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    assert_eq!(created["metadata"]["labels"], json!({"hooked": "yes"}));
}

#[tokio::test]
async fn a_dry_run_is_told_and_leaves_nothing() {
    let (cluster, hook) = (start().await, Hook::start().await);
    mutating(&cluster, "m", &[hook.at("/label")]).await;
    let made = cluster.post(&format!("{MAPS}?dryRun=All"), &map("a", json!({}))).await.expect(201);
    assert_eq!(made["metadata"]["labels"], json!({"hooked": "yes"}));
    cluster.get(&format!("{MAPS}/a")).await.expect(404);
    let [request] = hook.requests().try_into().unwrap();
    assert_eq!((&request["dryRun"], &request["options"]["dryRun"]), (&json!(true), &json!(["All"])));
}

/// Nodes on which every pod listens where the test says.
struct Node(u16);

impl Nodes for Node {
    fn dial(&self, _: &str) -> Option<Dialing> {
        None
    }

    fn dial_pod(&self, namespace: &str, pod: &str, port: u16) -> Option<Dialing> {
        assert_eq!((namespace, pod, port), ("default", "hook-0", 9443));
        let place = (Ipv4Addr::LOCALHOST, self.0);
        Some(Box::pin(async move { Ok(Box::new(TcpStream::connect(place).await?) as Box<dyn Io>) }))
    }
}

#[tokio::test]
async fn a_service_leads_to_the_pod_behind_it() {
    let hook = Hook::start().await;
    let port = hook.port;
    let cluster = start_with(|options| options.nodes = Some(Arc::new(Node(port)))).await;
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}});
    cluster.post("/api/v1/namespaces/default/services", &service).await.expect(201);
    let service = json!({"namespace": "default", "name": "hook", "path": "/deny"});
    let client = json!({"clientConfig": {"service": service, "caBundle": hook.ca_bundle}});
    validating(&cluster, "v", &[with(hook.at("/deny"), client)]).await;
    let refused = cluster.post(MAPS, &map("a", json!({}))).await.expect(500);
    let text = refused["message"].as_str().unwrap();
    assert!(text.ends_with("no endpoints available for service \"hook\""), "{text}");
    let pod = json!({"kind": "Pod", "namespace": "default", "name": "hook-0"});
    let endpoints = json!({"metadata": {"name": "hook"}, "subsets": [
        {"addresses": [{"ip": "10.244.0.9", "targetRef": pod}], "ports": [{"port": 9443}]}]});
    cluster.post("/api/v1/namespaces/default/endpoints", &endpoints).await.expect(201);
    cluster.post(MAPS, &map("a", json!({}))).await.expect(418);
}
