//! The operator on a cluster in this process.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use markdownview_operator::{MarkdownView, MarkdownViewSpec, State};
use serde_json::{Value, json};
use setpoint::metrics::Metrics;
use setpoint::{Manager, ManagerOptions};
use setpoint_cluster::{Cluster, Options};
use tokio::task::JoinSet;

struct World {
    cluster: Cluster,
    metrics: Metrics,
    _operator: JoinSet<()>,
}

impl World {
    async fn new() -> World {
        let cluster = Cluster::start(Options::default()).await.unwrap();
        cluster.install::<MarkdownView>().await.unwrap();
        let manager = Manager::new(cluster.client(), ManagerOptions::default());
        markdownview_operator::register(&manager).unwrap();
        let metrics = manager.metrics().clone();
        let mut operator = JoinSet::new();
        operator.spawn(async move { manager.run(std::future::pending()).await.unwrap() });
        World { cluster, metrics, _operator: operator }
    }

    fn views(&self) -> Api<MarkdownView> {
        Api::default_namespaced(self.cluster.client())
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.cluster.client())
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::default_namespaced(self.cluster.client())
    }

    async fn create_sample(&self) {
        let files = [("SUMMARY.md", "# Summary"), ("page1.md", "# Page 1")];
        let markdowns: BTreeMap<String, String> = files.map(|(name, text)| (name.into(), text.into())).into();
        let spec = MarkdownViewSpec { markdowns, replicas: 1, viewer_image: "viewer:1".into() };
        let view = MarkdownView::new("sample", spec);
        self.views().create(&PostParams::default(), &view).await.unwrap();
    }

    async fn until_healthy(&self) {
        let views = self.views();
        let healthy = || async {
            let status = views.get_opt("sample").await.unwrap()?.status?;
            (status.state == Some(State::Healthy)).then_some(())
        };
        self.cluster.eventually("a healthy view", healthy).await.unwrap();
    }

    async fn change(&self, patch: Value) {
        self.views().patch("sample", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

#[tokio::test]
async fn a_view_gets_its_three_children_and_becomes_healthy() {
    let world = World::new().await;
    world.create_sample().await;
    world.until_healthy().await;
    let config = world.maps().get("markdowns-sample").await.unwrap();
    assert_eq!(config.data.unwrap().len(), 2);
    let deployment = serde_json::to_value(world.deployments().get("viewer-sample").await.unwrap()).unwrap();
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "viewer:1");
    let services: Api<Service> = Api::default_namespaced(world.cluster.client());
    let service = serde_json::to_value(services.get("viewer-sample").await.unwrap()).unwrap();
    assert_eq!(
        (&service["spec"]["ports"][0]["port"], &service["spec"]["ports"][0]["targetPort"]),
        (&json!(80), &json!(3000))
    );
    let status = world.views().get("sample").await.unwrap().status.unwrap();
    let conditions: Vec<_> =
        status.conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
    assert_eq!(conditions, [("Available", "True"), ("Degraded", "False")]);
}

#[tokio::test]
async fn a_file_that_leaves_the_view_leaves_the_config_map() {
    let world = World::new().await;
    world.create_sample().await;
    world.until_healthy().await;
    world.change(json!({"spec": {"markdowns": {"page1.md": null, "page2.md": "# Page 2"}}})).await;
    let maps = world.maps();
    let keys = || async {
        let data = maps.get("markdowns-sample").await.unwrap().data.unwrap();
        (data.keys().eq(["SUMMARY.md", "page2.md"])).then_some(())
    };
    world.cluster.eventually("the new files", keys).await.unwrap();
}

#[tokio::test]
async fn a_deleted_child_comes_back_and_deletion_takes_all_away() {
    let world = World::new().await;
    world.create_sample().await;
    world.until_healthy().await;
    assert!(world.metrics.encode().contains("markdownview_state"));
    let before = world.maps().get("markdowns-sample").await.unwrap().uid();
    world.maps().delete("markdowns-sample", &DeleteParams::default()).await.unwrap();
    let maps = world.maps();
    let again =
        || async { maps.get_opt("markdowns-sample").await.unwrap().filter(|config| config.uid() != before) };
    world.cluster.eventually("a new ConfigMap", again).await.unwrap();
    world.views().delete("sample", &DeleteParams::default()).await.unwrap();
    let deployments = world.deployments();
    let gone = || async {
        let left = maps.get_opt("markdowns-sample").await.unwrap().is_some()
            || deployments.get_opt("viewer-sample").await.unwrap().is_some();
        (!left && !world.metrics.encode().contains("name=\"sample\"")).then_some(())
    };
    world.cluster.eventually("everything gone, the metric too", gone).await.unwrap();
}

#[tokio::test]
async fn wrong_input_is_refused_with_its_field() {
    let world = World::new().await;
    for (spec, wanted) in [
        (json!({"markdowns": {"SUMMARY.md": "x"}, "replicas": 9}), "spec.replicas"),
        (json!({"markdowns": {"page1.md": "x"}}), "markdowns must have SUMMARY.md."),
        (json!({"replicas": 1}), "spec.markdowns"),
    ] {
        let view = json!({
            "apiVersion": "view.zoetrope.github.io/v1", "kind": "MarkdownView",
            "metadata": {"name": "bad"}, "spec": spec,
        });
        let refused = world.views().patch("bad", &PatchParams::apply("test"), &Patch::Apply(&view)).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
}
