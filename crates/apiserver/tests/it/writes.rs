//! Create, update, patch, delete.

use http::{Method, Request};
use serde_json::{Value, json};

use crate::cluster::{APPLY, JSON_PATCH, MAPS, MERGE, STRATEGIC, body, map, start, version};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

#[tokio::test]
async fn names_are_drawn_and_taken_names_refused() {
    let cluster = start().await;
    let generated = json!({"metadata": {"generateName": "web-"}});
    let created = cluster.post(MAPS, &generated).await.expect(201);
    let name = created["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    let taken = cluster.post(MAPS, &map("a", json!({}))).await.expect(409);
    assert_eq!(
        (&taken["reason"], &taken["details"]["kind"]),
        (&json!("AlreadyExists"), &json!("configmaps"))
    );
}

#[tokio::test]
async fn a_write_that_changes_nothing_keeps_the_version() {
    let cluster = start().await;
    let path = format!("{MAPS}/a");
    let created = cluster.post(MAPS, &map("a", json!({"x": "1"}))).await.expect(201);
    cluster.now.fetch_add(60, std::sync::atomic::Ordering::Relaxed);
    let put = cluster.put(&path, &map("a", json!({"x": "1"}))).await.expect(200);
    let patched = cluster.patch(&path, MERGE, &json!({"data": {"x": "1"}})).await.expect(200);
    assert_eq!((version(&put), version(&patched)), (version(&created), version(&created)));
    let config = map("b", json!({"y": "2"}));
    let apply = format!("{MAPS}/b?fieldManager=m");
    let first = cluster.patch(&apply, APPLY, &config).await.expect(201);
    cluster.now.fetch_add(60, std::sync::atomic::Ordering::Relaxed);
    let second = cluster.patch(&apply, APPLY, &config).await.expect(200);
    assert_eq!(first, second);
}

#[tokio::test]
async fn a_stale_writer_is_refused() {
    let cluster = start().await;
    let path = format!("{MAPS}/a");
    let mut mine = cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    cluster.patch(&path, MERGE, &json!({"data": {"theirs": "1"}})).await.expect(200);
    mine["data"] = json!({"mine": "1"});
    let refused = cluster.put(&path, &mine).await.expect(409);
    assert_eq!(refused["reason"], "Conflict");
    assert!(refused["message"].as_str().unwrap().ends_with(
        "the object has been modified; please apply your changes to the latest version and try again"
    ));
    let uid = json!({"preconditions": {"uid": "another"}});
    assert_eq!(cluster.with(Method::DELETE, &path, &uid).await.code, 409);
}

#[tokio::test]
async fn many_writers_of_one_object_lose_nothing() {
    let cluster = start().await;
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    let path = format!("{MAPS}/a");
    let patches = (0..50).map(|at| {
        let (path, patch) = (path.clone(), json!({"data": {format!("k{at}"): "v"}}));
        let cluster = &cluster;
        async move { cluster.patch(&path, MERGE, &patch).await.code }
    });
    let codes = futures::future::join_all(patches).await;
    assert!(codes.iter().all(|code| *code == 200), "{codes:?}");
    let stored = cluster.get(&path).await.expect(200);
    assert_eq!(stored["data"].as_object().unwrap().len(), 50);
}

#[tokio::test]
async fn dry_runs_leave_no_trace() {
    let cluster = start().await;
    let before = cluster.server.store().revision();
    let dry = cluster.post(&format!("{MAPS}?dryRun=All"), &map("a", json!({}))).await.expect(201);
    assert!(dry["metadata"]["uid"].is_string());
    assert_eq!(cluster.get(&format!("{MAPS}/a")).await.code, 404);
    cluster
        .patch(&format!("{MAPS}/a?fieldManager=m&dryRun=All"), APPLY, &map("a", json!({})))
        .await
        .expect(201);
    assert_eq!(cluster.server.store().revision(), before);
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    cluster.delete(&format!("{MAPS}/a?dryRun=All")).await.expect(200);
    assert_eq!(cluster.get(&format!("{MAPS}/a")).await.code, 200);
}

/// As kube-apiserver, also where that deletes what was only to be tried.
#[tokio::test]
async fn a_deletion_with_a_body_takes_nothing_from_the_query() {
    let cluster = start().await;
    for path in [format!("{MAPS}/a"), format!("{MAPS}?fieldSelector=metadata.name=a")] {
        let with = |query: &str| format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' });
        let there = async || cluster.get(&format!("{MAPS}/a")).await.code == 200;
        cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
        cluster.with(Method::DELETE, &path, &json!({"dryRun": ["All"]})).await.expect(200);
        cluster.with(Method::DELETE, &path, &json!({"dryRun": ["Some"]})).await.expect(422);
        cluster.delete(&with("dryRun=All")).await.expect(200);
        cluster.delete(&with("dryRun=Some")).await.expect(422);
        cluster.delete(&with("uid=another")).await.expect(409);
        assert!(there().await, "{path}");
        let query = with("dryRun=All&propagationPolicy=Orphan&gracePeriodSeconds=x&uid=another");
        cluster.with(Method::DELETE, &query, &json!({})).await.expect(200);
        assert!(!there().await, "{path}");
    }
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_goes() {
    let cluster = start().await;
    let path = format!("{MAPS}/a");
    let mut object = map("a", json!({}));
    object["metadata"]["finalizers"] = json!(["x.io/one", "x.io/two"]);
    cluster.post(MAPS, &object).await.expect(201);
    let terminating = cluster.delete(&path).await.expect(200);
    assert!(terminating["metadata"]["deletionTimestamp"].is_string());
    let more = json!({"metadata": {"finalizers": ["x.io/one", "x.io/two", "x.io/three"]}});
    assert_eq!(cluster.patch(&path, MERGE, &more).await.code, 422);
    let one = json!({"metadata": {"finalizers": ["x.io/two"]}});
    cluster.patch(&path, MERGE, &one).await.expect(200);
    cluster.patch(&path, MERGE, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(cluster.get(&path).await.code, 404);
}

#[tokio::test]
async fn a_running_pod_gets_its_time_and_only_less_of_it() {
    let cluster = start().await;
    cluster.post(PODS, &pod("p")).await.expect(201);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    cluster.post(&format!("{PODS}/p/binding"), &binding).await.expect(201);
    let path = format!("{PODS}/p");
    let delete = |seconds: i64| json!({"gracePeriodSeconds": seconds});
    let first = cluster.with(Method::DELETE, &path, &delete(20)).await.expect(200);
    assert_eq!(first["metadata"]["deletionGracePeriodSeconds"], 20);
    let longer = cluster.with(Method::DELETE, &path, &delete(30)).await.expect(200);
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 20);
    let shorter = cluster.with(Method::DELETE, &path, &delete(5)).await.expect(200);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    cluster.with(Method::DELETE, &path, &delete(0)).await.expect(200);
    assert_eq!(cluster.get(&path).await.code, 404);
}

#[tokio::test]
async fn status_and_spec_are_written_apart() {
    let cluster = start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"metadata": {"name": "d"}, "status": {"replicas": 9}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let created = cluster.post(deployments, &deployment).await.expect(201);
    assert_eq!((&created["status"], &created["metadata"]["generation"]), (&json!({}), &json!(1)));
    let both = json!({"spec": {"replicas": 4}, "status": {"replicas": 3}});
    let main = cluster.patch(&format!("{deployments}/d"), MERGE, &both).await.expect(200);
    assert_eq!((&main["spec"]["replicas"], &main["status"]), (&json!(4), &json!({})));
    assert_eq!(main["metadata"]["generation"], 2);
    let both = json!({"spec": {"replicas": 5}, "status": {"replicas": 3}});
    let status = cluster.patch(&format!("{deployments}/d/status"), MERGE, &both).await.expect(200);
    assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(4), &json!(3)));
    assert_eq!(status["metadata"]["generation"], 2);
    let scale = json!({"spec": {"replicas": 7}});
    let scaled = cluster.patch(&format!("{deployments}/d/scale"), MERGE, &scale).await.expect(200);
    assert_eq!((&scaled["kind"], &scaled["spec"]["replicas"]), (&json!("Scale"), &json!(7)));
    let sidecar = json!({"spec": {"template": {"spec": {"containers": [{"name": "s", "image": "j"}]}}}});
    let merged = cluster.patch(&format!("{deployments}/d"), STRATEGIC, &sidecar).await.expect(200);
    assert_eq!(merged["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn appliers_conflict_and_force() {
    let cluster = start().await;
    let at = |manager: &str, more: &str| format!("{MAPS}/a?fieldManager={manager}{more}");
    cluster.patch(&at("one", ""), APPLY, &map("a", json!({"x": "1"}))).await.expect(201);
    let conflict = cluster.patch(&at("two", ""), APPLY, &map("a", json!({"x": "2"}))).await.expect(409);
    assert_eq!(conflict["details"]["causes"][0]["reason"], "FieldManagerConflict");
    let forced =
        cluster.patch(&at("two", "&force=true"), APPLY, &map("a", json!({"x": "2"}))).await.expect(200);
    assert_eq!(forced["data"]["x"], "2");
    assert_eq!(cluster.patch(&format!("{MAPS}/a"), APPLY, &map("a", json!({}))).await.code, 422);
    let failed = json!([{"op": "test", "path": "/data/x", "value": "no"}]);
    assert_eq!(cluster.patch(&format!("{MAPS}/a"), JSON_PATCH, &failed).await.code, 422);
}

#[tokio::test]
async fn namespaces_must_be_there_and_stay() {
    let cluster = start().await;
    let missing = cluster.post("/api/v1/namespaces/nope/configmaps", &map("a", json!({}))).await.expect(404);
    assert_eq!(missing["details"]["kind"], "namespaces");
    let namespace = json!({"metadata": {"name": "blue"}});
    cluster.post("/api/v1/namespaces", &namespace).await.expect(201);
    let terminating = cluster.delete("/api/v1/namespaces/blue").await.expect(200);
    assert_eq!(terminating["status"]["phase"], "Terminating");
    let late = cluster.post("/api/v1/namespaces/blue/configmaps", &map("a", json!({}))).await.expect(403);
    assert_eq!(late["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let finalized = json!({"metadata": {"name": "blue"}, "spec": {"finalizers": []}});
    cluster.put("/api/v1/namespaces/blue/finalize", &finalized).await.expect(200);
    assert_eq!(cluster.get("/api/v1/namespaces/blue").await.code, 404);
    assert_eq!(cluster.delete("/api/v1/namespaces/default").await.code, 403);
}

#[tokio::test]
async fn bodies_are_bounded_and_must_make_sense() {
    let cluster = start().await;
    let send = |bytes: Vec<u8>, kind: &str| {
        Request::post(MAPS).header("content-type", kind).body(body(bytes)).unwrap()
    };
    let huge = cluster.send(send(vec![b' '; 3 * 1024 * 1024 + 1], "application/json")).await.expect(413);
    assert_eq!(huge["reason"], "RequestEntityTooLarge");
    assert_eq!(cluster.send(send(b"{".to_vec(), "application/json")).await.code, 400);
    assert_eq!(cluster.send(send(b"[]".to_vec(), "application/json")).await.code, 400);
    assert_eq!(cluster.send(send(b"\xff\xfe".to_vec(), "application/json")).await.code, 400);
    assert_eq!(
        cluster.send(send(b"k8s\0junk".to_vec(), "application/vnd.kubernetes.protobuf")).await.code,
        400
    );
    assert_eq!(cluster.send(send(b"{}".to_vec(), "application/cbor")).await.code, 415);
    let wrong = json!({"metadata": {"name": "a"}, "data": {"x": 5}});
    assert_eq!(cluster.post(MAPS, &wrong).await.code, 400);
    let unknown = json!({"metadata": {"name": "a"}, "bogus": 1});
    let warned = cluster.post(MAPS, &unknown).await;
    assert_eq!(warned.warnings(), ["299 - \"unknown field \\\"bogus\\\"\""]);
    assert_eq!(cluster.post(&format!("{MAPS}?fieldValidation=Strict"), &unknown).await.code, 400);
    let operations: Vec<Value> = vec![json!({"op": "add", "path": "/data", "value": {}}); 10_001];
    let many = cluster.patch(&format!("{MAPS}/a"), JSON_PATCH, &json!(operations)).await;
    assert_eq!(many.code, 413);
    let deep = format!(
        "{{\"metadata\":{{\"name\":\"deep\"}},\"data\":{}{}}}",
        "[".repeat(20_000),
        "]".repeat(20_000)
    );
    assert_eq!(cluster.send(send(deep.into_bytes(), "application/json")).await.code, 400);
}

/// Its end lies beyond what a time can say.
#[tokio::test]
async fn a_pod_with_the_longest_grace_period_can_be_deleted() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let cluster = start().await;
    for (name, own, asked) in
        [("own", i64::MAX, String::new()), ("asked", 30, format!("?gracePeriodSeconds={}", i64::MAX))]
    {
        let pod = json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": own,
            "nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
        cluster.post(PODS, &pod).await.expect(201);
        let deleted = cluster.delete(&format!("{PODS}/{name}{asked}")).await.expect(200);
        assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], i64::MAX);
        assert_eq!(deleted["metadata"]["deletionTimestamp"], "9999-12-30T22:00:00Z");
        cluster.delete(&format!("{PODS}/{name}?gracePeriodSeconds=0")).await.expect(200);
        cluster.get(&format!("{PODS}/{name}")).await.expect(404);
    }
}

#[tokio::test]
async fn collections_are_deleted_by_selector() {
    let cluster = start().await;
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut object = map(name, json!({}));
        object["metadata"]["labels"] = json!({"app": app});
        cluster.post(MAPS, &object).await.expect(201);
    }
    let deleted = cluster.delete(&format!("{MAPS}?labelSelector=app%3Dx")).await.expect(200);
    assert_eq!(deleted["items"].as_array().unwrap().len(), 2);
    let left = cluster.get(MAPS).await.expect(200);
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn kinds_without_anything_behind_them_say_so() {
    let cluster = start().await;
    let policy = json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}}});
    let answer = cluster.post("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", &policy).await;
    assert_eq!(answer.code, 201);
    assert_eq!(
        answer.warnings(),
        [
            "299 - \"networkpolicies.networking.k8s.io are stored and served by this server; nothing acts on them\""
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_given_up() {
    let cluster = start().await;
    let frames =
        futures::stream::pending::<Result<http_body::Frame<bytes::Bytes>, setpoint_apiserver::BoxError>>();
    let endless = http_body_util::BodyExt::boxed_unsync(http_body_util::StreamBody::new(frames));
    let request = Request::post(MAPS).body(endless).unwrap();
    let refused = cluster.send(request).await.expect(504);
    assert_eq!(refused["reason"], "Timeout");
}

#[tokio::test]
async fn yaml_that_grows_without_end_is_refused() {
    let cluster = start().await;
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for at in 1..10 {
        let before = format!("*a{}", at - 1);
        bomb.push_str(&format!("a{at}: &a{at} [{}]\n", vec![before; 10].join(",")));
    }
    let request = Request::post(MAPS).header("content-type", "application/yaml").body(body(bomb)).unwrap();
    assert_eq!(cluster.send(request).await.code, 400);
}

/// As kube-apiserver 1.37 answers.
#[tokio::test]
async fn a_patch_makes_no_object_of_another_kind() {
    let cluster = start().await;
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    let path = format!("{MAPS}/a");
    let other = json!([{"op": "replace", "path": "/kind", "value": "Secret"}]);
    for (kind, patch, why) in [
        (MERGE, json!({"kind": "Secret"}), "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        (JSON_PATCH, other, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        (
            MERGE,
            json!({"apiVersion": "v2"}),
            "no kind \"ConfigMap\" is registered for version \"v2\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
    ] {
        let refused = cluster.patch(&path, kind, &patch).await.expect(422);
        let message = refused["message"].as_str().unwrap();
        assert!(message.starts_with(" \"\" is invalid: patch: Invalid value: \"{"), "{message}");
        assert!(message.ends_with(why), "{message}");
        assert_eq!(refused.pointer("/details/causes/0/field"), Some(&json!("patch")));
    }
    cluster.patch(&path, MERGE, &json!({"kind": null})).await.expect(200);
    cluster.patch(&path, STRATEGIC, &json!({"kind": "Secret"})).await.expect(200);
}
