//! Custom resources.

use serde_json::{Value, json};
use setpoint_apiserver::{Caller, UserInfo};

use crate::cluster::{APPLY, MERGE, start, version};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn definition(plural: &str, kind: &str) -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "size": {"type": "integer", "default": 3, "maximum": 10}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.replicas"}},
        "selectableFields": [{"jsonPath": ".spec.name"}],
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]})
    };
    json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {"group": "example.com",
        "scope": "Namespaced", "names": {"plural": plural, "kind": kind, "shortNames": ["wd"]},
        "versions": [version("v1", true), version("v1beta1", false)]}})
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn a_definition_is_served_when_its_create_is_answered() {
    let cluster = start().await;
    assert_eq!(cluster.get(WIDGETS).await.code, 404);
    cluster.post(DEFINITIONS, &definition("widgets", "Widget")).await.expect(201);
    let stored = cluster.get(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    let conditions = stored["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|condition| condition["status"] == "True"), "{conditions:?}");
    assert_eq!(stored["status"]["storedVersions"], json!(["v1"]));
    let created = cluster.post(WIDGETS, &widget("w", json!({"name": "x", "bogus": 1}))).await;
    assert_eq!(created.warnings(), ["299 - \"unknown field \\\"spec.bogus\\\"\""]);
    let created = created.expect(201);
    assert_eq!(created["spec"], json!({"name": "x", "size": 3}));
    let other = cluster.get("/apis/example.com/v1beta1/namespaces/default/widgets/w").await.expect(200);
    assert_eq!((&other["apiVersion"], &other["spec"]), (&json!("example.com/v1beta1"), &created["spec"]));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = cluster.get_as(WIDGETS, table).await.expect(200);
    assert_eq!(table["rows"][0]["cells"], json!(["w", 3]));
    let selected = cluster.get(&format!("{WIDGETS}?fieldSelector=spec.name%3Dx")).await.expect(200);
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
    let discovered = cluster.get("/apis/example.com/v1").await.expect(200);
    assert_eq!(discovered["resources"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn custom_objects_are_validated_and_their_status_is_apart() {
    let cluster = start().await;
    cluster.post(DEFINITIONS, &definition("widgets", "Widget")).await.expect(201);
    let missing = cluster.post(WIDGETS, &widget("w", json!({}))).await.expect(422);
    assert_eq!(missing["details"]["causes"][0]["field"], "spec.name");
    assert_eq!(cluster.post(WIDGETS, &widget("w", json!({"name": "x", "size": 11}))).await.code, 422);
    cluster.post(WIDGETS, &widget("w", json!({"name": "x"}))).await.expect(201);
    let path = format!("{WIDGETS}/w");
    let main = json!({"spec": {"size": 4}, "status": {"phase": "no"}});
    let main = cluster.patch(&path, MERGE, &main).await.expect(200);
    assert_eq!((main.get("status"), &main["metadata"]["generation"]), (None, &json!(2)));
    let status = json!({"spec": {"size": 5}, "status": {"phase": "yes"}});
    let status = cluster.patch(&format!("{path}/status"), MERGE, &status).await.expect(200);
    assert_eq!((&status["spec"]["size"], &status["status"]["phase"]), (&json!(4), &json!("yes")));
    let scale =
        cluster.patch(&format!("{path}/scale"), MERGE, &json!({"spec": {"replicas": 6}})).await.expect(200);
    assert_eq!(scale["spec"]["replicas"], 6);
    assert_eq!(cluster.patch(&path, "application/strategic-merge-patch+json", &json!({})).await.code, 415);
    let applied = widget("w", json!({"name": "y"}));
    let conflict = cluster.patch(&format!("{path}?fieldManager=m"), APPLY, &applied).await;
    assert_eq!(conflict.code, 409);
}

#[tokio::test]
async fn names_in_use_are_not_accepted_until_they_are_free() {
    let cluster = start().await;
    cluster.post(DEFINITIONS, &definition("widgets", "Widget")).await.expect(201);
    cluster.post(DEFINITIONS, &definition("gadgets", "Widget")).await.expect(201);
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let condition = |definition: &Value, kind: &str| {
        let conditions = definition["status"]["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|condition| condition["type"] == kind).unwrap()["status"].clone()
    };
    let waiting = cluster.get(&path).await.expect(200);
    assert_eq!(condition(&waiting, "NamesAccepted"), "False");
    assert_eq!(cluster.get("/apis/example.com/v1/gadgets").await.code, 404);
    cluster.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    let accepted = cluster.get(&path).await.expect(200);
    assert_eq!(condition(&accepted, "Established"), "True");
    assert_eq!(cluster.get("/apis/example.com/v1/gadgets").await.code, 200);
}

#[tokio::test]
async fn a_definition_goes_after_its_instances() {
    let cluster = start().await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    cluster.post(DEFINITIONS, &definition("widgets", "Widget")).await.expect(201);
    cluster.post(WIDGETS, &widget("plain", json!({"name": "x"}))).await.expect(201);
    let mut held = widget("held", json!({"name": "x"}));
    held["metadata"]["finalizers"] = json!(["x.io/hold"]);
    cluster.post(WIDGETS, &held).await.expect(201);
    let deleted = cluster.delete(&path).await.expect(200);
    assert_eq!(deleted["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(cluster.get(&format!("{WIDGETS}/plain")).await.code, 404);
    let held = cluster.get(&format!("{WIDGETS}/held")).await.expect(200);
    assert!(held["metadata"]["deletionTimestamp"].is_string() && version(&held) > 0);
    assert_eq!(cluster.post(WIDGETS, &widget("late", json!({"name": "x"}))).await.code, 403);
    let release = json!({"metadata": {"finalizers": null}});
    cluster.patch(&format!("{WIDGETS}/held"), MERGE, &release).await.expect(200);
    assert_eq!(cluster.get(&path).await.code, 404);
    assert_eq!(cluster.get(WIDGETS).await.code, 404);
}

#[tokio::test]
async fn a_definition_that_is_not_structural_is_refused() {
    let cluster = start().await;
    let mut wrong = definition("widgets", "Widget");
    wrong["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "properties": {"spec": {"properties": {"x": {"type": "string"}}}}});
    let refused = cluster.post(DEFINITIONS, &wrong).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("type: Required value"), "{refused}");
    let mut misnamed = definition("widgets", "Widget");
    misnamed["metadata"]["name"] = json!("other.example.com");
    assert_eq!(cluster.post(DEFINITIONS, &misnamed).await.code, 422);
}

#[tokio::test]
async fn a_fork_serves_the_same_definitions() {
    let cluster = start().await;
    cluster.post(DEFINITIONS, &definition("widgets", "Widget")).await.expect(201);
    let made = cluster.post(WIDGETS, &widget("w", json!({"name": "x"}))).await.expect(201);
    let store = cluster.server.store().fork();
    let options = setpoint_apiserver::Options { store, ..cluster.server.options().clone() };
    let forked = setpoint_apiserver::Server::start(options).await.unwrap();
    let fork = crate::cluster::Cluster { server: forked, now: cluster.now.clone() };
    cluster.delete(&format!("{WIDGETS}/w")).await.expect(200);
    assert_eq!(fork.get(&format!("{WIDGETS}/w")).await.expect(200), made);
}

/// kube-apiserver 1.37 keeps built-in objects below their resource's name and custom ones below group and resource:
/// neither is ever read as the other.
#[tokio::test]
async fn custom_objects_are_never_read_as_the_built_in_ones_of_their_name() {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io";
    let cluster = start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let bindings = json!({"metadata": {"name": "clusterrolebindings.rbac.authorization.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"}},
        "spec": {"group": "rbac.authorization.k8s.io", "scope": "Cluster",
        "names": {"plural": "clusterrolebindings", "kind": "ClusterRoleBinding"},
        "versions": [{"name": "v9", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    cluster.post(DEFINITIONS, &bindings).await.expect(201);
    let before = cluster.get(&format!("{RBAC}/v1/clusterrolebindings")).await.expect(200);
    let granted = json!({"apiVersion": "rbac.authorization.k8s.io/v9", "kind": "ClusterRoleBinding",
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}]});
    cluster.post(&format!("{RBAC}/v9/clusterrolebindings"), &granted).await.expect(201);
    let secrets = || http::Request::get("/api/v1/secrets").body(crate::cluster::body("")).unwrap();
    let mallory = || Caller::Trusted(UserInfo::new("mallory", ["system:authenticated"]));
    assert_eq!(cluster.send_as(mallory(), secrets()).await.code, 403);
    assert_eq!(cluster.get(&format!("{RBAC}/v1/clusterrolebindings/mine")).await.code, 404);
    let after = cluster.get(&format!("{RBAC}/v1/clusterrolebindings")).await.expect(200);
    assert_eq!(after["items"], before["items"]);
    let own = cluster.get(&format!("{RBAC}/v9/clusterrolebindings")).await.expect(200);
    assert_eq!(own["items"].as_array().map(Vec::len), Some(1));
    let definition = format!("{DEFINITIONS}/clusterrolebindings.rbac.authorization.k8s.io");
    cluster.delete(&definition).await.expect(200);
    assert_eq!(cluster.get(&definition).await.code, 404);
    assert_eq!(cluster.get(&format!("{RBAC}/v9/clusterrolebindings")).await.code, 404);
    let after = cluster.get(&format!("{RBAC}/v1/clusterrolebindings")).await.expect(200);
    assert_eq!(after["items"], before["items"]);
}

/// Nor is a definition that names the definitions themselves; and no name of one leads into the keys of another.
#[tokio::test]
async fn names_of_definitions_lead_nowhere_else() {
    let cluster = start().await;
    let named = |group: &str, plural: &str, kind: &str| {
        let mut definition = definition(plural, kind);
        definition["metadata"]["name"] = json!(format!("{plural}.{group}"));
        definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
        definition["spec"]["group"] = json!(group);
        definition
    };
    for (group, plural) in [
        ("", "pods"),
        ("core", "pods"),
        ("apps", "deployments"),
        ("example.com", "clusterrolebindings/status"),
        ("example.com", "pods:custom"),
        ("example.com/v1", "pods"),
    ] {
        let refused = cluster.post(DEFINITIONS, &named(group, plural, "Thing")).await;
        assert_eq!(refused.code, 422, "{group} {plural}");
    }
    let own = named("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition");
    cluster.post(DEFINITIONS, &own).await.expect(201);
    let widgets = "/apis/apiextensions.k8s.io/v1beta1/namespaces/default/customresourcedefinitions";
    let object = json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "a"}, "spec": {"name": "a"}});
    cluster.post(widgets, &object).await.expect(201);
    let all = cluster.get(DEFINITIONS).await.expect(200);
    assert_eq!(all["items"].as_array().map(Vec::len), Some(1));
}
