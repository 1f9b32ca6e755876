//! Calls to a server that is busy, or whose pages expire.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::client::Body;
use serde_json::{Value, json};
use setpoint::{ClientError, Key, Manager, ManagerOptions, Patch, Query};
use tokio::time::Instant;

use crate::controllers::config_map;
use crate::world::failure;

type Answer = (u16, Option<u64>, Value);

/// A manager over a server that answers each request by its number.
fn over(
    answers: impl Fn(usize, &Request<Body>) -> Answer + Send + Sync + 'static,
) -> (Manager, Arc<Mutex<Vec<String>>>) {
    let (answers, asked) = (Arc::new(answers), Arc::new(Mutex::new(Vec::new())));
    let (heard, count) = (Arc::clone(&asked), Arc::new(AtomicUsize::new(0)));
    let service = tower::service_fn(move |request: Request<Body>| {
        heard.lock().unwrap().push(request.uri().to_string());
        let (status, retry, body) = answers(count.fetch_add(1, Ordering::SeqCst), &request);
        let mut answer = Response::builder().status(StatusCode::from_u16(status).unwrap());
        if let Some(seconds) = retry {
            answer = answer.header("retry-after", seconds);
        }
        let answer = answer.body(Body::from(body.to_string().into_bytes())).unwrap();
        async move { Ok::<_, std::convert::Infallible>(answer) }
    });
    (Manager::new(kube::Client::new(service, "default"), ManagerOptions::default()), asked)
}

fn patch() -> Patch {
    Patch::Merge(json!({"data": {"key": "new"}}))
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_when_it_says_and_not_past_the_deadline() {
    let (manager, asked) = over(|number, request| {
        assert_eq!(*request.method(), Method::PATCH);
        match number {
            0 => (429, Some(3), failure(429, "TooManyRequests")),
            1 => (503, Some(2), failure(503, "ServiceUnavailable")),
            2 => (200, None, config_map("a", "new")),
            3 => (429, Some(3600), failure(429, "TooManyRequests")),
            _ => (500, None, failure(500, "InternalError")),
        }
    });
    let client = manager.client();
    let began = Instant::now();
    client.patch::<ConfigMap>(("default", "a"), &patch()).await.unwrap();
    assert_eq!((began.elapsed(), asked.lock().unwrap().len()), (Duration::from_secs(5), 3));
    let metrics = manager.metrics().encode();
    for code in [429, 503] {
        let counted = format!(r#"rest_client_request_retries_total{{code="{code}",host="",verb="PATCH"}} 1"#);
        assert!(metrics.contains(&counted), "{metrics}");
    }
    // Later than anybody would wait, and an error that says nothing of later.
    for code in [429, 500] {
        let error = client.patch::<ConfigMap>(("default", "a"), &patch()).await.unwrap_err();
        assert_eq!(error.code(), Some(code));
    }
    assert_eq!((began.elapsed(), asked.lock().unwrap().len()), (Duration::from_secs(5), 5));
}

#[tokio::test(start_paused = true)]
async fn a_live_list_reads_all_pages_and_everything_at_once_when_they_expire() {
    let page = |name: &str, next: &str| {
        (
            200,
            None,
            json!({"kind": "ConfigMapList", "apiVersion": "v1",
            "metadata": {"resourceVersion": "7", "continue": next}, "items": [config_map(name, "1")]}),
        )
    };
    let expired = || (410, None, failure(410, "Expired"));
    let (manager, asked) = over(move |number, _| match number {
        0 => page("a", "t1"),
        1 => page("b", ""),
        2 => page("stale", "t2"),
        3 => expired(),
        4 => page("c", ""),
        // All pages expire, and what is left of an answer without a limit too.
        5 | 7 => page("stale", "t3"),
        _ => expired(),
    });
    let client = manager.client();
    let list = async || client.live().list::<ConfigMap>(Query::namespace("default")).await;
    let names = |found: Vec<ConfigMap>| -> Vec<String> {
        found.into_iter().map(|object| object.metadata.name.unwrap()).collect()
    };
    let requests = || -> Vec<(bool, bool)> {
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        asked.iter().map(|uri| (uri.contains("limit="), uri.contains("continue="))).collect()
    };
    assert_eq!(names(list().await.unwrap()), ["a", "b"]);
    assert_eq!(requests(), [(true, false), (true, true)]);
    assert_eq!(names(list().await.unwrap()), ["c"]);
    assert_eq!(requests(), [(true, false), (true, true), (false, false)]);
    assert_eq!(list().await.unwrap_err().code(), Some(410));
    assert_eq!(requests(), [(true, false), (true, true), (false, false), (false, true)]);
    // A first page that expires is an answer like any other.
    let error = list().await.unwrap_err();
    assert!(matches!(error, ClientError::Api(_)) && error.code() == Some(410), "{error}");
    assert_eq!(requests(), [(true, false)]);
}

#[tokio::test(start_paused = true)]
async fn a_name_leads_to_its_own_object_whatever_it_holds() {
    let (manager, asked) = over(|_, _| (404, None, failure(404, "NotFound")));
    let client = manager.client();
    let role = "system:a b?watch=true#c";
    assert!(client.live().get::<ClusterRole>(role).await.unwrap().is_none());
    assert!(client.delete::<ClusterRole>(role).await.unwrap_err().is_not_found());
    let scale = client.patch_subresource::<ClusterRole, Value>(role, "scale", &patch()).await;
    assert!(scale.unwrap_err().is_not_found());
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b%3Fwatch=true%23c";
    let asked_for = asked.lock().unwrap().clone();
    assert_eq!(asked_for.len(), 3);
    assert!(asked_for.iter().all(|uri| uri.starts_with(path)), "{asked_for:?}");
    // These would lead elsewhere: an empty one to all objects of the kind.
    for name in ["", ".", "..", "a/status", "a%2Fstatus"] {
        let refused = client.delete::<ClusterRole>(Key::new(None, name)).await.unwrap_err();
        let refused_in = client.live().list::<ConfigMap>(Query::namespace(name)).await.unwrap_err();
        for refused in [refused, refused_in] {
            let kept = matches!(refused, ClientError::BadName { .. } | ClientError::ClusterScoped { .. });
            assert!(kept, "{name:?}: {refused}");
        }
    }
    assert_eq!(asked.lock().unwrap().len(), 3, "nothing of it was sent");
}
