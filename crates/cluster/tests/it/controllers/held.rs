//! Controllers that do not hear of the pods that they make: the watch of pods is held while everything else goes on.

use std::time::Duration;

use futures::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use kube::client::Body;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{World, deployment};

/// The same client; while `held` is true nothing comes out of its watches of pods.
pub fn holding(client: Client, held: watch::Receiver<bool>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, held) = (client.clone(), held.clone());
        let query = request.uri().query().unwrap_or_default();
        let holds = request.uri().path().ends_with("/pods") && query.contains("watch=true");
        async move {
            let answer = client.send(request).await?;
            let frames = answer.into_parts();
            let chunks = frames.1.into_data_stream().then(move |chunk| {
                let mut held = held.clone();
                async move {
                    if holds {
                        // An error: the test has ended.
                        let _ = held.wait_for(|held| !held).await;
                    }
                    chunk.map(Frame::data)
                }
            });
            Ok::<_, kube::Error>(http::Response::from_parts(
                frames.0,
                StreamBody::new(Box::pin(chunks)).boxed_unsync(),
            ))
        }
    });
    Client::new(service, namespace)
}

/// Creates a workload, touches it now and then while its controller hears nothing of pods, and gives the most pods that
/// there ever were, and those in the end.
async fn most_pods<K>(workload: Value, name: &str) -> (usize, usize)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: DeserializeOwned + Serialize + Clone + std::fmt::Debug,
{
    let world = World::start().await;
    world.hold_pods(true);
    world.create::<K>(workload).await;
    let mut most = 0;
    for (second, held) in [(7, true), (12, true), (40, true), (5, true), (5, false), (60, false)] {
        world.hold_pods(held);
        world.cluster.advance(Duration::from_secs(second)).await;
        most = most.max(world.pods().await.len());
        world.patch::<K>(name, json!({ "metadata": { "labels": { "touched": second.to_string() } } })).await;
    }
    world.cluster.advance(Duration::from_secs(600)).await;
    let left = world.pods().await.len();
    (most.max(left), left)
}

/// Controllers that went on from a lagging cache after five seconds made up to 6 pods for 3.
#[tokio::test(start_paused = true)]
async fn a_replica_set_makes_no_pod_twice() {
    let mut set = deployment("web", 3, "web:1");
    set["kind"] = json!("ReplicaSet");
    assert_eq!(most_pods::<ReplicaSet>(set, "web").await, (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_makes_no_pod_twice() {
    assert_eq!(most_pods::<Deployment>(deployment("web", 3, "web:1"), "web").await, (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_puts_one_pod_on_each_of_two_nodes() {
    let mut set = deployment("agent", 0, "agent:1");
    set["spec"].as_object_mut().unwrap().remove("replicas");
    assert_eq!(most_pods::<DaemonSet>(set, "agent").await, (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_no_pod_beside_its_own() {
    let job = json!({ "metadata": { "name": "j" }, "spec": { "parallelism": 1, "template": {
        "metadata": { "annotations": { "setpoint.dev/run-for": "forever" } },
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } });
    assert_eq!(most_pods::<Job>(job, "j").await, (1, 1));
}
