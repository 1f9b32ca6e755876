//! The operator on a cluster in this process.
#![allow(clippy::unwrap_used)]

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use myresource_operator::{MyResource, MyResourceSpec, State};
use serde_json::json;
use setpoint::{Manager, ManagerOptions};
use setpoint_cluster::{Cluster, Options};
use tokio::task::JoinSet;

struct World {
    cluster: Cluster,
    operator: JoinSet<()>,
}

impl World {
    async fn new() -> World {
        let cluster = Cluster::start(Options::default()).await.unwrap();
        cluster.install::<MyResource>().await.unwrap();
        let mut world = World { cluster, operator: JoinSet::new() };
        world.start_operator();
        world
    }

    fn start_operator(&mut self) {
        let manager = Manager::new(self.cluster.client(), ManagerOptions::default());
        myresource_operator::register(&manager).unwrap();
        self.operator.spawn(async move { manager.run(std::future::pending()).await.unwrap() });
    }

    fn resources(&self) -> Api<MyResource> {
        Api::default_namespaced(self.cluster.client())
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::default_namespaced(self.cluster.client())
    }

    async fn create(&self, name: &str) {
        let spec =
            MyResourceSpec { image: "nginx".into(), memory: serde_json::from_value(json!("512Mi")).unwrap() };
        self.resources().create(&PostParams::default(), &MyResource::new(name, spec)).await.unwrap();
    }

    async fn until_state(&self, name: &str, state: State) {
        let resources = self.resources();
        let found = || async {
            let status = resources.get_opt(name).await.unwrap()?.status?;
            (status.state == state).then_some(())
        };
        self.cluster.eventually(&format!("{name} {state:?}"), found).await.unwrap();
    }
}

#[tokio::test]
async fn a_resource_becomes_a_deployment_and_ready() {
    let world = World::new().await;
    world.create("one").await;
    world.until_state("one", State::Ready).await;
    let deployment = world.deployments().get("one-deployment").await.unwrap();
    let spec = serde_json::to_value(&deployment.spec).unwrap();
    let container = &spec["template"]["spec"]["containers"][0];
    assert_eq!((container["name"].as_str(), container["image"].as_str()), (Some("main"), Some("nginx")));
    assert_eq!(container["resources"]["requests"]["memory"], "512Mi");
    assert_eq!(deployment.labels()["myresource"], "one");
    assert_eq!(deployment.owner_references()[0].kind, "MyResource");
}

#[tokio::test]
async fn a_changed_or_deleted_child_comes_back() {
    let world = World::new().await;
    world.create("one").await;
    world.until_state("one", State::Ready).await;
    let drift = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "evil"}]}}}});
    let parameters = PatchParams { field_manager: Some("somebody".into()), ..PatchParams::default() };
    world.deployments().patch("one-deployment", &parameters, &Patch::Strategic(drift)).await.unwrap();
    let deployments = world.deployments();
    let image = || async {
        let spec = serde_json::to_value(&deployments.get_opt("one-deployment").await.unwrap()?.spec).unwrap();
        (spec["template"]["spec"]["containers"][0]["image"] == "nginx").then_some(())
    };
    world.cluster.eventually("the image again", image).await.unwrap();
    let before = deployments.get("one-deployment").await.unwrap().uid();
    deployments.delete("one-deployment", &DeleteParams::default()).await.unwrap();
    let again =
        || async { deployments.get_opt("one-deployment").await.unwrap().filter(|d| d.uid() != before) };
    world.cluster.eventually("a new Deployment", again).await.unwrap();
    world.until_state("one", State::Ready).await;
}

#[tokio::test]
async fn a_change_of_the_spec_reaches_the_deployment() {
    let world = World::new().await;
    world.create("one").await;
    world.until_state("one", State::Ready).await;
    let change = Patch::Merge(json!({"spec": {"image": "nginx:2"}}));
    world.resources().patch("one", &PatchParams::default(), &change).await.unwrap();
    let deployments = world.deployments();
    let rolled = || async {
        let spec = serde_json::to_value(&deployments.get("one-deployment").await.unwrap().spec).unwrap();
        (spec["template"]["spec"]["containers"][0]["image"] == "nginx:2").then_some(())
    };
    world.cluster.eventually("the new image", rolled).await.unwrap();
}

#[tokio::test]
async fn what_it_owned_goes_with_it() {
    let world = World::new().await;
    world.create("one").await;
    world.until_state("one", State::Ready).await;
    world.resources().delete("one", &DeleteParams::default()).await.unwrap();
    let deployments = world.deployments();
    let gone = || async { deployments.get_opt("one-deployment").await.unwrap().is_none().then_some(()) };
    world.cluster.eventually("the Deployment gone", gone).await.unwrap();
}

#[tokio::test]
async fn wrong_input_is_refused_with_its_field() {
    let world = World::new().await;
    let wrong = json!({
        "apiVersion": "mygroup.example.com/v1alpha1", "kind": "MyResource",
        "metadata": {"name": "bad"}, "spec": {"image": "nginx", "memory": "lots"},
    });
    let parameters = PatchParams::apply("test");
    let error = world.resources().patch("bad", &parameters, &Patch::Apply(&wrong)).await.unwrap_err();
    assert!(error.to_string().contains("spec.memory"), "{error}");
}

#[tokio::test]
async fn a_restart_in_the_middle_goes_on_where_it_was() {
    let mut world = World::new().await;
    world.create("one").await;
    world.operator.abort_all();
    while world.operator.join_next().await.is_some() {}
    world.create("two").await;
    world.start_operator();
    world.until_state("one", State::Ready).await;
    world.until_state("two", State::Ready).await;
}
