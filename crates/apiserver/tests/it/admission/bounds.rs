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
        ("/long", 10, "the answer is longer than"),
        ("/drip", 1, "context deadline exceeded"),
        (
            "/redirect",
            10,
            "the server responded with the status code 307 but did not return more information",
        ),
    ];
    for (path, seconds, expected) in cases {
        validating(&cluster, "v", &[with(hook.at(path), json!({"timeoutSeconds": seconds}))]).await;
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

/// Each call of the webhook writes another object, about which it is asked again, and waits for the end of that.
#[tokio::test]
async fn a_webhook_that_calls_itself_delays_only_its_own_request() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]});
    let role = json!({"metadata": {"name": "writer"}, "rules": [rule]});
    cluster.post(&format!("{RBAC}/clusterroles"), &role).await.expect(201);
    let binding = json!({"metadata": {"name": "writers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"},
        "subjects": [{"kind": "Group", "name": "dev", "apiGroup": "rbac.authorization.k8s.io"}]});
    cluster.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.expect(201);
    hook.loops_to(&cluster.server);
    validating(&cluster, "v", &[with(hook.at("/loop"), json!({"timeoutSeconds": 2}))]).await;
    let object = map("a", json!({}));
    let looping = cluster.post(MAPS, &object);
    let others = async {
        // The loop is at work, and others are served.
        let mut asked = 0;
        while asked < 2 {
            asked += hook.paths().len();
            cluster.get(MAPS).await.expect(200);
            tokio::task::yield_now().await;
        }
        let secret = json!({"metadata": {"name": "s"}});
        post_as(&cluster, "quiet", MAPS, &json!({"metadata": {"name": "M"}})).await.expect(422);
        cluster.post("/api/v1/namespaces/default/secrets", &secret).await.expect(201);
    };
    let (refused, ()) = tokio::join!(looping, others);
    let refused = refused.expect(500);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("context deadline exceeded"), "{message}");
    assert_eq!(cluster.get(MAPS).await.expect(200)["items"], json!([]));
}

/// More than so many webhooks judge one object, and none answers.
#[tokio::test]
async fn a_request_has_so_many_calls_at_once() {
    const AT_ONCE: usize = 16;
    let (cluster, hook) = (start().await, Hook::start().await);
    let held = |number: usize| with(hook.at("/hold"), json!({"name": format!("h{number}.example.com")}));
    let hooks: Vec<Value> = (0..AT_ONCE + 8).map(held).collect();
    validating(&cluster, "v", &hooks).await;
    let object = map("a", json!({}));
    let path = format!("{MAPS}?timeout=30s");
    let request = cluster.post(&path, &object);
    let watched = async {
        while hook.held() < AT_ONCE {
            cluster.get(MAPS).await.expect(200);
            tokio::task::yield_now().await;
        }
        // Calls that were sent with the others would be here before a connection that is made now is done.
        let other = Hook::start().await;
        let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
            "resources": ["secrets"]}]);
        mutating(&cluster, "m", &[with(other.at("/label"), json!({"rules": rules}))]).await;
        for name in ["s", "t", "u"] {
            let secret = json!({"metadata": {"name": name}});
            cluster.post("/api/v1/namespaces/default/secrets", &secret).await.expect(201);
        }
        hook.held()
    };
    tokio::select! {
        biased;
        held = watched => assert_eq!(held, AT_ONCE),
        _ = request => panic!("no webhook answered"),
    }
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
