use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::probe::HttpGet;

const HERE: PodPorts = PodPorts::Own(Ipv4Addr::LOCALHOST);
const SOON: Duration = Duration::from_secs(20);

type Answer = Response<BoxBody<Bytes, Infallible>>;

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A web server, optionally over TLS with an unknown certificate. Ends with the set.
async fn web(tls: bool) -> (u16, JoinSet<()>) {
    let (listener, port) = listen().await;
    let mut server = JoinSet::new();
    server.spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(tls_config()));
        let mut connections = JoinSet::new();
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                let service = hyper::service::service_fn(async |request| Ok::<_, Infallible>(page(&request)));
                let http = hyper::server::conn::http1::Builder::new();
                if tls {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                } else {
                    let _ = http.serve_connection(TokioIo::new(socket), service).await;
                }
            });
        }
    });
    (port, server)
}

fn tls_config() -> ServerConfig {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["unknown.example".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    builder.unwrap().with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap()
}

fn page(request: &Request<Incoming>) -> Answer {
    let of = |header: &str| request.headers().get(header).map_or("", |value| value.to_str().unwrap());
    let (status, location) = match request.uri().path() {
        "/good" => (200, None),
        "/moved" => (302, Some("/good".to_owned())),
        "/moved-to-bad" => (302, Some(format!("http://{}/bad", of("host")))),
        "/elsewhere" => (302, Some("https://example.invalid/".to_owned())),
        "/again" => (302, Some("/again".to_owned())),
        "/named" if of("host") == "me" && of("x-token") == "t" => (200, None),
        "/probe" if of("user-agent").starts_with("kube-probe/") => (200, None),
        _ => (500, None),
    };
    let mut response = Response::new(Empty::new().boxed());
    *response.status_mut() = status.try_into().unwrap();
    if let Some(location) = location {
        response.headers_mut().insert("location", location.parse().unwrap());
    }
    response
}

fn http(tls: bool, port: u16, path: &str) -> HttpGet {
    HttpGet { tls, host: None, port, path: path.into(), headers: Vec::new() }
}

async fn ask(check: Check) -> Result<(), ProbeFailure> {
    attempt(&check, &HERE, SOON).await
}

#[tokio::test]
async fn a_port_where_nobody_listens_fails_the_attempt() {
    let (listener, port) = listen().await;
    let tcp = |host: Option<&str>| Check::Tcp { host: host.map(str::to_owned), port };
    assert_eq!(ask(tcp(None)).await, Ok(()));
    assert_eq!(attempt(&tcp(Some("127.0.0.1")), &PodPorts::None, SOON).await, Ok(()), "its own host");
    assert!(attempt(&tcp(None), &PodPorts::None, SOON).await.unwrap_err().0.contains("simulated"));
    drop(listener);
    assert!(ask(tcp(None)).await.unwrap_err().0.contains("refused"));
}

#[tokio::test]
async fn the_status_of_the_page_decides_after_redirections_on_the_same_host() {
    let (port, _server) = web(false).await;
    let failed = |status| Err(ProbeFailure(format!("HTTP probe failed with statuscode: {status}")));
    for (path, wanted) in [
        ("/good", Ok(())),
        ("/bad", failed(500)),
        ("/probe", Ok(())),
        ("/moved", Ok(())),
        ("/moved-to-bad", failed(500)),
        ("/elsewhere", Ok(())),
        ("/again", Err(ProbeFailure::new("stopped after 10 redirects"))),
        ("/named", failed(500)),
    ] {
        assert_eq!(ask(Check::Http(http(false, port, path))).await, wanted, "{path}");
    }
    let headers = [("Host", "me"), ("X-Token", "t")].map(|(name, value)| (name.into(), value.into())).into();
    let named = HttpGet { headers, ..http(false, port, "/named") };
    assert_eq!(ask(Check::Http(named)).await, Ok(()));
}

#[tokio::test]
async fn over_tls_any_certificate_will_do_and_clear_text_will_not() {
    let (port, _server) = web(true).await;
    assert_eq!(ask(Check::Http(http(true, port, "/good"))).await, Ok(()));
    assert_eq!(ask(Check::Http(http(true, port, "/moved"))).await, Ok(()));
    let bad = ask(Check::Http(http(true, port, "/bad"))).await;
    assert_eq!(bad, Err(ProbeFailure::new("HTTP probe failed with statuscode: 500")));
    assert_eq!(
        ask(Check::Http(http(false, port, "/good"))).await,
        Err(ProbeFailure::new("invalid HTTP version parsed"))
    );
    let (clear, _clear) = web(false).await;
    assert_eq!(
        ask(Check::Http(http(true, clear, "/good"))).await,
        Err(ProbeFailure::new("received corrupt message of type InvalidContentType"))
    );
}

/// A server that knows the health of two services.
async fn health(request: Request<Incoming>) -> Result<Answer, Infallible> {
    let path = request.uri().path().to_owned();
    let question = request.into_body().collect().await.unwrap().to_bytes();
    let (code, body): (&'static str, &[u8]) = match (path.as_str(), &question[5..]) {
        ("/grpc.health.v1.Health/Check", b"" | b"\x0a\x01a") => ("0", &[0, 0, 0, 0, 2, 8, 1]),
        ("/grpc.health.v1.Health/Check", b"\x0a\x01b") => ("0", &[0, 0, 0, 0, 2, 8, 2]),
        _ => ("5", &[]),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    let body = Full::new(Bytes::copy_from_slice(body)).with_trailers(async move { Some(Ok(trailers)) });
    Ok(Response::new(body.boxed()))
}

#[tokio::test]
async fn a_grpc_server_says_whether_its_service_serves() {
    let (listener, port) = listen().await;
    let mut server = JoinSet::new();
    server.spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = http.serve_connection(TokioIo::new(socket), hyper::service::service_fn(health)).await;
        }
    });
    let ask = async |service: &str| ask(Check::Grpc { port, service: service.into() }).await;
    assert_eq!(ask("").await, Ok(()));
    assert_eq!(ask("a").await, Ok(()));
    assert!(ask("b").await.unwrap_err().0.contains("unhealthy"));
    assert_eq!(ask("unknown").await, Err(ProbeFailure::new("gRPC status 5: ")));
}
