//! Controllers of namespaces, accounts, owners, roles, quotas and Services.

use serde_json::{Value, json};

use super::{Surroundings, controller, is_sound, object, pod, template};

fn namespace() -> Value {
    object("v1", "Namespace", "n", json!({}))
}

fn within(namespace: &str, mut object: Value) -> Value {
    object["metadata"]["namespace"] = namespace.into();
    object
}

#[test]
fn owned_objects_go_with_their_owners() {
    let surroundings = Surroundings { others: &["deployment", "replicaset"], ..Surroundings::default() };
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template("a")});
    let life = controller("garbage", surroundings)
        .apply(object("apps/v1", "Deployment", "a", json!({"spec": spec})))
        .delete("a");
    is_sound(life);
}

#[test]
fn namespaces_go_with_their_objects() {
    let map = |name: &str| within("n", object("v1", "ConfigMap", name, json!({"data": {"a": "b"}})));
    let life = controller("namespace", Surroundings::default())
        .apply(namespace())
        .apply(map("a"))
        .apply(within("n", object("v1", "Secret", "s", json!({}))))
        .delete("n");
    is_sound(life);
}

#[test]
fn namespaces_get_their_account() {
    let surroundings = Surroundings { others: &["namespace"], ..Surroundings::default() };
    is_sound(controller("serviceaccount", surroundings).apply(namespace()).delete("n"));
}

#[test]
fn namespaces_get_the_certificate() {
    let surroundings = Surroundings { others: &["namespace"], ..Surroundings::default() };
    is_sound(controller("rootca", surroundings).apply(namespace()).delete("n"));
}

#[test]
fn secrets_get_their_token() {
    let mut secret = object("v1", "Secret", "s", json!({"type": "kubernetes.io/service-account-token"}));
    secret["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "a"});
    let life = controller("serviceaccount-token", Surroundings::default())
        .apply(object("v1", "ServiceAccount", "a", json!({})))
        .apply(secret)
        .delete("a");
    is_sound(life);
}

/// A Service with two pods.
fn serves(name: &'static str) {
    let service = |port: i64| {
        let spec = json!({"selector": {"app": "a"}, "ports": [{"port": port}]});
        object("v1", "Service", "web", json!({"spec": spec}))
    };
    let others = &["scheduler", "garbage"];
    let life = controller(name, Surroundings { others, nodes: 1, ..Surroundings::default() })
        .apply(pod("p1", json!({})))
        .apply(service(80))
        .apply(pod("p2", json!({})))
        .apply(service(81))
        .delete("p1")
        .delete("web");
    is_sound(life);
}

#[test]
fn endpoints_follow_pods() {
    serves("endpoints");
}

#[test]
fn endpoint_slices_follow_pods() {
    serves("endpointslice");
}

#[test]
fn quotas_count() {
    let quota = |most: i64| {
        let spec = json!({"hard": {"count/configmaps": most.to_string()}});
        object("v1", "ResourceQuota", "q", json!({"spec": spec}))
    };
    let life = controller("resourcequota", Surroundings::default())
        .apply(quota(5))
        .apply(object("v1", "ConfigMap", "a", json!({})))
        .apply(quota(6))
        .delete("a")
        .delete("q");
    is_sound(life);
}

#[test]
fn roles_are_aggregated() {
    const VERSION: &str = "rbac.authorization.k8s.io/v1";
    let selectors = json!([{"matchLabels": {"part": "yes"}}]);
    let whole = object(
        VERSION,
        "ClusterRole",
        "whole",
        json!({"aggregationRule": {"clusterRoleSelectors": selectors}}),
    );
    let part = |name: &str, resource: &str| {
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]);
        let mut role = object(VERSION, "ClusterRole", name, json!({"rules": rules}));
        role["metadata"]["labels"] = json!({"part": "yes"});
        role
    };
    let life = controller("clusterrole-aggregation", Surroundings::default())
        .apply(part("a", "pods"))
        .apply(whole)
        .apply(part("b", "secrets"))
        .apply(part("a", "nodes"))
        .delete("b");
    is_sound(life);
}

#[test]
fn budgets_count() {
    let budget = |least: i64| {
        let spec = json!({"minAvailable": least, "selector": {"matchLabels": {"app": "a"}}});
        object("policy/v1", "PodDisruptionBudget", "b", json!({"spec": spec}))
    };
    let surroundings = Surroundings { others: &["scheduler"], nodes: 1, ..Surroundings::default() };
    let life = controller("disruption", surroundings)
        .apply(pod("p1", json!({})))
        .apply(budget(1))
        .apply(pod("p2", json!({})))
        .apply(budget(2))
        .delete("p1")
        .delete("b");
    is_sound(life);
}
