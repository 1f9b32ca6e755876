//! Namespaces: what each gets, and how each goes.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{World, deployment};

async fn create(world: &World, name: &str) -> Api<Namespace> {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    namespaces
}

#[tokio::test(start_paused = true)]
async fn every_namespace_gets_a_service_account_and_the_bundle_and_keeps_them() {
    let world = World::start().await;
    create(&world, "fresh").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), "fresh");
    let configs: Api<ConfigMap> = Api::namespaced(world.client.clone(), "fresh");
    let bundle =
        || async { configs.get_opt("kube-root-ca.crt").await.unwrap()?.data?.get("ca.crt").cloned() };
    world
        .until("both are there", async || {
            let account = accounts.get_opt("default").await.unwrap();
            account.zip(bundle().await).map(|(_, bundle)| assert_eq!(bundle, "the bundle"))
        })
        .await;
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    let tampered = json!({ "data": { "ca.crt": "another", "more": "x" } });
    configs.patch("kube-root-ca.crt", &PatchParams::default(), &Patch::Merge(tampered)).await.unwrap();
    world
        .until("both are back", async || {
            let account = accounts.get_opt("default").await.unwrap();
            account.filter(|_| true).zip(bundle().await).filter(|(_, bundle)| bundle == "the bundle")
        })
        .await;
    let data = configs.get("kube-root-ca.crt").await.unwrap().data.unwrap();
    assert_eq!(data.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_all_it_has() {
    let world = World::start().await;
    let namespaces = create(&world, "gone").await;
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), "gone");
    let mut manifest = deployment("web", 3, "web:1");
    manifest["metadata"]["namespace"] = json!("gone");
    deployments.create(&PostParams::default(), &serde_json::from_value(manifest).unwrap()).await.unwrap();
    world
        .until("it runs", async || super::is_rolled_out(&deployments.get("web").await.unwrap()).then_some(()))
        .await;
    namespaces.delete("gone", &DeleteParams::default()).await.unwrap();
    world
        .until("it is gone", async || namespaces.get_opt("gone").await.unwrap().is_none().then_some(()))
        .await;
    create(&world, "gone").await;
    assert_eq!(deployments.get_opt("web").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_a_namespace_and_the_conditions_say_so() {
    let world = World::start().await;
    let namespaces = create(&world, "held").await;
    let configs: Api<ConfigMap> = Api::namespaced(world.client.clone(), "held");
    let held = json!({ "metadata": { "name": "held", "finalizers": ["example.com/hold"] } });
    configs.create(&PostParams::default(), &serde_json::from_value(held).unwrap()).await.unwrap();
    namespaces.delete("held", &DeleteParams::default()).await.unwrap();
    let conditions = world
        .until("it says what remains", async || {
            let conditions = namespaces.get("held").await.unwrap().status?.conditions?;
            (conditions.len() == 5 && conditions[4].status == "True").then_some(conditions)
        })
        .await;
    let said: Vec<_> =
        conditions.iter().map(|c| (c.status.as_str(), c.message.as_deref().unwrap())).collect();
    assert_eq!(
        said[3..],
        [
            ("True", "Some resources are remaining: configmaps. has 1 resource instances"),
            (
                "True",
                "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
            ),
        ]
    );
    let released = json!({ "metadata": { "finalizers": null } });
    configs.patch("held", &PatchParams::default(), &Patch::Merge(released)).await.unwrap();
    world
        .until("it is gone", async || namespaces.get_opt("held").await.unwrap().is_none().then_some(()))
        .await;
}
