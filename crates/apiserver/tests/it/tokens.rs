//! Tokens of service accounts: what they are bound to, and for how long.
//!
//! The rules are Kubernetes 1.37's `serviceaccount/claims.go` and `registry/core/serviceaccount/storage/token.go`.

use std::sync::atomic::Ordering;

use http::Request;
use serde_json::{Value, json};
use setpoint_apiserver::Caller;
use setpoint_apiserver::jwt;

use crate::cluster::{Cluster, MERGE, body, start};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const NODES: &str = "/api/v1/nodes";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// A cluster with an account, and a pod, a Secret and a node that its tokens can be bound to.
async fn cluster() -> Cluster {
    let cluster = start().await;
    cluster.post(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await.expect(201);
    cluster.post(NODES, &json!({"metadata": {"name": "bound"}})).await.expect(201);
    cluster.post(SECRETS, &json!({"metadata": {"name": "bound"}})).await.expect(201);
    let pod = json!({"metadata": {"name": "bound"}, "spec": {"serviceAccountName": "robot", "nodeName": "absent",
        "containers": [{"name": "c", "image": "i"}]}});
    cluster.post(PODS, &pod).await.expect(201);
    cluster
}

impl Cluster {
    async fn token(&self, reference: Value) -> String {
        let request = json!({"spec": {"expirationSeconds": 86400, "boundObjectRef": reference}});
        let issued = self.post(&format!("{ACCOUNTS}/robot/token"), &request).await.expect(201);
        issued["status"]["token"].as_str().unwrap().to_owned()
    }

    /// The status of an answer to a client with this token.
    async fn shown(&self, token: &str) -> u16 {
        let request = Request::get("/api").header("authorization", format!("Bearer {token}"));
        self.send_as(Caller::Anonymous, request.body(body("")).unwrap()).await.code
    }
}

fn reference(kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "name": "bound"})
}

#[tokio::test]
async fn a_token_dies_with_what_it_is_bound_to() {
    for (kind, path) in [
        ("Pod", format!("{PODS}/bound")),
        ("Secret", format!("{SECRETS}/bound")),
        ("Node", format!("{NODES}/bound")),
        ("Node", format!("{ACCOUNTS}/robot")),
    ] {
        let cluster = cluster().await;
        let token = cluster.token(reference(kind)).await;
        assert_eq!(cluster.shown(&token).await, 200, "{path}");
        cluster.delete(&format!("{path}?gracePeriodSeconds=0")).await.expect(200);
        assert_eq!(cluster.shown(&token).await, 401, "{path}");
    }
}

#[tokio::test]
async fn another_object_of_the_same_name_is_not_meant() {
    let cluster = cluster().await;
    let token = cluster.token(reference("Node")).await;
    cluster.delete(&format!("{NODES}/bound")).await.expect(200);
    cluster.post(NODES, &json!({"metadata": {"name": "bound"}})).await.expect(201);
    assert_eq!(cluster.shown(&token).await, 401);
}

/// A finalizer may hold an object for as long as it likes; its tokens have a minute.
#[tokio::test]
async fn a_token_outlives_a_deletion_by_a_minute() {
    for (kind, path) in [
        ("Pod", format!("{PODS}/bound")),
        ("Secret", format!("{SECRETS}/bound")),
        ("Node", format!("{NODES}/bound")),
        ("Secret", format!("{ACCOUNTS}/robot")),
    ] {
        let cluster = cluster().await;
        let token = cluster.token(reference(kind)).await;
        let held = json!({"metadata": {"finalizers": ["wire.test/hold"]}});
        cluster.patch(&path, MERGE, &held).await.expect(200);
        cluster.delete(&format!("{path}?gracePeriodSeconds=0")).await;
        cluster.get(&path).await.expect(200);
        cluster.now.fetch_add(60, Ordering::Relaxed);
        assert_eq!(cluster.shown(&token).await, 200, "{path}");
        cluster.now.fetch_add(1, Ordering::Relaxed);
        assert_eq!(cluster.shown(&token).await, 401, "{path}");
    }
}

/// The node of a pod is told, and is not what the token is bound to: here it never existed.
#[tokio::test]
async fn the_token_of_a_pod_names_its_node() {
    let cluster = cluster().await;
    let token = cluster.token(reference("Pod")).await;
    let review = cluster.post(REVIEWS, &json!({"spec": {"token": token}})).await.expect(201);
    let extra = &review["status"]["user"]["extra"];
    assert_eq!(extra["authentication.kubernetes.io/node-name"], json!(["absent"]));
    assert_eq!(extra["authentication.kubernetes.io/node-uid"], Value::Null);
    assert_eq!(extra["authentication.kubernetes.io/pod-name"], json!(["bound"]));
}

/// The feature behind such tokens is off, and a token that says more than is understood says nothing.
#[tokio::test]
async fn the_token_of_a_webhook_is_refused() {
    let cluster = cluster().await;
    let account = cluster.get(&format!("{ACCOUNTS}/robot")).await.expect(200);
    let options = cluster.server.options();
    let now = cluster.now.load(Ordering::Relaxed);
    let claims = |more: Value| {
        let mut bound = json!({"namespace": "default",
            "serviceaccount": {"name": "robot", "uid": account["metadata"]["uid"]}});
        bound.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"aud": [options.service_accounts.issuer], "iss": options.service_accounts.issuer,
            "exp": now + 600, "iat": now, "nbf": now, "sub": "system:serviceaccount:default:robot",
            "kubernetes.io": bound})
    };
    let sign = |more| jwt::sign(options.service_accounts.signing.as_ref().unwrap(), &claims(more)).unwrap();
    assert_eq!(cluster.shown(&sign(json!({}))).await, 200);
    for kind in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
        assert_eq!(cluster.shown(&sign(json!({ kind: {"name": "hook", "uid": "1"} }))).await, 401, "{kind}");
    }
}

#[tokio::test]
async fn a_request_for_a_token_must_name_what_is_there() {
    let cluster = cluster().await;
    cluster.post(ACCOUNTS, &json!({"metadata": {"name": "other"}})).await.expect(201);
    let ask = async |name: &str, metadata: Value, reference: Value| {
        let request = json!({"metadata": metadata, "spec": {"boundObjectRef": reference}});
        let answer = cluster.post(&format!("{ACCOUNTS}/{name}/token"), &request).await;
        (answer.code, answer.json()["message"].as_str().unwrap_or("").to_owned())
    };
    let none = Value::Null;
    assert_eq!(ask("robot", json!({"name": "robot", "namespace": "default"}), none.clone()).await.0, 201);
    let cases = [
        (
            ask("robot", json!({"name": "x"}), none.clone()).await,
            422,
            "TokenRequest.authentication.k8s.io \"robot\" is invalid: metadata.name: Invalid value: \"x\": must match \
             the service account name if specified",
        ),
        (
            ask("robot", json!({"namespace": "x"}), none.clone()).await,
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            ask("robot", json!({}), json!({"kind": "Pod", "apiVersion": "v1", "name": "none"})).await,
            404,
            "pods \"none\" not found",
        ),
        (
            ask("other", json!({}), reference("Pod")).await,
            400,
            "cannot bind token for serviceaccount \"other\" to pod running with different serviceaccount name.",
        ),
        (
            ask("robot", json!({}), json!({"kind": "Pod", "apiVersion": "apps/v1", "name": "bound"})).await,
            400,
            "cannot bind token to object of type apps/v1, Kind=Pod",
        ),
        (
            ask("robot", json!({}), json!({"kind": "ConfigMap", "apiVersion": "v1", "name": "bound"})).await,
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
    ];
    for ((code, message), expected, text) in cases {
        assert_eq!((code, &*message), (expected, text));
    }
    let (code, message) = ask("robot", json!({"uid": "x"}), none).await;
    assert_eq!(code, 409);
    assert!(
        message.starts_with(
            "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"robot\": the \
        UID in the token request (x) does not match the UID of the service account ("
        ),
        "{message}"
    );
    let mut stale = reference("Secret");
    stale["uid"] = json!("x");
    let (code, message) = ask("robot", json!({}), stale).await;
    assert_eq!(code, 409);
    assert!(
        message.starts_with(
            "Operation cannot be fulfilled on Secret \"bound\": the UID in the bound object \
        reference (x) does not match the UID in record."
        ),
        "{message}"
    );
}
