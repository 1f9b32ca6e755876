//! Watches, with paused time where timers matter.

use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use setpoint_apiserver::{Body, Caller, UserInfo};

use crate::cluster::{Cluster, MAPS, MERGE, body, map, start, version};

/// A watch that is read event by event.
struct Stream {
    body: Body,
    lines: std::collections::VecDeque<Value>,
}

impl Stream {
    /// The next event; none at the end of the watch.
    async fn next(&mut self) -> Option<Value> {
        while self.lines.is_empty() {
            let frame = self.body.frame().await?.unwrap().into_data().unwrap();
            let text = std::str::from_utf8(&frame).unwrap().to_owned();
            self.lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        self.lines.pop_front()
    }

    async fn expect(&mut self, kind: &str) -> Value {
        let event = self.next().await.expect("the watch goes on");
        assert_eq!(event["type"], kind, "{event}");
        event["object"].clone()
    }
}

impl Cluster {
    async fn watch(&self, query: &str) -> Stream {
        self.watch_of(MAPS, query).await
    }

    async fn watch_of(&self, path: &str, query: &str) -> Stream {
        let request = Request::get(format!("{path}?watch=true&{query}")).body(body("")).unwrap();
        let response = self.server.handle(Caller::Trusted(UserInfo::admin("admin")), request).await;
        assert_eq!(response.status(), 200);
        Stream { body: response.into_body(), lines: Default::default() }
    }
}

#[tokio::test]
async fn a_watch_tells_what_happens_after_its_version() {
    let cluster = start().await;
    let list = cluster.get(MAPS).await.expect(200);
    let mut watch = cluster.watch(&format!("resourceVersion={}", version(&list))).await;
    let created = cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    assert_eq!(watch.expect("ADDED").await, created);
    let changed = cluster.patch(&format!("{MAPS}/a"), MERGE, &json!({"data": {"x": "1"}})).await.expect(200);
    assert_eq!(watch.expect("MODIFIED").await, changed);
    cluster.delete(&format!("{MAPS}/a")).await.expect(200);
    let deleted = watch.expect("DELETED").await;
    assert_eq!(deleted["data"], changed["data"]);
    assert!(version(&deleted) > version(&changed));
}

/// kube-apiserver puts a pod once more before it deletes it at once: lws and others wait for the time in the event.
#[tokio::test]
async fn a_pod_without_grace_is_seen_to_end_before_it_is_gone() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let cluster = start().await;
    let pod = |name: &str| {
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]}})
    };
    let created = cluster.post(PODS, &pod("a")).await.expect(201);
    let scheduled = {
        let mut scheduled = pod("b");
        scheduled["spec"]["nodeName"] = json!("n");
        cluster.post(PODS, &scheduled).await.expect(201)
    };
    let mut watch = cluster.watch_of(PODS, &format!("resourceVersion={}", version(&scheduled))).await;
    let ended = cluster.delete(&format!("{PODS}/a")).await.expect(200);
    let began = watch.expect("MODIFIED").await;
    let gone = watch.expect("DELETED").await;
    assert!(version(&created) < version(&began) && version(&began) < version(&gone));
    for pod in [&began, &gone, &ended] {
        assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 0, "{pod}");
        assert!(pod["metadata"]["deletionTimestamp"].is_string(), "{pod}");
        assert_eq!(pod["metadata"]["generation"], 2);
    }
    assert_eq!(version(&ended), version(&gone));
    // A pod on a node is given its time, and the force of a second deletion is seen too.
    cluster.delete(&format!("{PODS}/b")).await.expect(200);
    assert_eq!(watch.expect("MODIFIED").await["metadata"]["deletionGracePeriodSeconds"], 30);
    let force = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": scheduled["metadata"]["uid"]}});
    cluster.with(http::Method::DELETE, &format!("{PODS}/b"), &force).await.expect(200);
    assert_eq!(watch.expect("MODIFIED").await["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(watch.expect("DELETED").await["metadata"]["deletionGracePeriodSeconds"], 0);
    cluster.get(&format!("{PODS}/b")).await.expect(404);
    // A dry run deletes nothing.
    cluster.post(PODS, &pod("c")).await.expect(201);
    watch.expect("ADDED").await;
    cluster.delete(&format!("{PODS}/c?dryRun=All")).await.expect(200);
    cluster.get(&format!("{PODS}/c")).await.expect(200);
}

#[tokio::test]
async fn other_kinds_without_finalizers_end_with_one_event_without_the_time() {
    let cluster = start().await;
    let created = cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    let mut watch = cluster.watch(&format!("resourceVersion={}", version(&created))).await;
    cluster.delete(&format!("{MAPS}/a")).await.expect(200);
    let gone = watch.expect("DELETED").await;
    assert_eq!(gone["metadata"].get("deletionTimestamp"), None);
    assert_eq!(version(&gone), version(&created) + 1);
}

#[tokio::test]
async fn a_watch_may_be_asked_for_longer_than_clocks_reach() {
    let cluster = start().await;
    let mut watch = cluster.watch(&format!("timeoutSeconds={}", i64::MAX)).await;
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    watch.expect("ADDED").await;
}

#[tokio::test]
async fn leaving_a_selector_is_a_deletion_with_the_new_version_and_the_old_content() {
    let cluster = start().await;
    let mut object = map("a", json!({}));
    object["metadata"]["labels"] = json!({"app": "x"});
    cluster.post(MAPS, &object).await.expect(201);
    let mut watch = cluster.watch("labelSelector=app%3Dx").await;
    watch.expect("ADDED").await;
    let label = |value: Value| json!({"metadata": {"labels": {"app": value}}});
    let left = cluster.patch(&format!("{MAPS}/a"), MERGE, &label(json!("y"))).await.expect(200);
    let gone = watch.expect("DELETED").await;
    assert_eq!((version(&gone), &gone["metadata"]["labels"]["app"]), (version(&left), &json!("x")));
    cluster.patch(&format!("{MAPS}/a"), MERGE, &label(json!("x"))).await.expect(200);
    watch.expect("ADDED").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_ends_its_state_with_a_bookmark_and_goes_on() {
    let cluster = start().await;
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    cluster.post(MAPS, &map("b", json!({}))).await.expect(201);
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=300";
    let mut watch = cluster.watch(query).await;
    watch.expect("ADDED").await;
    watch.expect("ADDED").await;
    let end = watch.expect("BOOKMARK").await;
    assert_eq!(end["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(version(&end), cluster.server.store().revision());
    cluster.post(MAPS, &map("c", json!({}))).await.expect(201);
    watch.expect("ADDED").await;
    // An unrelated write moves the bookmark on.
    cluster.post("/api/v1/namespaces", &json!({"metadata": {"name": "blue"}})).await.expect(201);
    let began = tokio::time::Instant::now();
    let mark = watch.expect("BOOKMARK").await;
    assert!(began.elapsed() <= Duration::from_secs(60));
    assert_eq!(version(&mark), cluster.server.store().revision());
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout_with_a_last_bookmark() {
    let cluster = start().await;
    let mut watch = cluster.watch("allowWatchBookmarks=true&timeoutSeconds=10").await;
    let began = tokio::time::Instant::now();
    watch.expect("BOOKMARK").await;
    assert_eq!(began.elapsed().as_secs(), 8);
    assert!(watch.next().await.is_none());
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn an_expired_watch_says_so_inside_the_stream() {
    let cluster = start().await;
    for at in 0..5 {
        cluster.post(MAPS, &map(&format!("m{at}"), json!({}))).await.expect(201);
    }
    cluster.server.store().compact(cluster.server.store().revision());
    let mut watch = cluster.watch("resourceVersion=2").await;
    let status = watch.expect("ERROR").await;
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_reader_slower_than_the_history_is_closed() {
    let cluster = start().await;
    let mut watch = cluster.watch("resourceVersion=0").await;
    for at in 0..10 {
        cluster.post(MAPS, &map(&format!("m{at}"), json!({}))).await.expect(201);
    }
    cluster.server.store().compact(cluster.server.store().revision());
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_thousand_watchers_see_the_same_order() {
    let cluster = start().await;
    let mut watches = Vec::new();
    for _ in 0..1000 {
        watches.push(cluster.watch(&format!("resourceVersion={}", cluster.server.store().revision())).await);
    }
    let mut expected = Vec::new();
    for at in 0..20 {
        expected.push(version(&cluster.post(MAPS, &map(&format!("m{at}"), json!({}))).await.expect(201)));
    }
    for mut watch in watches {
        for wanted in &expected {
            assert_eq!(version(&watch.expect("ADDED").await), *wanted);
        }
    }
}

#[tokio::test]
async fn tables_are_watched_with_their_columns_once() {
    let cluster = start().await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = Request::get(format!("{MAPS}?watch=true")).header("accept", accept).body(body("")).unwrap();
    let response = cluster.server.handle(Caller::Trusted(UserInfo::admin("admin")), request).await;
    let mut watch = Stream { body: response.into_body(), lines: Default::default() };
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    cluster.post(MAPS, &map("b", json!({}))).await.expect(201);
    let first = watch.expect("ADDED").await;
    let second = watch.expect("ADDED").await;
    assert!(first["columnDefinitions"].is_array());
    assert!(second["columnDefinitions"].is_null());
    assert_eq!(second["rows"][0]["cells"][0], "b");
}

/// fabric8's informers watch over a WebSocket. Sends the head of a request on a connection, and reads what comes until
/// `enough` or the end.
async fn raw(cluster: &Cluster, head: &str, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (mut client, served) = tokio::io::duplex(1 << 16);
    let (server, stop) = (cluster.server.clone(), tokio_util::sync::CancellationToken::new());
    let admin = Caller::Trusted(UserInfo::admin("admin"));
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move { server.serve_io(served, admin, stop).await });
    client.write_all(head.replace('\n', "\r\n").as_bytes()).await.unwrap();
    let mut read = Vec::new();
    let reading = async { while !enough(&read) && client.read_buf(&mut read).await.unwrap() > 0 {} };
    tokio::time::timeout(Duration::from_secs(30), reading).await.expect("the server answers");
    drop(client);
    serving.join_next().await.unwrap().unwrap();
    read
}

const SOCKET: &str = "Host: x\nConnection: keep-alive, Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n";

#[tokio::test]
async fn a_watch_over_a_websocket_sends_each_event_as_a_message_and_says_when_it_ends() {
    let cluster = start().await;
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    cluster.post(MAPS, &map("b", json!({}))).await.expect(201);
    let head = format!("GET {MAPS}?watch=true&timeoutSeconds=1 HTTP/1.1\n{SOCKET}Origin: https://x\n\n");
    // The last frame closes the socket: its code is 1000.
    let read = raw(&cluster, &head, |read| read.ends_with(&[0x88, 2, 3, 0xe8])).await;
    let head = read.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let said = String::from_utf8_lossy(&read[..head]).to_lowercase();
    assert!(said.starts_with("http/1.1 101 switching protocols\r\n"), "{said}");
    assert!(said.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"), "{said}");
    let mut frames = &read[head..];
    for name in ["a", "b"] {
        // A text frame with a length of two bytes.
        assert_eq!(frames[..2], [0x81, 126]);
        let length = usize::from(u16::from_be_bytes([frames[2], frames[3]]));
        let (message, rest) = frames[4..].split_at(length);
        let event: Value = serde_json::from_slice(message).unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!(name)));
        assert_eq!(message.last(), Some(&b'\n'));
        frames = rest;
    }
    assert_eq!(frames, [0x88, 2, 3, 0xe8]);
}

#[tokio::test]
async fn a_websocket_that_cannot_begin_is_refused_before_the_upgrade() {
    let cluster = start().await;
    let ends = |read: &[u8]| read.windows(4).any(|end| end == b"\r\n\r\n");
    let head = format!("GET {MAPS}?watch=true HTTP/1.1\n{SOCKET}\n");
    let read = raw(&cluster, &head, ends).await;
    assert!(read.starts_with(b"HTTP/1.1 403 Forbidden"), "{}", String::from_utf8_lossy(&read));
    let head = format!("GET {MAPS}?watch=true&timeoutSeconds=x HTTP/1.1\n{SOCKET}Origin: https://x\n\n");
    let read = raw(&cluster, &head, ends).await;
    assert!(read.starts_with(b"HTTP/1.1 400 Bad Request"), "{}", String::from_utf8_lossy(&read));
    // A list is a list.
    let head = format!("GET {MAPS} HTTP/1.1\n{SOCKET}Origin: https://x\n\n");
    let read = raw(&cluster, &head, ends).await;
    assert!(read.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&read));
}
