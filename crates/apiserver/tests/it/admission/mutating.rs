//! Changes of objects by mutating webhooks.

use serde_json::json;

use super::hook::{Hook, mutating, validating, with};
use crate::cluster::{APPLY, JSON_PATCH, MAPS, MERGE, STRATEGIC, map, start};

/// As kube-apiserver 1.37 asks and stores.
#[tokio::test]
async fn a_new_object_is_changed_and_then_judged() {
    let (cluster, hook) = (start().await, Hook::start().await);
    mutating(&cluster, "m", &[hook.at("/label")]).await;
    validating(&cluster, "v", &[hook.at("/look")]).await;
    let created =
        cluster.post(&format!("{MAPS}?fieldManager=me"), &map("a", json!({"k": "v"}))).await.expect(201);
    assert_eq!(created["metadata"]["labels"], json!({"hooked": "yes"}));
    let owned = &created["metadata"]["managedFields"];
    assert_eq!(owned.as_array().unwrap().len(), 1);
    assert_eq!(owned[0]["fieldsV1"], json!({"f:data": {".": {}, "f:k": {}}}));
    assert_eq!(cluster.get(&format!("{MAPS}/a")).await.expect(200), created);

    let [changing, judging] = hook.requests().try_into().unwrap();
    let metadata = &changing["object"]["metadata"];
    assert_eq!(
        (metadata.get("uid"), metadata.get("creationTimestamp"), metadata.get("labels")),
        (None, None, None)
    );
    assert_eq!(judging["object"]["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(judging["object"]["metadata"]["labels"], json!({"hooked": "yes"}));
    for request in [&changing, &judging] {
        let mut request = request.clone();
        for field in ["uid", "object"] {
            request.as_object_mut().unwrap().remove(field);
        }
        assert_eq!(
            request,
            json!({"kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
                "resource": {"group": "", "version": "v1", "resource": "configmaps"},
                "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
                "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
                "name": "a", "namespace": "default", "operation": "CREATE",
                "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
                "oldObject": null, "dryRun": false,
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}})
        );
    }
}

#[tokio::test]
async fn every_way_to_change_an_object_is_an_update_and_to_make_one_a_creation() {
    let (cluster, hook) = (start().await, Hook::start().await);
    cluster.post(MAPS, &map("a", json!({"k": "v"}))).await.expect(201);
    mutating(&cluster, "m", &[hook.at("/label")]).await;
    let path = format!("{MAPS}/a");
    cluster.put(&path, &map("a", json!({"k": "w"}))).await.expect(200);
    cluster.patch(&path, MERGE, &json!({"data": {"m": "1"}})).await.expect(200);
    cluster.patch(&path, STRATEGIC, &json!({"data": {"s": "1"}})).await.expect(200);
    let operations = json!([{"op": "add", "path": "/data/j", "value": "1"}]);
    cluster.patch(&path, JSON_PATCH, &operations).await.expect(200);
    let apply = format!("{MAPS}/b?fieldManager=me");
    cluster.patch(&apply, APPLY, &map("b", json!({"k": "v"}))).await.expect(201);
    let applied = cluster.patch(&apply, APPLY, &map("b", json!({"k": "v"}))).await.expect(200);
    assert_eq!(applied["metadata"]["labels"], json!({"hooked": "yes"}));
    let asked: Vec<_> = hook
        .requests()
        .iter()
        .map(|r| {
            let keys = r["object"]["data"].as_object().unwrap().keys().cloned().collect::<String>();
            (
                r["operation"].as_str().unwrap().to_owned(),
                r["options"]["kind"].as_str().unwrap().to_owned(),
                keys,
            )
        })
        .collect();
    let expected = [
        ("UPDATE", "k"),
        ("UPDATE", "km"),
        ("UPDATE", "kms"),
        ("UPDATE", "jkms"),
        ("CREATE", "k"),
        ("UPDATE", "k"),
    ];
    let options = |operation: &str| if operation == "CREATE" { "CreateOptions" } else { "UpdateOptions" };
    let expected: Vec<_> =
        expected.map(|(o, keys)| (o.to_owned(), options(o).to_owned(), keys.to_owned())).into();
    assert_eq!(asked, expected);
    let stored = cluster.get(&path).await.expect(200);
    assert_eq!(stored["metadata"]["labels"], json!({"hooked": "yes"}));
}

/// The order that kube-apiserver 1.37 was seen to keep: those that want to see later changes are asked once more.
#[tokio::test]
async fn webhooks_are_asked_in_order_and_again_where_they_want_to() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    mutating(&cluster, "c", &[with(hook.at("/appendC"), again.clone())]).await;
    mutating(&cluster, "a", &[with(hook.at("/appendA"), again)]).await;
    mutating(&cluster, "b", &[hook.at("/appendB")]).await;
    let created = cluster.post(MAPS, &map("x", json!({}))).await.expect(201);
    assert_eq!(created["metadata"]["annotations"]["n"], "ABCAC");
    assert_eq!(hook.paths(), ["/appendA", "/appendB", "/appendC", "/appendA", "/appendC"]);
}

#[tokio::test]
async fn a_drawn_name_is_not_shown_before_it_counts_and_may_be_replaced() {
    let (cluster, hook) = (start().await, Hook::start().await);
    mutating(&cluster, "m", &[hook.at("/label")]).await;
    validating(&cluster, "v", &[hook.at("/look")]).await;
    let object = json!({"metadata": {"generateName": "g-"}});
    let created = cluster.post(MAPS, &object).await.expect(201);
    let [changing, judging] = hook.requests().try_into().unwrap();
    assert_eq!((changing.get("name"), changing["object"]["metadata"].get("name")), (None, None));
    let name = &created["metadata"]["name"];
    assert_eq!((&judging["name"], &judging["object"]["metadata"]["name"]), (name, name));
    mutating(&cluster, "n", &[hook.at("/rename")]).await;
    let created = cluster.post(MAPS, &object).await.expect(201);
    assert_eq!(created["metadata"]["name"], "renamed");
    cluster.get(&format!("{MAPS}/renamed")).await.expect(200);
}

/// In kube-apiserver 1.37's words.
#[tokio::test]
async fn patches_that_do_not_fit_are_refused() {
    let (cluster, hook) = (start().await, Hook::start().await);
    for (path, expected) in [
        (
            "/nowhere",
            "error in remove for path: '/metadata/nothere': Unable to remove nonexistent key: nothere: missing value",
        ),
        (
            "/wrong",
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string",
        ),
    ] {
        let name = path.trim_start_matches('/');
        mutating(&cluster, name, &[hook.at(path)]).await;
        let refused = cluster.post(MAPS, &map("x", json!({}))).await.expect(500);
        assert_eq!(refused["message"], format!("Internal error occurred: {expected}"));
        let path = format!("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{name}");
        cluster.delete(&path).await.expect(200);
    }
    mutating(&cluster, "kind", &[hook.at("/kind")]).await;
    let refused = cluster.post(MAPS, &map("x", json!({}))).await.expect(500);
    assert_eq!(refused["message"], "converting (v1.Secret) to (core.ConfigMap): unknown conversion");
    cluster
        .delete("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kind")
        .await
        .expect(200);
    mutating(&cluster, "managers", &[hook.at("/managers")]).await;
    let answer = cluster.post(MAPS, &map("x", json!({"k": "v"}))).await;
    let warning = "299 - \".metadata.managedFields was in an invalid state after admission; this could be caused by an \
                   outdated mutating admission controller; please fix your requests: operation must be `Apply` or `Update`\"";
    assert_eq!(answer.warnings(), [warning]);
    assert_eq!(answer.expect(201)["metadata"]["managedFields"][0]["operation"], "Update");
}

/// The reviewed object is the stored one: if another client writes meanwhile, the server calls the webhook again.
#[tokio::test]
async fn a_write_that_others_overtook_is_judged_again() {
    let (cluster, hook) = (start().await, Hook::start().await);
    cluster.post(MAPS, &map("a", json!({"k": "v"}))).await.expect(201);
    let selector = json!({"objectSelector": {"matchLabels": {"slow": "yes"}}});
    validating(&cluster, "v", &[with(hook.at("/gate"), selector)]).await;
    let path = format!("{MAPS}/a");
    let change = json!({"metadata": {"labels": {"slow": "yes"}}});
    let slow = async { cluster.patch(&path, MERGE, &change).await.expect(200) };
    let others = async {
        hook.arrived().await;
        cluster.patch(&path, MERGE, &json!({"data": {"other": "1"}})).await.expect(200);
        hook.release();
        hook.arrived().await;
        hook.release();
    };
    let (written, ()) = tokio::join!(slow, others);
    assert_eq!(written["data"], json!({"k": "v", "other": "1"}));
    assert_eq!(written["metadata"]["labels"], json!({"slow": "yes"}));
    let seen: Vec<_> = hook.requests().iter().map(|request| request["object"]["data"].clone()).collect();
    assert_eq!(seen, [json!({"k": "v"}), json!({"k": "v", "other": "1"})]);
}

/// Addresses are drawn once a request, however often it is decided.
#[tokio::test]
async fn the_address_of_a_service_is_the_one_that_was_judged() {
    let (cluster, hook) = (start().await, Hook::start().await);
    let rules = json!({"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}]});
    mutating(&cluster, "m", &[with(hook.at("/label"), rules.clone())]).await;
    validating(&cluster, "v", &[with(hook.at("/look"), rules)]).await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let created = cluster.post("/api/v1/namespaces/default/services", &service).await.expect(201);
    let [changing, judging] = hook.requests().try_into().unwrap();
    assert_eq!(changing["object"]["spec"].get("clusterIP"), None);
    assert_eq!(judging["object"]["spec"]["clusterIP"], created["spec"]["clusterIP"]);
}
