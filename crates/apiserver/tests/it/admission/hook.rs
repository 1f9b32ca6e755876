//! A webhook over TLS, inside the test, that does what its path says.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use setpoint_apiserver::{Caller, Server, UserInfo};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::cluster::{Cluster, MAPS, body, map};
use crate::webhook::identity;

pub struct Hook {
    pub port: u16,
    pub ca_bundle: String,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct State {
    /// Paths and reviews.
    asked: Mutex<Vec<(String, Value)>>,
    arrived: Notify,
    release: Notify,
    /// How many calls wait for the answer of `/hold`.
    held: AtomicUsize,
    /// The server that `/loop` writes to.
    server: OnceLock<Server>,
}

impl Hook {
    pub async fn start() -> Hook {
        let (acceptor, ca_bundle) = identity();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, state.clone()));
        Hook { port, ca_bundle, state, _tasks: tasks }
    }

    /// A webhook of a configuration for all writes of ConfigMaps, which does what `path` says.
    pub fn at(&self, path: &str) -> Value {
        let name = format!("{}.example.com", path.trim_start_matches('/').to_lowercase());
        json!({"name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://127.0.0.1:{}{path}", self.port), "caBundle": self.ca_bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]})
    }

    /// The requests of the reviews since the last time.
    pub fn requests(&self) -> Vec<Value> {
        let asked = std::mem::take(&mut *self.state.asked.lock().unwrap());
        asked.into_iter().map(|(_, mut review)| review["request"].take()).collect()
    }

    /// The paths that were asked since the last time.
    pub fn paths(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.state.asked.lock().unwrap());
        asked.into_iter().map(|(path, _)| path).collect()
    }

    /// Returns when somebody waits for the answer of `/gate`.
    pub async fn arrived(&self) {
        self.state.arrived.notified().await;
    }

    /// Makes `/loop` write to this server, and wait for the answer, before it answers itself.
    pub fn loops_to(&self, server: &Server) {
        let _ = self.state.server.set(server.clone());
    }

    /// The number of calls that wait for the answer of `/hold`.
    pub fn held(&self) -> usize {
        self.state.held.load(Ordering::SeqCst)
    }

    /// Lets `/gate` answer once.
    pub fn release(&self) {
        self.state.release.notify_one();
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let (acceptor, state) = (acceptor.clone(), state.clone());
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else { return };
            let service = service_fn(move |request| answer(request, state.clone()));
            let served = hyper::server::conn::http1::Builder::new();
            let _ = served.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let sent = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&sent).unwrap();
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    let mut patch = |operations: Value| {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(operations.to_string()));
    };
    match path.as_str() {
        "/label" => patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}}])),
        "/rename" => patch(json!([{"op": "add", "path": "/metadata/name", "value": "renamed"}])),
        "/nowhere" => patch(json!([{"op": "remove", "path": "/metadata/nothere"}])),
        "/mislabel" => patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"-": "-"}}])),
        "/fill" => {
            patch(
                json!([{"op": "add", "path": "/data", "value": {"k": "x".repeat(1 << 20), "l": "x".repeat(1 << 20)}}]),
            );
        }
        "/cpu" => patch(json!([{"op": "add", "path": "/spec/containers/0/resources",
            "value": {"requests": {"cpu": "2"}}}])),
        "/privilege" => patch(json!([{"op": "add", "path": "/spec/containers/0/securityContext",
            "value": {"privileged": true}}])),
        "/wrong" => patch(json!([{"op": "add", "path": "/data", "value": 5}])),
        "/kind" => patch(json!([{"op": "replace", "path": "/kind", "value": "Secret"}])),
        "/replicas" => patch(json!([{"op": "add", "path": "/spec/replicas", "value": 7}])),
        "/host" => patch(json!([{"op": "replace", "path": "/spec/host", "value": "near"}])),
        "/managers" => patch(json!([{"op": "add", "path": "/metadata/managedFields",
            "value": [{"manager": "x", "operation": "Nope"}]}])),
        append if append.starts_with("/append") => {
            let object = &review["request"]["object"];
            let so_far = object["metadata"]["annotations"]["n"].as_str().unwrap_or("").to_owned();
            let more = so_far + append.trim_start_matches("/append");
            patch(json!([{"op": "add", "path": "/metadata/annotations", "value": {"n": more}}]));
        }
        "/deny" => {
            response["allowed"] = json!(false);
            response["status"] = json!({"message": "no way", "code": 418, "reason": "Teapot"});
        }
        "/grant" => patch(json!([{"op": "add", "path": "/rules", "value": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}])),
        "/long" => response["warnings"] = json!(["x".repeat(5 << 20)]),
        "/warn" => response["warnings"] = json!(["careful"]),
        "/uid" => response["uid"] = json!("another"),
        _ => {}
    }
    let api_version = review["apiVersion"].clone();
    state.asked.lock().unwrap().push((path.clone(), review));
    if let Some(instead) = delay(&path, &state).await {
        return Ok(instead);
    }
    let answer = json!({"kind": "AdmissionReview", "apiVersion": api_version, "response": response});
    Ok(Response::new(Full::new(answer.to_string().into()).boxed_unsync()))
}

/// Does what delays an answer. Returns what is sent in its place.
async fn delay(path: &str, state: &State) -> Option<Response<UnsyncBoxBody<Bytes, Infallible>>> {
    match path {
        "/silent" => std::future::pending().await,
        "/drip" => {
            let drop = || Ok(Frame::data(Bytes::from_static(b" ")));
            let drops = futures::stream::unfold((), move |()| async move {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                Some((drop(), ()))
            });
            return Some(Response::new(StreamBody::new(drops).boxed_unsync()));
        }
        "/redirect" => {
            let response = Response::builder().status(307).header("location", "/label");
            return Some(response.body(Full::default().boxed_unsync()).unwrap());
        }
        "/hold" => {
            state.held.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
        "/loop" => {
            let server = state.server.get().expect("the test names a server").clone();
            let name = state.asked.lock().unwrap().len();
            let request = Request::post(MAPS).header("content-type", "application/json");
            let request = request.body(body(map(&format!("loop-{name}"), json!({})).to_string())).unwrap();
            server.handle(Caller::Trusted(UserInfo::new("loop", ["dev"])), request).await;
        }
        "/gate" => {
            state.arrived.notify_one();
            state.release.notified().await;
        }
        _ => {}
    }
    None
}

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Writes a configuration of webhooks that may change what they see.
pub async fn mutating(cluster: &Cluster, name: &str, hooks: &[Value]) {
    let path = format!("{GROUP}/mutatingwebhookconfigurations");
    let answer = cluster.post(&path, &json!({"metadata": {"name": name}, "webhooks": hooks})).await;
    assert_eq!(answer.warnings(), Vec::<&str>::new());
    answer.expect(201);
}

/// Writes a configuration of webhooks that judge.
pub async fn validating(cluster: &Cluster, name: &str, hooks: &[Value]) {
    let path = format!("{GROUP}/validatingwebhookconfigurations");
    let answer = cluster.post(&path, &json!({"metadata": {"name": name}, "webhooks": hooks})).await;
    assert_eq!(answer.warnings(), Vec::<&str>::new());
    answer.expect(201);
}

/// A webhook with some fields set differently.
pub fn with(mut hook: Value, fields: Value) -> Value {
    for (field, value) in fields.as_object().unwrap() {
        hook[field] = value.clone();
    }
    hook
}
