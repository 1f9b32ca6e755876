//! A server on a memory store, and requests to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_api::{Clock, Random};
use setpoint_apiserver::jwt::SigningKey;
use setpoint_apiserver::{Body, Caller, Options, Plugin, Server, StaticToken, UserInfo};
use setpoint_store::Store;

pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

pub struct Cluster {
    pub server: Server,
    /// Seconds since the epoch.
    pub now: Arc<AtomicI64>,
}

/// One answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: http::HeaderMap,
    pub bytes: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("not JSON: {:?}", self.bytes))
    }

    #[track_caller]
    pub fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", String::from_utf8_lossy(&self.bytes));
        self.json()
    }

    pub fn warnings(&self) -> Vec<&str> {
        self.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect()
    }
}

pub async fn start() -> Cluster {
    start_with(|_| {}).await
}

pub async fn start_with(change: impl FnOnce(&mut Options)) -> Cluster {
    let now = Arc::new(AtomicI64::new(1_800_000_000));
    let read = now.clone();
    let clock = Clock::new(move || Timestamp::from_second(read.load(Ordering::Relaxed)).unwrap());
    let store = Store::memory(setpoint_store::Options::default());
    let mut options = Options::new(store, clock, Random::from_seed(7));
    options.admission.plugins.remove(&Plugin::ServiceAccount);
    let key = SigningKey::generate_pkcs8().unwrap();
    options.service_accounts.signing = Some(SigningKey::from_pkcs8(&key).unwrap());
    options.tokens = vec![StaticToken { token: "alice".into(), user: UserInfo::new("alice", ["dev"]) }];
    change(&mut options);
    Cluster { server: Server::start(options).await.unwrap(), now }
}

pub fn body(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

impl Cluster {
    /// Sends a request as an administrator and reads the whole answer.
    pub async fn send(&self, request: Request<Body>) -> Answer {
        self.send_as(Caller::Trusted(UserInfo::admin("admin")), request).await
    }

    pub async fn send_as(&self, caller: Caller, request: Request<Body>) -> Answer {
        let response = self.server.handle(caller, request).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer { code: parts.status.as_u16(), headers: parts.headers, bytes }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(body("")).unwrap()).await
    }

    pub async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.send(Request::get(path).header("accept", accept).body(body("")).unwrap()).await
    }

    pub async fn with(&self, method: Method, path: &str, object: &Value) -> Answer {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        self.send(request.body(body(object.to_string())).unwrap()).await
    }

    pub async fn post(&self, path: &str, object: &Value) -> Answer {
        self.with(Method::POST, path, object).await
    }

    pub async fn put(&self, path: &str, object: &Value) -> Answer {
        self.with(Method::PUT, path, object).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Request::delete(path).body(body("")).unwrap()).await
    }

    pub async fn patch(&self, path: &str, kind: &str, patch: &Value) -> Answer {
        let request = Request::patch(path).header("content-type", kind);
        self.send(request.body(body(patch.to_string())).unwrap()).await
    }
}

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub fn map(name: &str, data: Value) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": data})
}

pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
