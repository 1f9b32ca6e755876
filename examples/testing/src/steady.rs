//! An operator that has nothing to do asks for nothing.

use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use kube::api::{DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::pinned_kind;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use setpoint::{Action, Context, Controller, Error, Key, Manager, ManagerOptions};
use setpoint_cluster::{Cluster, Controllers, NodeOptions, Options};
use tokio::task::JoinSet;

use crate::requests::{Fault, Sent};
use crate::world::{DEADLINE, TestedOperator, World, until};

/// How long it is watched.
const QUIET: Duration = Duration::from_secs(60);
/// Long enough for the writes that a pass leads to.
const SETTLED: Duration = Duration::from_secs(5);

/// Makes `count` objects, waits until all are `synced`, and then sees a minute in which the operator sends nothing but
/// watches and renewals of its lease.
///
/// Deployments become available at once and without pods: `cargo xtask e2e steady` has the pods too.
pub async fn no_request_while_nothing_changes(
    operator: TestedOperator,
    count: usize,
    object: impl Fn(usize) -> Value,
    synced: impl AsyncFn(&World) -> usize,
) {
    let nodes = NodeOptions { count: 0, ..NodeOptions::default() };
    let options = Options { controllers: Controllers::None, nodes, seed: Some(1), ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    let mut world = World::on(cluster, operator, Fault::None);
    world.apply(&(operator.manifests)("image")[0]).await;
    let home = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": operator.namespace()}});
    world.apply(&home).await;
    let mut stand_in = JoinSet::new();
    let manager = Manager::new(world.cluster.client(), ManagerOptions::default());
    Controller::for_kind::<Deployment>(&manager).register(available_at_once).unwrap();
    stand_in.spawn(async move { manager.run(std::future::pending()).await.unwrap() });
    world.run(world.cluster.client(), Some("replica"));
    create(&world, count, object).await;
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while synced(&world).await < count {
        assert!(tokio::time::Instant::now() < deadline, "not all of them");
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    // The rest of the last reconciles, above all events, is sent.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = world.requests.sent().len();
    tokio::time::sleep(QUIET).await;
    let sent = world.requests.sent().split_off(before);
    let other: Vec<&Sent> = sent.iter().filter(|sent| !sent.is_watch() && !sent.is_lease()).collect();
    assert!(other.is_empty(), "{} of {count} objects: {:?}", other.len(), &other[..other.len().min(5)]);
    assert!(sent.iter().filter(|sent| sent.is_lease()).count() > 20, "the lease was not renewed: {sent:?}");
}

/// An operator that has converged with `writes` writes looks again at an object whose labels change, and writes nothing.
pub async fn a_pass_that_finds_nothing_writes_nothing<K>(world: &World, name: &str, writes: usize)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: DeserializeOwned + Clone + std::fmt::Debug,
{
    tokio::time::sleep(SETTLED).await;
    let written = || world.requests.sent().iter().filter(|sent| sent.is_write()).count();
    let passes = world.metric("controller_runtime_reconcile_total");
    assert_eq!(written(), writes, "{:?}", world.requests.sent());
    world.change::<K>(name, json!({"metadata": {"labels": {"a": "b"}}})).await;
    until("a pass", async || (world.metric("controller_runtime_reconcile_total") > passes).then_some(()))
        .await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(written(), writes, "{:?}", world.requests.sent());
}

async fn create(world: &World, count: usize, object: impl Fn(usize) -> Value) {
    let client = world.cluster.client();
    let first: DynamicObject = serde_json::from_value(object(0)).unwrap();
    let kind = GroupVersionKind::try_from(first.types.as_ref().unwrap()).unwrap();
    let (resource, _) = pinned_kind(&client, &kind).await.unwrap();
    let api: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    for number in 0..count {
        let object = serde_json::from_value(object(number)).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }
}

/// Stands in for the Deployment controller and everything below it.
async fn available_at_once(ctx: Context, key: Key) -> Result<Action, Error> {
    let Some(deployment) = ctx.client().get::<Deployment>(&key).await? else { return Ok(Action::done()) };
    let replicas = deployment.spec.replicas.unwrap_or(1);
    let status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: Some(replicas),
        updated_replicas: Some(replicas),
        ready_replicas: Some(replicas),
        available_replicas: Some(replicas),
        ..DeploymentStatus::default()
    };
    ctx.client().apply_status(&*deployment, &status).await?;
    Ok(Action::done())
}
