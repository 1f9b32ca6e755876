//! The life of a StaticSite.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use setpoint::conditions::is_true;
use setpoint_cluster::{Cluster, Controllers};
use setpoint_prove::{Operator, prove};
use template_operator::static_site::{READY, StaticSite, StaticSiteSpec};
use template_operator::{NAME, manifests, register};

use super::start;

/// Waits until the ConfigMap has the message and the status says so.
async fn until_published(cluster: &Cluster, message: &str) {
    let objects: Api<StaticSite> = Api::default_namespaced(cluster.client());
    let config_maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let published = || async {
        let status = objects.get_opt("home").await.ok()??.status?;
        let data = config_maps.get_opt("home-static-site").await.ok()??.data?;
        (data["message"] == message && is_true(&status.conditions, READY)).then_some(())
    };
    cluster.eventually("the message", published).await.unwrap();
}

async fn create(cluster: &Cluster, message: &str) {
    let objects: Api<StaticSite> = Api::default_namespaced(cluster.client());
    let object = StaticSite::new("home", StaticSiteSpec { message: message.into() });
    objects.create(&PostParams::default(), &object).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_message_is_published_and_follows_the_spec() {
    let cluster = start().await;
    create(&cluster, "Hello").await;
    until_published(&cluster, "Hello").await;
    let objects: Api<StaticSite> = Api::default_namespaced(cluster.client());
    let change = Patch::Merge(json!({"spec": {"message": "Goodbye"}}));
    objects.patch("home", &PatchParams::default(), &change).await.unwrap();
    until_published(&cluster, "Goodbye").await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_config_map_comes_back() {
    let cluster = start().await;
    create(&cluster, "Hello").await;
    until_published(&cluster, "Hello").await;
    let config_maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    config_maps.delete("home-static-site", &DeleteParams::default()).await.unwrap();
    until_published(&cluster, "Hello").await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_deleted_one() {
    let cluster = start().await;
    create(&cluster, "Hello").await;
    until_published(&cluster, "Hello").await;
    let objects: Api<StaticSite> = Api::default_namespaced(cluster.client());
    objects.delete("home", &DeleteParams::default()).await.unwrap();
    let gone = || async { objects.get_opt("home").await.ok()?.is_none().then_some(()) };
    cluster.eventually("the end", gone).await.unwrap();
    let config_maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    assert!(config_maps.get_opt("home-static-site").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_empty_message_is_refused() {
    let cluster = start().await;
    let objects: Api<StaticSite> = Api::default_namespaced(cluster.client());
    let object = StaticSite::new("home", StaticSiteSpec { message: String::new() });
    let refused = objects.create(&PostParams::default(), &object).await.unwrap_err();
    assert!(refused.to_string().contains("spec.message"), "{refused}");
}

/// Crashes, lost answers, late watches and other people's changes, at each step of a life.
#[test]
fn it_converges_whatever_happens() {
    let object = json!({
        "apiVersion": "group.example/v1", "kind": "StaticSite", "metadata": {"name": "home"},
        "spec": {"message": "Hello"},
    });
    prove(Operator { name: NAME, register, manifests })
        // The operator needs no controller but the garbage collector, and no pod runs.
        .cluster(|options| {
            options.controllers = Controllers::Only(vec!["garbage".into()]);
            options.nodes.count = 0;
        })
        .apply(object)
        .patch("home", json!({"spec": {"message": "Goodbye"}}))
        .delete("home")
        .check();
}
