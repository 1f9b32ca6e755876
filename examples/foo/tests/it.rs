//! The controller on a cluster in this process.
#![allow(clippy::unwrap_used)]

use foo_controller::{Foo, FooSpec};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use setpoint::{LeaderElection, Manager, ManagerOptions};
use setpoint_cluster::{Cluster, Options};
use tokio::task::JoinSet;

struct World {
    cluster: Cluster,
    controllers: JoinSet<()>,
}

impl World {
    async fn new() -> World {
        let cluster = Cluster::start(Options::default()).await.unwrap();
        cluster.install::<Foo>().await.unwrap();
        World { cluster, controllers: JoinSet::new() }
    }

    fn start(&mut self, options: ManagerOptions) {
        let manager = Manager::new(self.cluster.client(), options);
        foo_controller::register(&manager).unwrap();
        self.controllers.spawn(async move { manager.run(std::future::pending()).await.unwrap() });
    }

    async fn running() -> World {
        let mut world = World::new().await;
        world.start(ManagerOptions::default());
        world
    }

    fn foos(&self) -> Api<Foo> {
        Api::default_namespaced(self.cluster.client())
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::default_namespaced(self.cluster.client())
    }

    async fn create(&self, name: &str, deployment: Option<&str>, replicas: i32) {
        let spec = FooSpec { deployment_name: deployment.map(Into::into), replicas: Some(replicas) };
        self.foos().create(&PostParams::default(), &Foo::new(name, spec)).await.unwrap();
    }

    async fn until_available(&self, name: &str, replicas: i32) {
        let foos = self.foos();
        let available = || async {
            let status = foos.get_opt(name).await.unwrap()?.status?;
            (status.available_replicas == Some(replicas)).then_some(())
        };
        self.cluster.eventually(&format!("{name} with {replicas} available"), available).await.unwrap();
    }

    async fn until_event(&self, reason: &str) -> Event {
        let events: Api<Event> = Api::default_namespaced(self.cluster.client());
        let found = || async {
            let all = events.list(&ListParams::default()).await.unwrap();
            all.items.into_iter().find(|event| event.reason.as_deref() == Some(reason))
        };
        self.cluster.eventually(&format!("an event {reason}"), found).await.unwrap()
    }
}

#[tokio::test]
async fn a_foo_gets_its_deployment_status_and_event() {
    let world = World::running().await;
    world.create("one", Some("one-deployment"), 2).await;
    world.until_available("one", 2).await;
    let deployment = world.deployments().get("one-deployment").await.unwrap();
    assert_eq!(deployment.owner_references()[0].name, "one");
    let event = world.until_event("Synced").await;
    assert_eq!(event.note.as_deref(), Some("Foo synced successfully"));
}

#[tokio::test]
async fn drifted_replicas_and_a_deleted_deployment_are_corrected() {
    let world = World::running().await;
    world.create("one", Some("one"), 1).await;
    world.until_available("one", 1).await;
    let drift = Patch::Merge(json!({"spec": {"replicas": 4}}));
    world.deployments().patch("one", &PatchParams::default(), &drift).await.unwrap();
    let deployments = world.deployments();
    let back = || async {
        let deployment = serde_json::to_value(deployments.get("one").await.unwrap()).unwrap();
        (deployment["spec"]["replicas"] == 1).then_some(())
    };
    world.cluster.eventually("one replica again", back).await.unwrap();
    let uid = deployments.get("one").await.unwrap().uid();
    deployments.delete("one", &DeleteParams::default()).await.unwrap();
    let again = || async { deployments.get_opt("one").await.unwrap().filter(|found| found.uid() != uid) };
    world.cluster.eventually("a new Deployment", again).await.unwrap();
}

#[tokio::test]
async fn a_deployment_of_somebody_else_is_left_alone_and_said() {
    let world = World::running().await;
    let foreign = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "taken"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    });
    let parameters = PatchParams::apply("somebody");
    world.deployments().patch("taken", &parameters, &Patch::Apply(&foreign)).await.unwrap();
    world.create("one", Some("taken"), 1).await;
    let event = world.until_event("ErrResourceExists").await;
    assert_eq!(event.note.as_deref(), Some("Resource \"taken\" already exists and is not managed by Foo"));
    assert!(world.deployments().get("taken").await.unwrap().owner_references().is_empty());
}

#[tokio::test]
async fn an_empty_name_is_not_retried_and_others_go_on() {
    let world = World::running().await;
    world.create("empty", Some(""), 1).await;
    world.create("one", Some("one"), 1).await;
    world.until_available("one", 1).await;
    assert!(world.foos().get("empty").await.unwrap().status.is_none());
}

#[tokio::test]
async fn too_many_replicas_are_refused_by_the_schema() {
    let world = World::running().await;
    let spec = FooSpec { deployment_name: Some("x".into()), replicas: Some(11) };
    let error = world.foos().create(&PostParams::default(), &Foo::new("bad", spec)).await.unwrap_err();
    assert!(error.to_string().contains("spec.replicas"), "{error}");
}

#[tokio::test]
async fn of_two_replicas_one_acts() {
    let mut world = World::new().await;
    let election = LeaderElection::new("default", "foo");
    for identity in ["a", "b"] {
        let leader_election = Some(election.clone().identity(identity));
        world.start(ManagerOptions { leader_election, ..ManagerOptions::default() });
    }
    world.create("one", Some("one"), 1).await;
    world.until_available("one", 1).await;
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::default_namespaced(world.cluster.client());
    let holder = leases.get("foo").await.unwrap().spec.unwrap().holder_identity.unwrap();
    assert!(["a", "b"].contains(&holder.as_str()), "{holder}");
}
