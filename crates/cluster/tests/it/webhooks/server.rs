//! The server of a manager: start and stop, readiness, and its bounds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::api::{ListParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::json;
use setpoint::clock::{Clock, system_clock};
use setpoint::webhook::{Allowed, Denied, Review, ServingOptions, Validate, Webhooks};
use setpoint::{Controller, Manager, ManagerOptions, SetupError};
use setpoint_cluster::{Cluster, Controllers, NodeOptions, Options};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::tls::{Caller, connect};
use super::{Cafe, NAMESPACE, SERVICE, account, apply, cafe, install, webhooks};

/// The time limit of a condition.
const DEADLINE: Duration = Duration::from_secs(60);

/// A cluster without controllers, whose time is that of `clock`.
pub async fn cluster(clock: &Clock) -> Cluster {
    let nodes = NodeOptions { count: 0, ..NodeOptions::default() };
    let clock = Some(clock.clone());
    Cluster::start(Options { controllers: Controllers::None, nodes, clock, ..Options::default() })
        .await
        .unwrap()
}

pub fn manager(cluster: &Cluster, client: Client) -> Manager {
    let options = ManagerOptions::with(|options| {
        options.clock = cluster.clock().clone();
        options.webhook_address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        options.cache_sync_timeout = DEADLINE;
    });
    Manager::new(client, options)
}

/// A running manager.
pub struct Running {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    run: JoinHandle<Result<(), setpoint::manager::ManagerError>>,
}

impl Running {
    /// Runs a manager until its webhooks listen.
    pub async fn start(manager: Manager) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        let mut addresses = manager.addresses();
        #[allow(clippy::disallowed_methods)] // It ends with the test's runtime.
        let run = tokio::spawn(async move { manager.run(async { drop(stopped.await) }).await });
        let listening = addresses.wait_for(|addresses| addresses.webhooks.is_some());
        let found = tokio::time::timeout(DEADLINE, listening).await.expect("the webhooks listen").unwrap();
        let address = found.webhooks.unwrap();
        drop(found);
        Running { address, stop, run }
    }

    /// Tells it to stop; the answer comes when it has.
    pub fn stop(self) -> JoinHandle<Result<(), setpoint::manager::ManagerError>> {
        let _ = self.stop.send(());
        self.run
    }
}

/// Leads the Service of the configurations to a socket of this host.
pub async fn lead_to(cluster: &Cluster, address: SocketAddr) {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    apply(&cluster.client(), &service).await;
    let _: Service = Api::namespaced(cluster.client(), NAMESPACE).get(SERVICE).await.unwrap();
    // An ExternalName has no target port, so the configurations name the port of the socket.
    for kind in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}/{SERVICE}");
        let place = "/webhooks/0/clientConfig/service/port";
        patch(cluster, &path, json!([{"op": "add", "path": place, "value": address.port()}])).await;
    }
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/cafes.example.org";
    let place = "/spec/conversion/webhook/clientConfig/service/port";
    patch(cluster, path, json!([{"op": "add", "path": place, "value": address.port()}])).await;
}

async fn patch(cluster: &Cluster, path: &str, operations: serde_json::Value) {
    let request = http::Request::patch(path).header("content-type", "application/json-patch+json");
    let request = request.body(operations.to_string().into_bytes()).unwrap();
    let _: serde_json::Value = cluster.client().request(request).await.unwrap();
}

/// The authorities that a configuration trusts, as PEM.
pub async fn authorities(cluster: &Cluster) -> String {
    let path = format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{SERVICE}");
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let object: serde_json::Value = cluster.client().request(request).await.unwrap();
    let bundle = object["webhooks"][0]["clientConfig"]["caBundle"].clone();
    let bundle: k8s_openapi::ByteString = serde_json::from_value(bundle).unwrap_or_default();
    String::from_utf8(bundle.0).unwrap()
}

pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, looking).await.unwrap_or_else(|_| panic!("never came: {what}"));
}

#[tokio::test]
async fn a_converted_kind_syncs_because_webhooks_start_before_caches() {
    let cluster = cluster(&system_clock()).await;
    let webhooks = webhooks();
    install(&cluster.client(), &webhooks).await;
    let manager = manager(&cluster, account(&cluster));
    webhooks.register(&manager).unwrap();
    let ready = manager.ready_checks().clone();
    let is_ready = async || ready.run(None, &[]).await.iter().all(|(_, result)| result.is_ok());
    assert!(!is_ready().await, "there is no certificate yet");
    // The controller lists v1, while v1beta1 is stored: its cache needs the conversion webhook.
    let (seen, mut found) = tokio::sync::mpsc::unbounded_channel();
    let controller = Controller::for_kind::<Cafe>(&manager);
    let reconcile = move |_: setpoint::Context, key: setpoint::Key| {
        let seen = seen.clone();
        async move {
            seen.send(key).unwrap();
            Ok(setpoint::Action::done())
        }
    };
    controller.register(reconcile).unwrap();
    let running = Running::start(manager.clone()).await;
    assert!(is_ready().await, "readiness waits for no cache");
    lead_to(&cluster, running.address).await;
    until("the caBundle", async || !authorities(&cluster).await.is_empty()).await;
    let cafes: Api<Cafe> = Api::namespaced(cluster.client(), NAMESPACE);
    let made = cafes.create(&PostParams::default(), &cafe("one", 3)).await.unwrap();
    assert_eq!(made.spec.owner.as_deref(), Some("admin"));
    let refused = cafes.create(&PostParams::default(), &cafe("bad", 0)).await.unwrap_err().to_string();
    assert!(refused.contains("guests stand"), "{refused}");
    let reconciled = tokio::time::timeout(DEADLINE, found.recv()).await.unwrap().unwrap();
    assert_eq!(reconciled.as_str(), "default/one");
    assert_eq!(cafes.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let metrics = manager.metrics().encode();
    for webhook in ["/validate-example-org-v1-cafe", "/convert-example-org-cafe"] {
        let counted =
            format!("controller_runtime_webhook_requests_total{{webhook=\"{webhook}\",code=\"200\"}}");
        assert!(metrics.contains(&counted), "{counted} {metrics}");
    }
    running.stop().await.unwrap().unwrap();
    assert!(!is_ready().await, "a stopped manager serves nothing");
}

/// Holds each review until it is let go.
#[derive(Clone)]
struct Gate {
    entered: Arc<Notify>,
    open: Arc<Notify>,
}

impl Validate<ConfigMap> for Gate {
    async fn validate(&self, _: &Review<ConfigMap>) -> Result<Allowed, Denied> {
        self.entered.notify_one();
        self.open.notified().await;
        Ok(Allowed::yes())
    }
}

fn review() -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "name": "a", "operation": "CREATE",
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
    }})
    .to_string()
}

async fn secret_authority(cluster: &Cluster) -> String {
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), NAMESPACE);
    let secret = secrets.get(&format!("{SERVICE}-certificates")).await.unwrap();
    String::from_utf8(secret.data.unwrap()["ca.crt"].0.clone()).unwrap()
}

#[tokio::test]
async fn a_stop_waits_for_the_review_in_flight() {
    let cluster = cluster(&system_clock()).await;
    let gate = Gate { entered: Arc::default(), open: Arc::default() };
    let webhooks = Webhooks::new(NAMESPACE, SERVICE).validate::<ConfigMap, _>(gate.clone());
    let manager = manager(&cluster, cluster.client());
    webhooks.register(&manager).unwrap();
    let running = Running::start(manager).await;
    let (address, authority) = (running.address, secret_authority(&cluster).await);
    let stream = connect(address, &authority, None, cluster.clock()).await.unwrap();
    let mut caller = Caller::on(stream).await;
    #[allow(clippy::disallowed_methods)] // It ends with the test's runtime.
    let asking = tokio::spawn(async move { caller.post("/validate--v1-configmap", review()).await });
    tokio::time::timeout(DEADLINE, gate.entered.notified()).await.unwrap();
    let stopped = running.stop();
    until("the listener is closed", async || TcpStream::connect(address).await.is_err()).await;
    assert!(!stopped.is_finished() && !asking.is_finished());
    gate.open.notify_one();
    let answer = tokio::time::timeout(DEADLINE, asking).await.unwrap().unwrap().unwrap();
    assert_eq!(answer.status(), 200, "{answer:?}");
    tokio::time::timeout(DEADLINE, stopped).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn bodies_are_bounded_and_strangers_are_not_heard() {
    let cluster = cluster(&system_clock()).await;
    let api_server = cluster.certificate("kube-apiserver", &[]).unwrap();
    let kubeconfig = cluster.kubeconfig(SocketAddr::from(([127, 0, 0, 1], 1))).unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).unwrap();
    let root = kubeconfig.clusters[0].cluster.as_ref().unwrap().certificate_authority_data.clone();
    let root: k8s_openapi::ByteString = serde_json::from_value(json!(root.unwrap())).unwrap();
    let webhooks = Webhooks::new(NAMESPACE, SERVICE)
        .validate::<ConfigMap, _>(|_: &Review<ConfigMap>| Ok(Allowed::yes()))
        .serving(ServingOptions::with(|options| {
            options.max_review_bytes = 10_000;
            options.client_authority = Some(String::from_utf8(root.0).unwrap());
        }));
    let manager = manager(&cluster, cluster.client());
    webhooks.register(&manager).unwrap();
    let running = Running::start(manager).await;
    let authority = secret_authority(&cluster).await;
    let stream = connect(running.address, &authority, Some(&api_server), cluster.clock()).await.unwrap();
    let mut caller = Caller::on(stream).await;
    assert_eq!(caller.post("/validate--v1-configmap", review()).await.unwrap().status(), 200);
    let long = caller.post("/validate--v1-configmap", vec![b' '; 10_001]).await.unwrap();
    let status: serde_json::Value = serde_json::from_slice(long.body()).unwrap();
    assert_eq!((long.status().as_u16(), &status["reason"]), (413, &json!("RequestEntityTooLarge")));
    // With TLS 1.3 a client learns of the refusal when it reads.
    let stranger = connect(running.address, &authority, None, cluster.clock()).await;
    let refused = match stranger {
        Err(_) => true,
        Ok(mut stream) => stream.read_u8().await.is_err(),
    };
    assert!(refused, "a caller without a certificate");
    running.stop().await.unwrap().unwrap();
}

#[tokio::test]
async fn webhooks_that_would_lock_out_the_operator_are_refused() {
    let cluster = cluster(&system_clock()).await;
    let manager = manager(&cluster, cluster.client());
    let on_secrets =
        || Webhooks::new(NAMESPACE, SERVICE).validate::<Secret, _>(|_: &Review<Secret>| Ok(Allowed::yes()));
    let refused = on_secrets().register(&manager).unwrap_err();
    let SetupError::Webhook(why) = &refused else { panic!("{refused}") };
    assert!(why.contains("the operator's own secrets default/cafe-webhooks-certificates"), "{why}");
    // One that somebody widened after it was installed gets no caBundle, and the manager says why.
    let webhooks = webhooks();
    install(&cluster.client(), &webhooks).await;
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]});
    let path = format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{SERVICE}");
    patch(&cluster, &path, json!([{"op": "add", "path": "/webhooks/0/rules/-", "value": rule}])).await;
    webhooks.register(&manager).unwrap();
    let ended = tokio::time::timeout(DEADLINE, manager.run(std::future::pending())).await.unwrap();
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("would be asked about the operator's own secrets"), "{error}");
    assert!(authorities(&cluster).await.is_empty());
}
