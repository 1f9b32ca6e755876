//! An operator has the rights that it needs, and needs every one that it has.

use serde_json::{Value, json};
use setpoint_cluster::Cluster;

use crate::requests::Fault;
use crate::world::{TestedOperator, World};

/// One verb on one resource in one of the operator's roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// ClusterRole or Role.
    pub role: String,
    /// The API group.
    pub group: String,
    /// The resource, with its subresource.
    pub resource: String,
    /// The verb.
    pub verb: String,
}

/// Lives the operator's whole life under its service account: with all its rights no request is refused; with any one
/// of them taken away one is.
///
/// `life` makes the operator do everything that it can do. `elsewhere` names rights that this cluster never asks for;
/// whoever uses it says where they are shown to be needed.
pub async fn check(
    operator: TestedOperator,
    life: impl AsyncFn(&mut World),
    elsewhere: impl Fn(&Right) -> bool,
) {
    let base = World::idle(operator).await;
    for object in (operator.manifests)("image").iter().filter(|object| object["kind"] != "Deployment") {
        base.apply(object).await;
    }
    for fault in [Fault::None, Fault::NoStreaming] {
        let mut world = under_its_account(base.cluster.fork().await.unwrap(), operator, fault);
        life(&mut world).await;
        assert!(world.requests.forbidden().is_empty(), "{fault:?}: {:?}", world.requests.forbidden());
    }
    let rights = rights(operator);
    assert!(!rights.is_empty());
    for right in rights.iter().filter(|right| !elsewhere(right)) {
        // Without streaming, because that asks for list where a newer server is only asked for watch.
        let mut world = under_its_account(base.cluster.fork().await.unwrap(), operator, Fault::NoStreaming);
        world.apply(&role_without(operator, right)).await;
        let requests = world.requests.clone();
        let missed = tokio::select! {
            biased;
            () = requests.until_forbidden() => false,
            () = life(&mut world) => true,
        };
        assert!(!missed, "{right:?} is not needed");
    }
}

/// A replica that the server takes for the operator's service account.
fn under_its_account(cluster: Cluster, operator: TestedOperator, fault: Fault) -> World {
    let mut world = World::on(cluster, operator, fault);
    let namespace = operator.namespace();
    let user = format!("system:serviceaccount:{namespace}:{}", operator.name);
    let of_namespace = format!("system:serviceaccounts:{namespace}");
    let groups = ["system:serviceaccounts", &of_namespace, "system:authenticated"];
    let client = world.cluster.client_as(&user, &groups);
    world.run(client, Some("replica"));
    world
}

/// Every right of the operator's roles.
pub fn rights(operator: TestedOperator) -> Vec<Right> {
    let mut rights = Vec::new();
    for role in ["ClusterRole", "Role"] {
        let object = operator.manifest(role);
        for rule in list(&object["rules"]) {
            for resource in words(&rule["resources"]) {
                for verb in words(&rule["verbs"]) {
                    let group = words(&rule["apiGroups"]).remove(0);
                    rights.push(Right { role: role.into(), group, resource: resource.clone(), verb });
                }
            }
        }
    }
    rights
}

/// The role with one right taken away.
fn role_without(operator: TestedOperator, right: &Right) -> Value {
    let mut role = operator.manifest(&right.role);
    let mut kept = Vec::new();
    for rule in list(&role["rules"]) {
        for resource in words(&rule["resources"]) {
            let this = rule["apiGroups"] == json!([right.group]) && resource == right.resource;
            let verbs: Vec<String> =
                words(&rule["verbs"]).into_iter().filter(|verb| !this || *verb != right.verb).collect();
            if !verbs.is_empty() {
                kept.push(json!({"apiGroups": rule["apiGroups"], "resources": [resource], "verbs": verbs}));
            }
        }
    }
    role["rules"] = kept.into();
    role
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().unwrap().clone()
}

fn words(value: &Value) -> Vec<String> {
    list(value).iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}
