//! A conversion webhook over TLS, inside the test.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use setpoint_apiserver::pki::Authority;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A change of an answer that would be right.
type Spoil = Box<dyn Fn(&mut Value) + Send>;

#[derive(Default)]
struct State {
    asked: Vec<Value>,
    spoil: Option<Spoil>,
}

pub struct Webhook {
    pub port: u16,
    pub ca_bundle: String,
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

impl Webhook {
    /// Starts one; it answers for 127.0.0.1 and the Service `hook` of the namespace default.
    pub async fn start() -> Webhook {
        let (acceptor, ca_bundle) = identity();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, state.clone()));
        Webhook { port, ca_bundle, state, _tasks: tasks }
    }

    pub fn client_config(&self) -> Value {
        json!({"url": format!("https://127.0.0.1:{}/convert", self.port), "caBundle": self.ca_bundle})
    }

    /// The reviews since the last call: the desired version and the names of the objects.
    pub fn asked(&self) -> Vec<(String, Vec<String>)> {
        let asked = std::mem::take(&mut self.state.lock().unwrap().asked);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let short = |review: &Value| {
            let objects = review["request"]["objects"].as_array().unwrap();
            let names = objects.iter().map(|object| text(&object["metadata"]["name"])).collect();
            (text(&review["request"]["desiredAPIVersion"]), names)
        };
        asked.iter().map(short).collect()
    }

    /// The reviews themselves.
    pub fn reviews(&self) -> Vec<Value> {
        std::mem::take(&mut self.state.lock().unwrap().asked)
    }

    pub fn spoil(&self, spoil: impl Fn(&mut Value) + Send + 'static) {
        self.state.lock().unwrap().spoil = Some(Box::new(spoil));
    }

    pub fn mend(&self) {
        self.state.lock().unwrap().spoil = None;
    }
}

/// TLS for 127.0.0.1 and the Service `hook` of the namespace default, and the authority behind it as a `caBundle`.
pub fn identity() -> (TlsAcceptor, String) {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let authority = Authority::generate(now).unwrap();
    let names = ["hook.default.svc".to_owned()];
    let identity = authority.serving(&names, &[IpAddr::V4(Ipv4Addr::LOCALHOST)], now).unwrap();
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).map(Result::unwrap);
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.collect(), key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    (acceptor, STANDARD.encode(&authority.identity().certificate))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let (acceptor, state) = (acceptor.clone(), state.clone());
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else { return };
            let service = service_fn(move |request| answer(request, state.clone()));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    assert_eq!(request.uri().path_and_query().unwrap().as_str(), "/convert?timeout=30s");
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let mut state = state.lock().unwrap();
    let mut answer = converted(&review);
    state.asked.push(review);
    if let Some(spoil) = &state.spoil {
        spoil(&mut answer);
    }
    Ok(Response::new(Full::new(answer.to_string().into())))
}

/// `spec.host` of v1 is `spec.address.host` of v2.
fn converted(review: &Value) -> Value {
    let to = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let mut objects = review["request"]["objects"].as_array().unwrap().clone();
    for object in &mut objects {
        assert_ne!(object["apiVersion"], to, "only objects of another version are sent");
        object["metadata"]["annotations"]["from"] = object["apiVersion"].clone();
        object["apiVersion"] = json!(to);
        let Some(spec) = object["spec"].as_object_mut() else { continue };
        spec.remove(if to == "conv.io/v2" { "one" } else { "two" });
        if let Some(host) = spec.remove("host") {
            spec.insert("address".into(), json!({"host": host}));
        } else if let Some(address) = spec.remove("address") {
            spec.insert("host".into(), address["host"].clone());
        }
    }
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": {
        "uid": review["request"]["uid"], "convertedObjects": objects, "result": {"status": "Success"}}})
}
