//! Nodes that meet trouble while they register.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::json;
use setpoint::clock::tokio_clock;
use setpoint::{Manager, ManagerOptions};
use setpoint_cluster::{Cluster, Controllers, Options};
use setpoint_node::NodeOptions;
use tokio::task::JoinSet;
use tokio::time::Instant;

const NODE: &str = "/api/v1/nodes/setpoint-0";
/// Well before the second heartbeat.
const SOON: Duration = Duration::from_secs(2);

/// A cluster with neither controllers nor nodes.
async fn bare() -> Cluster {
    let nodes = NodeOptions { count: 0, ..NodeOptions::default() };
    let options = Options { controllers: Controllers::None, nodes, seed: Some(1), ..Options::default() };
    Cluster::start(options).await.unwrap()
}

/// Runs one node with this client and gives how often it said that it starts, once it is ready, without a taint and alive.
async fn register(cluster: &Cluster, client: Client) -> usize {
    let options = ManagerOptions::with(|options| {
        options.clock = tokio_clock(cluster.clock().now());
        options.random = cluster.random().clone();
    });
    let manager = Manager::new(client, options);
    setpoint_node::register(&manager, NodeOptions { count: 1, ..NodeOptions::default() }).unwrap();
    let mut running = JoinSet::new();
    let begun = Instant::now();
    running.spawn(async move { manager.run(std::future::pending()).await.unwrap() });
    let nodes: Api<Node> = Api::all(cluster.client());
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "kube-node-lease");
    let events: Api<Event> = Api::namespaced(cluster.client(), "default");
    let starting = ListParams::default().fields("reason=Starting");
    let said = cluster
        .eventually("the node is ready, alive and says so", async || {
            let node = json!(nodes.get_opt("setpoint-0").await.unwrap()?);
            let conditions = node["status"]["conditions"].as_array()?;
            let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
            let lease = leases.get_opt("setpoint-0").await.unwrap()?;
            lease.spec?.renew_time?;
            let said = events.list(&starting).await.unwrap().items.len();
            (ready && node["spec"]["taints"].is_null() && said > 0).then_some(said)
        })
        .await
        .unwrap();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    said
}

#[tokio::test(start_paused = true)]
async fn a_node_that_others_change_while_it_registers_is_ready_at_once() {
    let cluster = bare().await;
    let (through, others) = (cluster.client(), cluster.client());
    let met = Arc::new(AtomicU32::new(0));
    let meeting = met.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (through, others, met) = (through.clone(), others.clone(), meeting.clone());
        async move {
            let changes = request.method() == Method::PATCH && request.uri().path() == NODE;
            if changes && met.fetch_add(1, Ordering::SeqCst) < 2 {
                let nodes: Api<Node> = Api::all(others);
                let label =
                    json!({ "metadata": { "labels": { "met": met.load(Ordering::SeqCst).to_string() } } });
                nodes.patch("setpoint-0", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
            }
            through.send(request).await
        }
    });
    assert_eq!(register(&cluster, Client::new(service, "default")).await, 1);
    assert_eq!(met.load(Ordering::SeqCst), 3, "two that met another's change, and one that did not");
    let node = Api::<Node>::all(cluster.client()).get("setpoint-0").await.unwrap();
    assert_eq!(node.metadata.labels.unwrap()["met"], "2");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_refused_registers_again_before_the_next_heartbeat() {
    let cluster = bare().await;
    let through = cluster.client();
    let tries = Arc::new(AtomicU32::new(0));
    let trying = tries.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (through, tries) = (through.clone(), trying.clone());
        async move {
            let path = request.uri().path();
            let registers = path == "/api/v1/nodes" || path.ends_with("/leases");
            if request.method() == Method::POST && registers && tries.fetch_add(1, Ordering::SeqCst) % 2 == 0
            {
                let mut refused = Response::new(Body::empty());
                *refused.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                return Ok(refused);
            }
            through.send(request).await
        }
    });
    assert_eq!(register(&cluster, Client::new(service, "default")).await, 1);
    assert_eq!(tries.load(Ordering::SeqCst), 4, "the Node twice, then its lease twice");
}

/// Its lease belongs to the Node that there is: one of a Node that is gone is collected.
#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_made_anew_has_a_lease_of_its_own() {
    let cluster = Cluster::start(Options { seed: Some(1), ..Options::default() }).await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.client());
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "kube-node-lease");
    let owner = async || {
        let lease = leases.get_opt("setpoint-0").await.unwrap()?;
        lease.metadata.owner_references?.first().map(|owner| owner.uid.clone())
    };
    let before = cluster.eventually("the node has a lease", owner).await.unwrap();
    nodes.delete("setpoint-0", &DeleteParams::default()).await.unwrap();
    cluster
        .eventually("the lease is gone", async || {
            leases.get_opt("setpoint-0").await.unwrap().is_none().then_some(())
        })
        .await
        .unwrap();
    cluster.advance(Duration::from_secs(30)).await;
    assert!(leases.get_opt("setpoint-0").await.unwrap().is_none(), "no lease of what is gone");
    let node = serde_json::from_value(json!({ "metadata": { "name": "setpoint-0" } })).unwrap();
    let made = nodes.create(&PostParams::default(), &node).await.unwrap().metadata.uid.unwrap();
    assert_ne!(made, before);
    cluster
        .eventually("the lease is the new node's", async || owner().await.filter(|uid| *uid == made))
        .await
        .unwrap();
    for _ in 0..5 {
        cluster.advance(Duration::from_secs(10)).await;
        assert_eq!(owner().await.as_ref(), Some(&made));
    }
}
