//! A TLS port of one operator process. Requests with its token go on to a client; others are refused.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::Builder;
use kube::client::Body;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use setpoint_apiserver::pki::{Authority, PkiError};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// The longest body of a request, as kube-apiserver has it.
const BODY: usize = 3 << 20;
/// The longest time of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The most connections of one process. Further ones wait.
const CONNECTIONS: usize = 1_000;
/// The media type that the fault layer does not read.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The error of an answer.
type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The end of a connection, or of an HTTP/2 stream, in place of an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection broke")]
struct Broken;

/// The body of an answer.
type Answer = UnsyncBoxBody<Bytes, BoxError>;

/// The certificate of all ports of a proof.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    authority: String,
}

/// The reason why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The authority failed.
    #[error(transparent)]
    Authority(#[from] PkiError),
    /// The certificate cannot be served.
    #[error(transparent)]
    Serve(#[from] rustls::Error),
    /// A certificate is no PEM.
    #[error(transparent)]
    Pem(#[from] rustls_pki_types::pem::Error),
}

impl Tls {
    /// Makes an authority and a certificate for loopback addresses.
    pub fn new() -> Result<Tls, TlsError> {
        let now = setpoint::clock::system_clock().now();
        let authority = Authority::generate(now)?;
        let serving = authority.serving(&[], &[Ipv4Addr::LOCALHOST.into()], now)?;
        let chain =
            CertificateDer::pem_slice_iter(serving.certificate.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { config: Arc::new(config), authority: authority.identity().certificate.clone() })
    }
}

/// An open port of one process.
pub struct Front {
    tls: Tls,
    listener: TcpListener,
    address: SocketAddr,
    token: String,
}

impl Front {
    /// Opens a free port.
    pub async fn open(tls: &Tls) -> std::io::Result<Front> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut secret = [0; 24];
        getrandom::fill(&mut secret).map_err(|error| std::io::Error::other(error.to_string()))?;
        let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(secret);
        Ok(Front { tls: tls.clone(), listener, address, token })
    }

    /// Returns the kubeconfig of the process. JSON is YAML.
    pub fn kubeconfig(&self, namespace: &str) -> String {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "prove",
            "clusters": [{"name": "prove", "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority-data": STANDARD.encode(&self.tls.authority),
            }}],
            "users": [{"name": "operator", "user": {"token": self.token}}],
            "contexts": [{"name": "prove", "context": {
                "cluster": "prove", "user": "operator", "namespace": namespace,
            }}],
        });
        config.to_string()
    }

    /// Serves connections until the future is dropped. All connections end with it.
    pub async fn serve(self, client: kube::Client) {
        let expected = HeaderValue::try_from(format!("Bearer {}", self.token)).ok();
        let acceptor = TlsAcceptor::from(self.tls.config.clone());
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS => {
                    // The process has ended its connection already, or this one has no more files: the process tries
                    // again.
                    let Ok((socket, _)) = accepted else { continue };
                    connections.spawn(connection(socket, acceptor.clone(), client.clone(), expected.clone()));
                }
            }
        }
    }
}

async fn connection(
    socket: TcpStream,
    acceptor: TlsAcceptor,
    client: kube::Client,
    token: Option<HeaderValue>,
) {
    let _ = socket.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(socket)).await else { return };
    let service = service_fn(move |request: Request<Incoming>| {
        let (client, token) = (client.clone(), token.clone());
        async move { pass(request, client, token).await }
    });
    let builder = Builder::new(Streams::default());
    // An error is the client's end of the connection, or a fault.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// The HTTP/2 streams of one connection: their tasks end with it.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while streams.try_join_next().is_some() {}
        streams.spawn(stream);
    }
}

async fn pass(
    request: Request<Incoming>,
    client: kube::Client,
    token: Option<HeaderValue>,
) -> Result<Response<Answer>, Broken> {
    let (mut parts, body) = request.into_parts();
    if token.is_none() || parts.headers.remove(AUTHORIZATION) != token {
        return Ok(refuse(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized"));
    }
    let Ok(body) = Limited::new(body, BODY).collect().await else {
        let message = "limit is 3145728 bytes";
        return Ok(refuse(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message));
    };
    prefer_json(&mut parts.headers);
    if let Some(path) = parts.uri.path_and_query() {
        parts.uri = path.clone().into();
    }
    let request = Request::from_parts(parts, Body::from(body.to_bytes()));
    let response = client.send(request).await.map_err(|_| Broken)?;
    Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
}

/// Asks for JSON where the client takes JSON too: the fault layer reads watch events in JSON only.
fn prefer_json(headers: &mut HeaderMap) {
    let Some(accepted) = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok()) else { return };
    let others: Vec<&str> =
        accepted.split(',').filter(|kind| !kind.contains(PROTOBUF)).map(str::trim).collect();
    if others.is_empty() {
        return;
    }
    if let Ok(others) = HeaderValue::try_from(others.join(",")) {
        headers.insert(ACCEPT, others);
    }
}

fn refuse(code: StatusCode, reason: &str, message: &str) -> Response<Answer> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "metadata": {},
        "code": code.as_u16(), "reason": reason, "message": message,
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(text: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, text.parse().unwrap());
        prefer_json(&mut headers);
        headers[ACCEPT].to_str().unwrap().to_owned()
    }

    #[test]
    fn protobuf_is_asked_for_only_if_nothing_else_is_accepted() {
        assert_eq!(accepted("application/vnd.kubernetes.protobuf, */*"), "*/*");
        assert_eq!(
            accepted("application/vnd.kubernetes.protobuf;stream=watch,application/json"),
            "application/json"
        );
        assert_eq!(accepted("application/vnd.kubernetes.protobuf"), "application/vnd.kubernetes.protobuf");
        assert_eq!(accepted("application/json"), "application/json");
    }
}
