//! Certificates end and are renewed while the API server calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use setpoint::clock::{Clock, system_clock};
use setpoint::webhook::ServingOptions;

use super::server::{Running, authorities, cluster, lead_to, manager, until};
use super::tls::connect;
use super::{Cafe, NAMESPACE, SERVICE, account, cafe, install, webhooks};

/// A clock that a test moves.
#[derive(Clone)]
struct Moved(Arc<AtomicI64>);

impl Moved {
    fn new() -> Self {
        Moved(Arc::new(AtomicI64::new(system_clock().now().as_second())))
    }

    fn clock(&self) -> Clock {
        let seconds = Arc::clone(&self.0);
        Clock::new(move || Timestamp::from_second(seconds.load(Ordering::SeqCst)).unwrap())
    }

    fn pass(&self, time: SignedDuration) {
        self.0.fetch_add(time.as_secs(), Ordering::SeqCst);
    }
}

async fn secret(client: &Client) -> Option<Secret> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    secrets.get_opt(&format!("{SERVICE}-certificates")).await.unwrap()
}

async fn field(client: &Client, field: &str) -> Option<String> {
    let data = secret(client).await?.data?;
    data.get(field).map(|bytes| String::from_utf8(bytes.0.clone()).unwrap())
}

fn options(check_every: Duration) -> ServingOptions {
    ServingOptions::with(|options| {
        options.check_every = check_every;
        options.settle = Duration::from_secs(60);
    })
}

/// Creates and reads a cafe, which asks all three webhooks.
async fn call(client: &Client, number: &mut u32) {
    let cafes: Api<Cafe> = Api::namespaced(client.clone(), NAMESPACE);
    *number += 1;
    let name = format!("cafe-{number}");
    let made = cafes.create(&PostParams::default(), &cafe(&name, 1)).await.unwrap();
    assert!(made.spec.owner.is_some());
    cafes.get(&name).await.unwrap();
}

const OFTEN: Duration = Duration::from_millis(50);
const NEVER: Duration = Duration::from_secs(1_000_000);

#[tokio::test]
async fn a_rotation_fails_no_call_even_to_a_replica_that_missed_it() {
    let moved = Moved::new();
    let cluster = cluster(&moved.clock()).await;
    let client = cluster.client();
    install(&client, &webhooks()).await;
    let start = async |check_every| {
        let manager = manager(&cluster, account(&cluster));
        webhooks().serving(options(check_every)).register(&manager).unwrap();
        Running::start(manager).await
    };
    let (keeps, sleeps) = (start(OFTEN).await, start(NEVER).await);
    lead_to(&cluster, keeps.address).await;
    until("the caBundle", async || !authorities(&cluster).await.is_empty()).await;
    let first = field(&client, "tls.crt").await.unwrap();
    let mut number = 0;
    call(&client, &mut number).await;
    let trusted = async |running: &Running| {
        connect(running.address, &authorities(&cluster).await, None, cluster.clock()).await.map(drop)
    };

    moved.pass(SignedDuration::from_hours(61 * 24));
    until("the next certificate", async || {
        call(&client, &mut number).await;
        field(&client, "next-tls.crt").await.is_some()
            && authorities(&cluster).await.matches("BEGIN").count() == 2
    })
    .await;
    assert_eq!(field(&client, "tls.crt").await.unwrap(), first, "it is not served before it is trusted");
    until("its turn", async || {
        call(&client, &mut number).await;
        moved.pass(SignedDuration::from_secs(61));
        field(&client, "tls.crt").await.unwrap() != first
    })
    .await;
    until("it is served", async || {
        let stream =
            connect(keeps.address, &field(&client, "ca.crt").await.unwrap(), None, cluster.clock()).await;
        call(&client, &mut number).await;
        stream.is_ok()
    })
    .await;
    // The other replica has not looked, and serves the first certificate: it is trusted as long as that lives.
    trusted(&sleeps).await.unwrap();
    trusted(&keeps).await.unwrap();
    let newest = field(&client, "ca.crt").await.unwrap();
    assert!(connect(sleeps.address, &newest, None, cluster.clock()).await.is_err());

    moved.pass(SignedDuration::from_hours(30 * 24));
    until("the first authority is forgotten", async || {
        call(&client, &mut number).await;
        authorities(&cluster).await == newest
    })
    .await;
    trusted(&keeps).await.unwrap();
    for running in [keeps, sleeps] {
        running.stop().await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn replicas_agree_on_one_secret_and_put_back_what_is_removed() {
    let moved = Moved::new();
    let cluster = cluster(&moved.clock()).await;
    let client = cluster.client();
    install(&client, &webhooks()).await;
    let start = || {
        let manager = manager(&cluster, account(&cluster));
        webhooks().serving(options(OFTEN)).register(&manager).unwrap();
        Running::start(manager)
    };
    let replicas = futures::future::join_all([start(), start(), start()]).await;
    let first = field(&client, "ca.crt").await.unwrap();
    for replica in &replicas {
        connect(replica.address, &first, None, cluster.clock()).await.unwrap();
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    secrets.delete(&format!("{SERVICE}-certificates"), &DeleteParams::default()).await.unwrap();
    until("the Secret is back", async || secret(&client).await.is_some()).await;
    assert_eq!(field(&client, "ca.crt").await.unwrap(), first, "with what is served");
    // Somebody applies the manifests again, without a caBundle.
    until("the caBundle", async || authorities(&cluster).await == first).await;
    let path = format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{SERVICE}");
    let operations = serde_json::json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let request = http::Request::patch(path).header("content-type", "application/json-patch+json");
    let request = request.body(operations.to_string().into_bytes()).unwrap();
    let _: serde_json::Value = client.request(request).await.unwrap();
    until("the caBundle is back", async || authorities(&cluster).await == first).await;
    for replica in replicas {
        replica.stop().await.unwrap().unwrap();
    }
}
