//! The manager's servers over real sockets, and signals, in real time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint::manager::ManagerError;
use setpoint::{Manager, ManagerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::controllers::beside;
use crate::fake::Fake;

async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn health_readiness_and_metrics_are_served() {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let options = ManagerOptions::with(|options| {
        options.health_address = Some(any);
        options.metrics_address = Some(any);
    });
    let manager = Manager::new(Fake::new().client(), options);
    let ready = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&ready);
    manager.ready_checks().add("warm", move || {
        let warm = asked.load(Ordering::SeqCst);
        async move { if warm { Ok(()) } else { Err("cold".to_owned()) } }
    });
    let counter = setpoint::metrics::prometheus_client::metrics::counter::Counter::<u64>::default();
    manager.metrics().register("cups", "Cups served", counter.clone());
    counter.inc_by(3);
    beside(&manager, async {
        let mut addresses = manager.addresses();
        let bound = *addresses.wait_for(|addresses| addresses.metrics.is_some()).await.unwrap();
        let health = bound.health.unwrap();
        assert!(get(health, "/healthz").await.ends_with("\r\n\r\nok"));
        assert!(get(health, "/readyz").await.starts_with("HTTP/1.1 500"));
        ready.store(true, Ordering::SeqCst);
        assert!(get(health, "/readyz/warm").await.starts_with("HTTP/1.1 200"));
        assert!(get(health, "/metrics").await.starts_with("HTTP/1.1 404"));
        let metrics = get(bound.metrics.unwrap(), "/metrics").await;
        assert!(metrics.contains("cups_total 3\n") && metrics.ends_with("# EOF\n"), "{metrics}");
        assert!(metrics.contains("application/openmetrics-text"));
    })
    .await;
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let options = ManagerOptions::with(|options| options.health_address = Some(address));
    let manager = Manager::new(Fake::new().client(), options);
    let error = manager.run(std::future::pending()).await.unwrap_err();
    assert!(matches!(error, ManagerError::Listen { address: named, .. } if named == address));
}

#[tokio::test]
async fn the_servers_answer_before_the_caches_have_synced() {
    let fake = Fake::new();
    fake.refuse(|method, path| {
        (*method == http::Method::GET && path.ends_with("configmaps")).then_some((403, "Forbidden"))
    });
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let options = ManagerOptions::with(|options| options.health_address = Some(any));
    let manager = Manager::new(fake.client(), options);
    let informer = manager.informer::<ConfigMap>();
    let started = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&started);
    let work = move |_| async move {
        noted.store(true, Ordering::SeqCst);
        Ok(())
    };
    manager.add_always("work", work).unwrap();
    beside(&manager, async {
        let mut addresses = manager.addresses();
        let bound = *addresses.wait_for(|addresses| addresses.health.is_some()).await.unwrap();
        assert!(get(bound.health.unwrap(), "/healthz").await.ends_with("\r\n\r\nok"));
    })
    .await;
    assert!(!informer.has_synced() && !started.load(Ordering::SeqCst), "work waits for the caches");
}

/// Sends SIGTERM to this process, which must handle it by now.
fn terminate() {
    let told = std::process::Command::new("kill").arg(std::process::id().to_string()).status();
    assert!(told.unwrap().success());
}

#[tokio::test]
async fn the_first_signal_stops_in_order_and_the_second_at_once() {
    let manager = Manager::new(Fake::new().client(), ManagerOptions::default());
    let (note, mut noted) = mpsc::channel(2);
    let stubborn = move |stopping: CancellationToken| async move {
        note.send("started").await?;
        stopping.cancelled().await;
        note.send("told to stop").await?;
        std::future::pending().await
    };
    manager.add_always("stubborn", stubborn).unwrap();
    let script = async {
        for expected in ["started", "told to stop"] {
            assert_eq!(noted.recv().await, Some(expected));
            terminate();
        }
    };
    // The grace period is 30 s.
    let running = tokio::time::timeout(Duration::from_secs(20), manager.run_until_signal());
    let (ended, ()) = tokio::join!(running, script);
    assert!(matches!(ended, Ok(Err(ManagerError::Interrupted))), "{ended:?}");
}
