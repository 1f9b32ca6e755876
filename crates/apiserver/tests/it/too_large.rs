//! Bodies that are too large. The answers are those of kube-apiserver 1.37.

use http::{Method, Request};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use setpoint_apiserver::{Authorization, BoxError};
use tokio::io::AsyncWriteExt;

use crate::cluster::{Cluster, JSON_PATCH, MAPS, MERGE, body, map, start, start_with};
use crate::connections::{listening, read_answer};

/// The longest body.
const LIMIT: usize = 3 * 1024 * 1024;

async fn send(cluster: &Cluster, method: Method, path: &str, kind: &str, length: usize) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let answer = cluster.send(request.body(body(vec![b' '; length])).unwrap()).await;
    (answer.code, answer.json())
}

fn refusal(why: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("Request entity too large: {why}"), "reason": "RequestEntityTooLarge", "code": 413})
}

#[tokio::test]
async fn a_body_has_three_mebibytes_at_most() {
    let cluster = start().await;
    let json = "application/json";
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    let account = "/api/v1/namespaces/default/serviceaccounts";
    cluster.post(account, &json!({"metadata": {"name": "robot"}})).await.expect(201);
    let (one, token) = (format!("{MAPS}/a"), format!("{account}/robot/token"));
    for (method, path, kind) in [
        (Method::POST, MAPS, json),
        (Method::PUT, &*one, json),
        (Method::PATCH, &one, MERGE),
        (Method::PATCH, &one, JSON_PATCH),
        (Method::DELETE, &one, json),
        (Method::DELETE, MAPS, json),
        (Method::POST, &token, json),
    ] {
        let refused = send(&cluster, method.clone(), path, kind, LIMIT + 1).await;
        assert_eq!(refused, (413, refusal("limit is 3145728")), "{method} {path} {kind}");
    }
    // One byte less is read, and holds no object.
    let (code, refused) = send(&cluster, Method::POST, MAPS, json, LIMIT).await;
    let message = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json \
                   parse error: unexpected end of JSON input \
                   (202020202020202020202020202020202020202020202020202020202020 ...)";
    assert_eq!((code, &refused["message"]), (400, &json!(message)));
    assert_eq!(cluster.get(MAPS).await.expect(200)["items"].as_array().map(Vec::len), Some(1));
}

/// A client that does not say how long its body is gets the same answer, as soon as the limit is passed.
#[tokio::test]
async fn a_body_without_a_length_is_read_to_the_limit_and_not_on() {
    let cluster = start().await;
    let pieces =
        futures::stream::repeat_with(|| Ok::<_, BoxError>(Frame::data(vec![b' '; 64 * 1024].into())));
    let request = Request::post(MAPS).header("content-type", "application/json");
    let answer = cluster.send(request.body(StreamBody::new(pieces).boxed_unsync()).unwrap()).await;
    assert_eq!(answer.expect(413), refusal("limit is 3145728"));
}

#[tokio::test]
async fn a_json_patch_has_ten_thousand_operations_at_most() {
    let cluster = start().await;
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    let path = format!("{MAPS}/a");
    let refused = cluster.patch(&path, JSON_PATCH, &json!(vec![json!({}); 10_001])).await.expect(413);
    assert_eq!(refused, refusal("The allowed maximum operations in a JSON patch is 10000, got 10001"));
    let operation = json!({"op": "add", "path": "/data", "value": {"k": "v"}});
    cluster.patch(&path, JSON_PATCH, &json!(vec![operation; 10_000])).await.expect(200);
}

/// A client over a socket reads the answer although the server has not read all that it sent.
#[tokio::test]
async fn the_answer_reaches_a_client_that_has_sent_too_much() {
    let cluster = start_with(|options| options.authorization = vec![Authorization::AlwaysAllow]).await;
    let listening = listening(&cluster).await;
    for length in [LIMIT + 1, LIMIT + 100_000] {
        let stream = listening.connect().await.unwrap();
        let head = format!(
            "POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer alice\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n"
        );
        let (mut read, mut write) = tokio::io::split(stream);
        let write = async move {
            let _ = write.write_all(head.as_bytes()).await;
            let _ = write.write_all(&vec![b' '; length]).await;
            write
        };
        let (answer, _write) = tokio::join!(read_answer(&mut read), write);
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("limit is 3145728"), "{answer}");
    }
}
