//! Endpoints and EndpointSlices of living Services.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::{World, deployment};

#[tokio::test(start_paused = true)]
async fn a_service_lists_its_ready_pods_and_follows_them() {
    let world = World::start().await;
    let service = json!({ "metadata": { "name": "web", "namespace": "default" }, "spec": {
        "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": "http" }] } });
    world.create::<Service>(service).await;
    let addresses = async |count: usize| {
        world
            .until(&format!("{count} addresses"), async || {
                let query = ListParams::default().labels("kubernetes.io/service-name=web");
                let slices = world.api::<EndpointSlice>().list(&query).await.unwrap().items;
                let ready: usize = slices
                    .iter()
                    .flat_map(|slice| slice.endpoints.iter().flatten())
                    .filter(|endpoint| endpoint.conditions.as_ref().is_some_and(|c| c.ready == Some(true)))
                    .count();
                let endpoints: Endpoints = world.api().get_opt("web").await.unwrap()?;
                let subsets = endpoints.subsets.unwrap_or_default();
                let older: usize =
                    subsets.iter().map(|subset| subset.addresses.as_ref().map_or(0, Vec::len)).sum();
                (!slices.is_empty() && ready == count && older == count).then_some((slices, subsets))
            })
            .await
    };
    addresses(0).await;
    world.create::<Deployment>(deployment("web", 3, "web:1")).await;
    let (slices, subsets) = addresses(3).await;
    assert_eq!(slices[0].ports.as_ref().unwrap()[0].port, Some(8080));
    assert_eq!(subsets[0].ports.as_ref().unwrap()[0].port, 8080);
    world.patch::<Deployment>("web", json!({ "spec": { "replicas": 1 } })).await;
    addresses(1).await;
    world.delete::<Service>("web", &DeleteParams::default()).await;
    world
        .until("both go with it", async || {
            let query = ListParams::default().labels("kubernetes.io/service-name=web");
            let slices = world.api::<EndpointSlice>().list(&query).await.unwrap().items;
            let endpoints = world.api::<Endpoints>().get_opt("web").await.unwrap();
            (slices.is_empty() && endpoints.is_none()).then_some(())
        })
        .await;
}

/// Users write the Endpoints of a Service without a selector. Readers of slices see them too.
#[tokio::test(start_paused = true)]
async fn endpoints_that_a_user_writes_are_mirrored() {
    let world = World::start().await;
    let shown = async |wanted: &[&str]| {
        world
            .until(&format!("slices show {wanted:?}"), async || {
                let query = ListParams::default().labels("kubernetes.io/service-name=db");
                let slices = world.api::<EndpointSlice>().list(&query).await.unwrap().items;
                let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
                let mut all: Vec<&str> =
                    endpoints.flat_map(|endpoint| &endpoint.addresses).map(String::as_str).collect();
                all.sort_unstable();
                (all == wanted).then_some(())
            })
            .await
    };
    let written = |ip: &str| {
        json!({ "metadata": { "name": "db", "namespace": "default" },
            "subsets": [{ "addresses": [{ "ip": ip }], "ports": [{ "port": 5432 }] }] })
    };
    world.create::<Endpoints>(written("192.0.2.1")).await;
    world.cluster.advance(std::time::Duration::from_secs(60)).await;
    shown(&[]).await;
    world
        .create::<Service>(json!({ "metadata": { "name": "db" }, "spec": { "ports": [{ "port": 5432 }] } }))
        .await;
    shown(&["192.0.2.1"]).await;
    world.patch::<Endpoints>("db", json!({ "subsets": written("192.0.2.2")["subsets"] })).await;
    shown(&["192.0.2.2"]).await;
    world.delete::<Endpoints>("db", &DeleteParams::default()).await;
    shown(&[]).await;
}
