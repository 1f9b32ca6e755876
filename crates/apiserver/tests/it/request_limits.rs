//! How long requests may take, and how many may be under way.

use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use setpoint_apiserver::{BoxError, Caller, UserInfo};
use tokio::time::Instant;

use crate::admission::hook::{Hook, mutating};
use crate::cluster::{MAPS, body, map, start, start_with};

/// The answer of kube-apiserver 1.37 to a body that does not come within `?timeout=1s`.
const LATE: &str = "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: request did not complete within the \
                    allotted timeout\",\"reason\":\"Timeout\",\"details\":{},\"code\":504}\n";

#[tokio::test(start_paused = true)]
async fn a_request_ends_with_its_time() {
    let cluster = start().await;
    for (query, seconds) in
        [("timeout=5s", 5), ("timeout=0s", 60), ("timeout=2h", 60), ("timeout=-1s", 60), ("", 60)]
    {
        // A body that never ends, in pieces that keep coming.
        let pieces = futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Some((Ok::<_, BoxError>(Frame::data(" ".into())), ()))
        });
        let request = Request::post(format!("{MAPS}?{query}")).header("content-type", "application/json");
        let request = request.body(StreamBody::new(pieces).boxed_unsync()).unwrap();
        let began = Instant::now();
        let answer = cluster.send(request).await;
        assert_eq!(began.elapsed(), Duration::from_secs(seconds), "{query}");
        assert_eq!((answer.code, &answer.bytes[..]), (504, LATE.as_bytes()), "{query}");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_has_no_such_time_and_its_timeout_is_not_read() {
    let cluster = start().await;
    let request =
        Request::get(format!("{MAPS}?watch=true&timeout=x&timeoutSeconds=300")).body(body("")).unwrap();
    let began = Instant::now();
    let answer = cluster.send(request).await;
    assert_eq!((answer.code, began.elapsed() >= Duration::from_secs(300)), (200, true));
}

/// As in kube-apiserver, whose timer is then over at once.
#[tokio::test(start_paused = true)]
async fn a_watch_of_a_negative_time_ends_at_once() {
    let cluster = start().await;
    let began = Instant::now();
    let answer = cluster.get(&format!("{MAPS}?watch=true&timeoutSeconds=-1")).await;
    assert_eq!((answer.code, began.elapsed()), (200, Duration::ZERO));
}

/// Recorded from kube-apiserver 1.37, which reads it before it looks who asks: a wrong token gets the same answer.
#[tokio::test]
async fn a_timeout_that_is_none_is_refused_to_everybody() {
    let cluster = start().await;
    let request = Request::get(format!("{MAPS}?timeout=30")).body(body("")).unwrap();
    // Anonymous users may not list them.
    let refused = cluster.send_as(Caller::Connection(None), request).await.expect(400);
    let text = "invalid timeout specified in the request URL - time: missing unit in duration \"30\"";
    assert_eq!(refused["message"], text);
}

#[tokio::test]
async fn a_webhook_takes_no_longer_than_the_request_may() {
    let (cluster, hook) = (start().await, Hook::start().await);
    mutating(&cluster, "m", &[hook.at("/silent")]).await;
    let late = cluster.post(&format!("{MAPS}?timeout=50ms"), &map("a", json!({}))).await;
    assert_eq!((late.code, &late.bytes[..]), (504, LATE.as_bytes()));
}

#[tokio::test]
async fn more_requests_than_may_be_under_way_are_sent_away() {
    let change = |options: &mut setpoint_apiserver::Options| {
        options.requests.writes = 1;
        options.requests.reads = 0;
        options.authorization = vec![setpoint_apiserver::Authorization::AlwaysAllow];
    };
    let (cluster, hook) = (start_with(change).await, Hook::start().await);
    mutating(&cluster, "m", &[hook.at("/gate")]).await;
    let dev = || Caller::Trusted(UserInfo::new("alice", ["dev"]));
    let post = |name: &str| {
        let request = Request::post(MAPS).header("content-type", "application/json");
        request.body(body(map(name, json!({})).to_string())).unwrap()
    };
    let first = cluster.send_as(dev(), post("a"));
    let others = async {
        hook.arrived().await;
        let refused = cluster.send_as(dev(), post("b")).await;
        assert_eq!(
            (refused.code, &refused.bytes[..]),
            (429, &b"Too many requests, please try again later.\n"[..])
        );
        assert_eq!(refused.headers["retry-after"], "1");
        assert_eq!(refused.headers["content-type"], "text/plain; charset=utf-8");
        let read = |query: &str| Request::get(format!("{MAPS}?{query}")).body(body("")).unwrap();
        assert_eq!(cluster.send_as(dev(), read("")).await.code, 429);
        let watch = cluster.server.handle(dev(), read("watch=true")).await;
        assert_eq!(watch.status(), 200, "long-running requests are not counted");
        cluster.get(MAPS).await.expect(200);
        cluster.get(&format!("{MAPS}?limit=1")).await.expect(200);
        hook.release();
    };
    let (first, ()) = tokio::join!(first, others);
    first.expect(201);
    hook.release();
    cluster.send_as(dev(), post("b")).await.expect(201);
}
