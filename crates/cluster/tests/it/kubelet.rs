//! A node's treatment of its pods, and its events about them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{ListParams, LogParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use setpoint_cluster::{Cluster, Options};

struct Node {
    cluster: Cluster,
    pods: Api<Pod>,
}

impl Node {
    async fn start() -> Node {
        let cluster = Cluster::start(Options::default()).await.unwrap();
        let pods = Api::namespaced(cluster.client(), "default");
        Node { cluster, pods }
    }

    /// Creates a pod with one container, as soon as its namespace has an account.
    async fn create(&self, annotations: Value, spec: Value) {
        let mut pod = json!({ "metadata": { "name": "p", "annotations": annotations },
            "spec": { "containers": [{ "name": "c", "image": "web:1" }] } });
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let pod = serde_json::from_value(pod).unwrap();
        let create = async || self.pods.create(&PostParams::default(), &pod).await.ok();
        self.cluster.eventually("the pod is made", create).await.unwrap();
    }

    async fn container(&self) -> Value {
        let pod = json!(self.pods.get("p").await.unwrap());
        pod["status"]["containerStatuses"][0].clone()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let look = async || Some(self.container().await).filter(|container| holds(container));
        self.cluster.eventually(what, look).await.unwrap()
    }

    /// The log of the run before the present one, or code and message of the refusal.
    async fn previous_log(&self) -> Result<String, (u16, String)> {
        let previous = LogParams { previous: true, ..LogParams::default() };
        match self.pods.logs("p", &previous).await {
            Ok(log) => Ok(log),
            Err(kube::Error::Api(status)) => Err((status.code, status.message)),
            Err(error) => panic!("{error}"),
        }
    }

    async fn events(&self, reason: &str) -> Vec<Value> {
        let events: Api<Event> = Api::namespaced(self.cluster.client(), "default");
        let list = events.list(&ListParams::default().fields(&format!("reason={reason}"))).await.unwrap();
        list.items.iter().map(|event| json!(event)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_fails_again_and_again_is_one_event_with_a_count() {
    let node = Node::start().await;
    node.create(json!({ "setpoint.dev/run-for": "1s", "setpoint.dev/exit-code": "3" }), json!({})).await;
    node.until("it has restarted", |container| container["restartCount"] == 1).await;
    node.cluster.advance(Duration::from_secs(200)).await;
    let events = node.events("BackOff").await;
    assert_eq!(events.len(), 1, "{events:?}");
    let event = &events[0];
    assert_eq!(event["source"], json!({ "component": "kubelet", "host": "setpoint-0" }));
    assert_eq!((&event["type"], &event["reportingInstance"]), (&json!("Warning"), &json!("setpoint-0")));
    assert_eq!(event["involvedObject"]["fieldPath"], "spec.containers{c}");
    let message = event["message"].as_str().unwrap();
    assert!(message.starts_with("Back-off restarting failed container c in pod p_default("), "{message}");
    // Once when each pause of 10, 20, 40, 80 and 160 seconds begins, and every minute of it.
    assert!((5..=8).contains(&event["count"].as_i64().unwrap()), "{event}");
    let second = |field: &str| -> jiff::Timestamp { event[field].as_str().unwrap().parse().unwrap() };
    let spread = second("lastTimestamp").duration_since(second("firstTimestamp"));
    assert!(spread.as_secs() > 120, "{event}");
}

#[tokio::test(start_paused = true)]
async fn a_container_whose_image_is_changed_starts_again() {
    let node = Node::start().await;
    node.create(json!({}), json!({ "restartPolicy": "Never" })).await;
    node.until("it runs", |container| container["ready"] == true).await;
    let refusal = "previous terminated container \"c\" in pod \"p\" not found".to_owned();
    assert_eq!(node.previous_log().await, Err((400, refusal)));
    let patch = json!({ "spec": { "containers": [{ "name": "c", "image": "web:2" }] } });
    node.pods.patch("p", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    let container = node.until("it runs anew", |container| container["restartCount"] == 1).await;
    assert_eq!((&container["image"], &container["ready"]), (&json!("web:2"), &json!(true)));
    assert_eq!(container["lastState"]["terminated"]["reason"], "Completed");
    node.cluster.advance(Duration::from_secs(60)).await;
    let events = node.events("Killing").await;
    let messages: Vec<&str> = events.iter().filter_map(|event| event["message"].as_str()).collect();
    assert_eq!(messages, ["Container c definition changed, will be restarted"]);
    assert_eq!(node.container().await["restartCount"], 1);
    assert!(node.previous_log().await.unwrap().contains("simulated container c ended with code 0"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_no_address_before_its_sandbox_is_up() {
    let node = Node::start().await;
    node.create(json!({ "setpoint.dev/start-delay": "10s" }), json!({})).await;
    let creating = |container: &Value| container["state"]["waiting"]["reason"] == "ContainerCreating";
    node.until("it is being created", creating).await;
    let shown = async || {
        let pod = json!(node.pods.get("p").await.unwrap());
        let conditions = pod["status"]["conditions"].as_array().unwrap().clone();
        let said =
            |condition: &Value| format!("{}={}", condition["type"].as_str().unwrap(), condition["status"]);
        let said: Vec<String> = conditions.iter().map(|condition| said(condition).replace('"', "")).collect();
        (pod["status"]["hostIP"].is_string(), pod["status"]["podIP"].is_string(), said.join(" "))
    };
    let before = "PodReadyToStartContainers=False Initialized=True Ready=False ContainersReady=False PodScheduled=True";
    assert_eq!(shown().await, (true, false, before.to_owned()));
    node.until("it runs", |container| container["ready"] == true).await;
    let after =
        "PodReadyToStartContainers=True Initialized=True Ready=True ContainersReady=True PodScheduled=True";
    assert_eq!(shown().await, (true, true, after.to_owned()));
}
