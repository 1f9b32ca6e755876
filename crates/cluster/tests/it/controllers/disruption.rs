//! Evictions pass as far as budgets allow, and again once evicted pods are replaced.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{World, deployment};

fn budget(spec: Value) -> Value {
    let mut budget = json!({ "metadata": { "name": "b" }, "spec": spec });
    budget["spec"]["selector"] = json!({ "matchLabels": { "app": "web" } });
    budget
}

async fn status(world: &World) -> Value {
    json!(world.api::<PodDisruptionBudget>().get("b").await.unwrap().status)
}

/// Waits for healthy, desired, expected and allowed.
async fn counted(world: &World, wanted: [i64; 4]) {
    let names = ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"];
    let is_wanted = |status: &Value| names.map(|name| status[name].as_i64().unwrap_or(-1)) == wanted;
    world.until(&format!("{wanted:?}"), async || is_wanted(&status(world).await).then_some(())).await;
}

/// The reason of the budget's only condition.
async fn reason(world: &World) -> Option<String> {
    let status = status(world).await;
    Some(status["conditions"][0]["reason"].as_str()?.to_owned())
}

/// Evicts a ready pod; the code of the refusal, if it is refused.
async fn evict_one(world: &World) -> Result<(), u16> {
    let is_ready = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
        pod.metadata.deletion_timestamp.is_none() && ready.any(|condition| condition.status == "True")
    };
    let pod = world.pods().await.into_iter().find(is_ready).unwrap();
    let name = pod.metadata.name.unwrap();
    match world.api::<Pod>().evict(&name, &EvictParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{error}"),
    }
}

async fn cordon(world: &World, unschedulable: bool) {
    let nodes: Api<Node> = Api::all(world.client.clone());
    for name in ["node-0", "node-1"] {
        let patch = Patch::Merge(json!({ "spec": { "unschedulable": unschedulable } }));
        nodes.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_lets_one_pod_go_at_a_time() {
    let world = World::start().await;
    world.create::<Deployment>(deployment("web", 3, "web:1")).await;
    world.rolled_out("web").await;
    world.create::<PodDisruptionBudget>(budget(json!({ "minAvailable": 2 }))).await;
    counted(&world, [3, 2, 3, 1]).await;
    assert_eq!(reason(&world).await.as_deref(), Some("SufficientPods"));
    // Replacements find no node: they are not ready before the test says so.
    cordon(&world, true).await;
    assert_eq!(evict_one(&world).await, Ok(()));
    assert_eq!(evict_one(&world).await, Err(429));
    counted(&world, [2, 2, 3, 0]).await;
    world.cluster.advance(std::time::Duration::from_secs(300)).await;
    assert_eq!(reason(&world).await.as_deref(), Some("InsufficientPods"));
    assert_eq!(status(&world).await.get("disruptedPods"), None);
    assert_eq!(evict_one(&world).await, Err(429));
    cordon(&world, false).await;
    counted(&world, [3, 2, 3, 1]).await;
    assert_eq!(evict_one(&world).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_part_is_one_of_what_the_controllers_ask_for() {
    let world = World::start().await;
    world.create::<PodDisruptionBudget>(budget(json!({ "maxUnavailable": "50%" }))).await;
    counted(&world, [0, 0, 0, 0]).await;
    world.create::<Deployment>(deployment("web", 4, "web:1")).await;
    counted(&world, [4, 2, 4, 2]).await;
    world.patch::<Deployment>("web", json!({ "spec": { "replicas": 6 } })).await;
    counted(&world, [6, 3, 6, 3]).await;
    // Pods of a controller without a scale: their expected number is unknown.
    let template = deployment("web", 1, "web:1")["spec"]["template"].clone();
    let set = json!({ "metadata": { "name": "d" }, "spec": { "selector": { "matchLabels": { "app": "web" } },
        "template": template } });
    world.create::<DaemonSet>(set).await;
    world
        .until("it fails", async || (reason(&world).await.as_deref() == Some("SyncFailed")).then_some(()))
        .await;
    let failed = status(&world).await;
    assert_eq!(failed["disruptionsAllowed"], 0);
    let why = "daemonsets.apps does not implement the scale subresource";
    assert_eq!(failed["conditions"][0]["message"], why);
    assert_eq!(evict_one(&world).await, Err(429));
    world.delete::<DaemonSet>("d", &DeleteParams::default()).await;
    counted(&world, [6, 3, 6, 3]).await;
}

#[tokio::test(start_paused = true)]
async fn any_kind_with_a_scale_is_asked_for_it() {
    let world = World::start().await;
    world.create::<PodDisruptionBudget>(budget(json!({ "minAvailable": "50%" }))).await;
    let template = deployment("web", 1, "web:1")["spec"]["template"].clone();
    let set = json!({ "metadata": { "name": "web" }, "spec": { "replicas": 5, "serviceName": "web",
        "selector": { "matchLabels": { "app": "web" } }, "template": template } });
    world.create::<StatefulSet>(set).await;
    counted(&world, [5, 3, 5, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_nothing_followed_is_told_and_taken_back() {
    let world = World::start().await;
    let pod = json!({ "metadata": { "name": "stays", "labels": { "app": "web" } },
        "spec": { "nodeName": "node-0", "containers": [{ "name": "c", "image": "web:1" }] } });
    world.create::<Pod>(pod).await;
    world.create::<PodDisruptionBudget>(budget(json!({ "minAvailable": 0 }))).await;
    counted(&world, [1, 0, 1, 1]).await;
    let now = world.cluster.clock().now();
    let said = json!([{ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "lastTransitionTime": now.to_string() }]);
    let strategic = |status: Value| Patch::Strategic(json!({ "status": status }));
    let parameters = PatchParams::default();
    let pods = world.api::<Pod>();
    pods.patch_status("stays", &parameters, &strategic(json!({ "conditions": said }))).await.unwrap();
    let evicted = json!({ "disruptedPods": { "stays": now.to_string() } });
    world
        .api::<PodDisruptionBudget>()
        .patch_status("b", &parameters, &Patch::Merge(json!({ "status": evicted })))
        .await
        .unwrap();
    counted(&world, [0, 0, 1, 0]).await;
    let condition = async || {
        let pod = json!(pods.get("stays").await.unwrap());
        let conditions = pod["status"]["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap()
    };
    world.cluster.advance(std::time::Duration::from_secs(115)).await;
    assert_eq!(condition().await["status"], "True");
    world.cluster.advance(std::time::Duration::from_secs(10)).await;
    let after = condition().await;
    assert_eq!((&after["status"], after.get("reason")), (&json!("False"), None));
    counted(&world, [1, 0, 1, 1]).await;
    let mut second = budget(json!({ "minAvailable": 0 }));
    second["metadata"]["name"] = json!("a");
    world.create::<PodDisruptionBudget>(second).await;
    world.patch::<Pod>("stays", json!({ "metadata": { "annotations": { "seen": "again" } } })).await;
    let told = async || {
        let events = world.api::<Event>().list(&Default::default()).await.unwrap().items;
        let of_us =
            |event: &Event| event.source.as_ref()?.component.clone().filter(|it| it == "controllermanager");
        let about = events.iter().filter(|event| event.involved_object.kind.as_deref() == Some("Pod"));
        let mut messages: Vec<String> =
            about.filter(|event| of_us(event).is_some()).filter_map(|event| event.message.clone()).collect();
        messages.sort();
        (messages.len() == 2).then_some(messages)
    };
    assert_eq!(
        world.until("both are told", told).await,
        [
            "Pod \"default\"/\"stays\" matches multiple PodDisruptionBudgets.  Chose \"a\" arbitrarily.",
            "Pod was expected by PDB default/b to be deleted but it wasn't",
        ]
    );
}
