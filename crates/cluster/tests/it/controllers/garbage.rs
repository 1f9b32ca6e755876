//! The garbage collector: cascades of every kind.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams, PropagationPolicy};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::{World, deployment};

fn cascade(policy: PropagationPolicy) -> DeleteParams {
    DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() }
}

#[tokio::test(start_paused = true)]
async fn background_foreground_and_orphan() {
    let world = World::start().await;
    for policy in [PropagationPolicy::Background, PropagationPolicy::Foreground] {
        world.create::<Deployment>(deployment("web", 3, "web:1")).await;
        world.rolled_out("web").await;
        world.delete::<Deployment>("web", &cascade(policy.clone())).await;
        world
            .until("all of it is gone", async || {
                let left = world.sets().await.len() + world.pods().await.len();
                let owner = world.api::<Deployment>().get_opt("web").await.unwrap();
                if matches!(policy, PropagationPolicy::Foreground) && owner.is_none() {
                    assert_eq!(left, 0, "in the foreground the owner goes last");
                }
                (left == 0 && owner.is_none()).then_some(())
            })
            .await;
    }
    world.create::<Deployment>(deployment("web", 3, "web:1")).await;
    world.rolled_out("web").await;
    let set = world.sets().await[0].metadata.uid.clone();
    world.delete::<Deployment>("web", &cascade(PropagationPolicy::Orphan)).await;
    world
        .until("the owner is gone", async || {
            world.api::<Deployment>().get_opt("web").await.unwrap().is_none().then_some(())
        })
        .await;
    let [orphan] = &world.sets().await[..] else { panic!("the ReplicaSet stays") };
    assert_eq!((orphan.metadata.uid.clone(), orphan.metadata.owner_references.clone()), (set.clone(), None));
    // A Deployment that selects it takes it over, pods and all.
    world.create::<Deployment>(deployment("web", 3, "web:1")).await;
    world.rolled_out("web").await;
    assert_eq!(world.sets().await.into_iter().map(|set| set.metadata.uid).collect::<Vec<_>>(), [set]);
}

fn config(name: &str, owners: Value) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default", "ownerReferences": owners } })
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    let api_version = if kind == "Thing" { "example.com/v1" } else { "v1" };
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": true })
}

async fn names(world: &World) -> Vec<String> {
    let all = world.api::<ConfigMap>().list(&ListParams::default()).await.unwrap();
    let names = all.items.into_iter().filter_map(|config| config.metadata.name);
    names.filter(|name| name != "kube-root-ca.crt").collect()
}

#[tokio::test(start_paused = true)]
async fn absent_misplaced_and_remaining_owners() {
    let world = World::start().await;
    let real = world.create::<ConfigMap>(config("real", json!([]))).await;
    let uid = real.metadata.uid.unwrap();
    world.create::<ConfigMap>(config("lost", json!([owner("ConfigMap", "nobody", "no-such-uid")]))).await;
    world.create::<ConfigMap>(config("misnamed", json!([owner("ConfigMap", "other", &uid)]))).await;
    world.create::<ConfigMap>(config("recreated", json!([owner("ConfigMap", "real", "another-uid")]))).await;
    world.create::<ConfigMap>(config("kept", json!([owner("ConfigMap", "real", &uid)]))).await;
    let both = json!([owner("ConfigMap", "real", &uid), owner("ConfigMap", "nobody", "no-such-uid")]);
    world.create::<ConfigMap>(config("half", both)).await;
    world
        .until("what has no owner is gone", async || {
            (names(&world).await == ["half", "kept", "real"]).then_some(())
        })
        .await;
    let references = world
        .until("the lost reference is dropped", async || {
            let half: ConfigMap = world.api().get("half").await.unwrap();
            half.metadata.owner_references.filter(|references| references.len() == 1)
        })
        .await;
    assert_eq!(references[0].uid, uid);
}

#[tokio::test(start_paused = true)]
async fn a_circle_of_owners_goes_in_the_foreground() {
    let world = World::start().await;
    let a = world.create::<ConfigMap>(config("a", json!([]))).await;
    let b = world
        .create::<ConfigMap>(config("b", json!([owner("ConfigMap", "a", &a.metadata.uid.unwrap())])))
        .await;
    let circle =
        json!({ "metadata": { "ownerReferences": [owner("ConfigMap", "b", &b.metadata.uid.unwrap())] } });
    world.patch::<ConfigMap>("a", circle).await;
    world.delete::<ConfigMap>("a", &cascade(PropagationPolicy::Foreground)).await;
    world.until("both are gone", async || names(&world).await.is_empty().then_some(())).await;
}

fn things(world: &World) -> Api<DynamicObject> {
    Api::namespaced_with(world.client.clone(), "default", &thing())
}

fn thing() -> ApiResource {
    ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Thing".into(),
        plural: "things".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn custom_kinds_own_and_are_owned_as_they_come_and_go() {
    let world = World::start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let definition = serde_json::from_value(json!({
        "metadata": { "name": "things.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema":
                { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] },
    }));
    definitions.create(&PostParams::default(), &definition.unwrap()).await.unwrap();
    let parent = world
        .until("the kind is served", async || {
            let parent = DynamicObject::new("parent", &thing()).within("default");
            things(&world).create(&PostParams::default(), &parent).await.ok()
        })
        .await;
    let uid = parent.metadata.uid.unwrap();
    let mut child = DynamicObject::new("child", &thing()).within("default");
    child.metadata.owner_references =
        Some(vec![serde_json::from_value(owner("Thing", "parent", &uid)).unwrap()]);
    things(&world).create(&PostParams::default(), &child).await.unwrap();
    world.create::<ConfigMap>(config("config", json!([owner("Thing", "parent", &uid)]))).await;
    // Released first, which custom kinds need another patch for.
    things(&world).delete("parent", &cascade(PropagationPolicy::Orphan)).await.unwrap();
    world
        .until("the parent is gone", async || {
            things(&world).get_opt("parent").await.unwrap().is_none().then_some(())
        })
        .await;
    let child = things(&world).get("child").await.unwrap();
    assert_eq!(child.metadata.owner_references, None);
    assert_eq!(names(&world).await, ["config"]);
    // Then collected.
    let uid = child.metadata.uid.unwrap();
    world.create::<ConfigMap>(config("leaf", json!([owner("Thing", "child", &uid)]))).await;
    things(&world).delete("child", &cascade(PropagationPolicy::Foreground)).await.unwrap();
    world
        .until("child and leaf are gone", async || {
            let child = things(&world).get_opt("child").await.unwrap();
            (child.is_none() && names(&world).await == ["config"]).then_some(())
        })
        .await;
}
