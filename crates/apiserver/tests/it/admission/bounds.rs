//! Webhooks that harm only the requests that they are asked about.

use http::Request;
use serde_json::{Value, json};
use setpoint_apiserver::{Caller, UserInfo};

use super::hook::{Hook, mutating, validating, with};
use crate::cluster::{Cluster, MAPS, body, map, start};

const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[tokio::test]
async fn answers_that_are_too_long_or_never_end_or_lead_elsewhere_are_no_answers() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let cases = [
        ("/long", "the answer is longer than"),
        ("/drip", "context deadline exceeded"),
        ("/redirect", "the server responded with the status code 307 but did not return more information"),
    ];
    for (path, expected) in cases {
        validating(&cluster, "v", &[with(hook.at(path), json!({"timeoutSeconds": 1}))]).await;
        // A request that the webhook does not match is not delayed.
        let object = map("a", json!({}));
        let slow = cluster.post(MAPS, &object);
        let quick = cluster.get("/api/v1/namespaces/default");
        let (refused, read) = tokio::join!(slow, quick);
        read.expect(200);
        let refused = refused.expect(500);
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(expected), "{path}: {message}");
        cluster.delete(CONFIGURATION).await.expect(200);
    }
    let asked = hook.paths();
    assert!(!asked.iter().any(|path| path == "/label"), "{asked:?}");
}

async fn post_as(cluster: &Cluster, user: &str, path: &str, object: &Value) -> crate::cluster::Answer {
    let request = Request::post(path).header("content-type", "application/json");
    let caller = Caller::Trusted(UserInfo::new(user, ["dev"]));
    cluster.send_as(caller, request.body(body(object.to_string())).unwrap()).await
}

#[tokio::test]
async fn a_webhook_cannot_put_into_a_role_what_its_writer_does_not_hold() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let rule = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"],
        "verbs": ["create", "update"]});
    let writer = json!({"metadata": {"name": "writer"}, "rules": [rule]});
    cluster.post(&format!("{RBAC}/clusterroles"), &writer).await.expect(201);
    let binding = json!({"metadata": {"name": "writers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"},
        "subjects": [{"kind": "User", "name": "adm", "apiGroup": "rbac.authorization.k8s.io"}]});
    cluster.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.expect(201);
    let rules = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"],
        "operations": ["*"], "resources": ["roles"]}]);
    mutating(&cluster, "m", &[with(hook.at("/grant"), json!({"rules": rules}))]).await;
    let path = format!("{RBAC}/namespaces/default/roles");
    let role = json!({"metadata": {"name": "small"}, "rules": []});
    let refused = post_as(&cluster, "adm", &path, &role).await.expect(403);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("is attempting to grant RBAC permissions not currently held"), "{message}");
    cluster.get(&format!("{path}/small")).await.expect(404);
    // A user who holds everything may write a role to which a webhook adds everything.
    let stored = cluster.post(&path, &role).await.expect(201);
    assert_eq!(stored["rules"][0]["resources"], json!(["*"]));
}
