//! Lists and watches of one name: authorization is asked about exactly what is then read.
//!
//! The rules are Kubernetes 1.37's `NewRequestInfo` and `ListResource`.

use http::{Method, Request};
use serde_json::{Value, json};
use setpoint_apiserver::{Caller, UserInfo};

use crate::cluster::{Answer, Cluster, body, start};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const NAMED: &str = "/api/v1/watch/namespaces/default/secrets/allowed";
const TEXT: &str = "fieldSelector metadata.name doesn't match requested name";

/// A cluster in which `eve` may do everything with Secrets of the name `allowed`.
async fn cluster() -> Cluster {
    let cluster = start().await;
    for name in ["allowed", "topsecret"] {
        let secret = json!({"metadata": {"name": name}, "stringData": {"a": name}});
        cluster.post("/api/v1/namespaces/default/secrets", &secret).await.expect(201);
    }
    let role = json!({"metadata": {"name": "one"}, "rules": [
        {"apiGroups": [""], "resources": ["secrets", "pods/proxy"], "resourceNames": ["allowed"], "verbs": ["*"]}]});
    cluster.post(&format!("{RBAC}/clusterroles"), &role).await.expect(201);
    let binding = json!({"metadata": {"name": "one"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "one"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}]});
    cluster.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.expect(201);
    cluster
}

impl Cluster {
    async fn as_eve(&self, method: Method, path: &str) -> Answer {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let secret = json!({"metadata": {"name": "made"}}).to_string();
        let groups: [&str; 0] = [];
        self.send_as(Caller::Trusted(UserInfo::new("eve", groups)), request.body(body(secret)).unwrap()).await
    }
}

/// The names in the events of a watch.
fn names(answer: &Answer) -> Vec<String> {
    let lines = std::str::from_utf8(&answer.bytes).unwrap().lines();
    let events = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.map(|event| event["object"]["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_path_with_a_name_is_about_that_name() {
    let cluster = cluster().await;
    let get =
        async |rest: &str| cluster.as_eve(Method::GET, &format!("{NAMED}?timeoutSeconds=1{rest}")).await;
    for rest in ["", "&fieldSelector=metadata.name=allowed"] {
        let answer = get(rest).await;
        assert_eq!((answer.code, names(&answer)), (200, vec!["allowed".to_owned()]), "{rest}");
    }
    for rest in ["metadata.name=topsecret", "metadata.name!=allowed", "type=Opaque"] {
        let refused = get(&format!("&fieldSelector={rest}")).await.expect(400);
        assert_eq!(refused["message"], TEXT, "{rest}");
    }
    // Without a namespace there is no such path.
    let all = cluster.as_eve(Method::GET, "/api/v1/watch/secrets/allowed?timeoutSeconds=1").await.expect(404);
    assert_eq!(all["message"], "the server could not find the requested resource");
    // The selector gives a watch path no name.
    for path in ["/api/v1/watch/secrets", "/api/v1/watch/namespaces/default/secrets"] {
        let path = format!("{path}?timeoutSeconds=1&fieldSelector=metadata.name=allowed");
        cluster.as_eve(Method::GET, &path).await.expect(403);
    }
}

#[tokio::test]
async fn verbs_in_paths_are_not_writes() {
    let cluster = cluster().await;
    let collection = "/api/v1/watch/namespaces/default/secrets";
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD] {
        for path in [collection, NAMED] {
            let request = Request::builder().method(method.clone()).uri(path);
            let secret = json!({"metadata": {"name": "made"}}).to_string();
            assert_eq!(cluster.send(request.body(body(secret)).unwrap()).await.code, 405, "{method} {path}");
        }
        assert_eq!(cluster.as_eve(method, collection).await.code, 403);
    }
    let left = cluster.get("/api/v1/namespaces/default/secrets").await.expect(200);
    assert_eq!(left["items"].as_array().unwrap().len(), 2);
    for path in [
        "/api/v1/watch/namespaces/default/pods/allowed/proxy",
        "/api/v1/watch/namespaces/default/pods/allowed/log",
        "/api/v1/proxy/namespaces/default/pods/allowed",
        "/api/v1/proxy/nodes/allowed/metrics",
    ] {
        cluster.get(path).await.expect(404);
        let refused = cluster.as_eve(Method::GET, path).await;
        assert!([403, 404].contains(&refused.code), "{path}: {}", refused.code);
    }
    let refused = cluster.as_eve(Method::POST, "/api/v1/proxy/namespaces/default/pods/x/y").await.expect(403);
    let text = "pods \"x\" is forbidden: User \"eve\" cannot proxy resource \"pods\" in API group \"\" in the namespace \
                \"default\"";
    assert_eq!(refused["message"], text);
}

/// A comma can be part of a value, and a name can come first in the text only.
#[tokio::test]
async fn authorization_reads_a_selector_as_the_list_does() {
    let cluster = cluster().await;
    let list = async |method: Method, selector: &str| {
        let path = format!("/api/v1/namespaces/default/secrets?fieldSelector={selector}");
        cluster.as_eve(method, &path).await
    };
    let own = list(Method::GET, "metadata.name=allowed").await.expect(200);
    assert_eq!(own["items"].as_array().unwrap().len(), 1);
    list(Method::GET, "type!=a%5C,metadata.name%5C=allowed,metadata.name=topsecret").await.expect(403);
    let both = list(Method::GET, "metadata.name=topsecret,metadata.name=allowed").await.expect(200);
    assert_eq!(both["items"], json!([]));
    // Only reads of one name are like a get of it.
    list(Method::DELETE, "metadata.name=allowed").await.expect(403);
    // A HEAD is a get to authorization, and nothing answers it.
    let head = |path| cluster.as_eve(Method::HEAD, path);
    assert_eq!(head("/api/v1/namespaces/default/secrets/allowed").await.code, 405);
    assert_eq!(head("/api/v1/namespaces/default/secrets/topsecret").await.code, 403);
}
