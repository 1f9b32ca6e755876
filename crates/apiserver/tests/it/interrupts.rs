//! Work that runs stops soon after its client has left or its time is up.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use setpoint_apiserver::Authorization;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use crate::cluster::{Cluster, MAPS, map, start_with};
use crate::connections::{Listening, listening, read_answer};

/// The number of heavy requests that run at the same time.
const PLACES: usize = 4;
const LONGS: &str = "/apis/t.io/v1/longs";
/// Time for the server to notice. It needs a moment; a test on a busy machine may need more.
const PATIENCE: Duration = Duration::from_secs(60);

/// A kind whose schema judges each text some thousand times.
fn definition() -> Value {
    let judges: Vec<Value> = (1000..4000).map(|most| json!({"maxLength": most})).collect();
    let items = json!({"type": "array", "items": {"type": "string", "allOf": judges}});
    let schema = json!({"type": "object", "properties": {"items": items}});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "longs.t.io"},
        "spec": {"group": "t.io", "scope": "Cluster", "versions": [version],
            "names": {"plural": "longs", "singular": "long", "kind": "Long", "listKind": "LongList"}}})
}

/// An object of that kind. Its validation takes minutes at least.
fn endless() -> String {
    json!({"apiVersion": "t.io/v1", "kind": "Long", "metadata": {"name": "a"}, "items": vec!["a"; 200_000]})
        .to_string()
}

fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer alice\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    )
}

async fn post(listening: &Listening, path: &str, body: &str) -> TlsStream<TcpStream> {
    let mut stream = listening.connect().await.unwrap();
    stream.write_all(head(path, body.len()).as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

async fn serving() -> (Cluster, Listening) {
    let cluster = start_with(|options| {
        options.authorization = vec![Authorization::AlwaysAllow];
        options.requests.timeout = Duration::from_secs(3600);
    })
    .await;
    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()).await.expect(201);
    let listening = listening(&cluster).await;
    (cluster, listening)
}

/// The code of the answer to a heavy request that is quickly done.
async fn quick(listening: &Listening, name: &str, timeout: Duration) -> String {
    let path = format!("{MAPS}?timeout={}ms", timeout.as_millis());
    let body = map(name, json!({"k": "x".repeat(100_000)})).to_string();
    let mut stream = post(listening, &path, &body).await;
    read_answer(&mut stream).await[9..12].to_owned()
}

/// Waits until so much heavy work runs that more has to wait.
async fn until_busy(listening: &Listening) {
    let began = Instant::now();
    for round in 0.. {
        if quick(listening, &format!("probe-{round}"), Duration::from_millis(500)).await == "504" {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "the work never began");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_ends_with_its_deadline() {
    let (_cluster, listening) = serving().await;
    let mut streams = Vec::new();
    for _ in 0..PLACES {
        streams.push(post(&listening, &format!("{LONGS}?timeout=5s"), &endless()).await);
    }
    until_busy(&listening).await;
    for stream in &mut streams {
        let answer = tokio::time::timeout(PATIENCE, read_answer(stream)).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    }
    assert_eq!(quick(&listening, "after", PATIENCE).await, "201");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_ends_when_its_connection_does() {
    let (_cluster, listening) = serving().await;
    let mut streams = Vec::new();
    for _ in 0..PLACES {
        streams.push(post(&listening, LONGS, &endless()).await);
    }
    until_busy(&listening).await;
    drop(streams);
    assert_eq!(quick(&listening, "after", PATIENCE).await, "201");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_ends_when_its_stream_is_reset() {
    let (_cluster, listening) = serving().await;
    let (mut tasks, mut answers) = (JoinSet::new(), JoinSet::new());
    let stream = listening.connect().await.unwrap();
    let builder = http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tasks.spawn(async move { drop(connection.await) });
    for _ in 0..PLACES {
        let request = Request::post(format!("https://x{LONGS}")).header("authorization", "Bearer alice");
        let request = request.header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(endless())).boxed_unsync()).unwrap();
        let mut sender = sender.clone();
        answers.spawn(async move { sender.send_request(request).await.map(drop) });
    }
    until_busy(&listening).await;
    // The connection lives on: only its streams end.
    answers.shutdown().await;
    assert_eq!(quick(&listening, "after", PATIENCE).await, "201");
    assert!(!sender.is_closed());
}
