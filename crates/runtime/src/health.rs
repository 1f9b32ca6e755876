//! Health and readiness checks, and the small HTTP server that answers for them and for metrics.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::metrics::{self, Metrics};

/// How many connections the server keeps open; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 64;
/// How long a connection may take for the head of its next request. Without it as many silent ones as may be open would
/// keep every probe out.
const SILENCE: Duration = Duration::from_secs(10);

type Check = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// Named checks. Cheap to clone; clones are one set.
#[derive(Clone, Default)]
pub struct Checks(Arc<Mutex<BTreeMap<String, Check>>>);

impl Checks {
    /// Adds a check; one with the same name is replaced.
    pub fn add<F, R>(&self, name: &str, check: F)
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), String>> + Send + 'static,
    {
        let check: Check = Arc::new(move || Box::pin(check()));
        self.0.lock().expect("no holder of this lock panics").insert(name.to_owned(), check);
    }

    /// Runs all checks but `excluded`, or one by its name.
    ///
    /// Dropping the future drops the check that is running, and runs no other.
    pub async fn run(&self, only: Option<&str>, excluded: &[&str]) -> Vec<(String, Result<(), String>)> {
        let checks: Vec<(String, Check)> = {
            let checks = self.0.lock().expect("no holder of this lock panics");
            let wanted = checks.iter().filter(|(name, _)| only.is_none_or(|only| *name == only));
            wanted.map(|(name, check)| (name.clone(), Arc::clone(check))).collect()
        };
        let mut results = Vec::new();
        for (name, check) in checks.into_iter().filter(|(name, _)| !excluded.contains(&name.as_str())) {
            let result = check().await;
            results.push((name, result));
        }
        results
    }
}

/// The answers of a server.
#[derive(Clone, Default)]
pub(crate) struct Endpoints {
    pub(crate) healthz: Option<Checks>,
    pub(crate) readyz: Option<Checks>,
    pub(crate) metrics: Option<Metrics>,
}

/// Serves until the future is dropped.
pub(crate) async fn serve(listener: TcpListener, endpoints: Endpoints) -> std::io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
        }
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // One connection failed, or too many files are open: both pass.
                tracing::debug!(%error, "could not accept a connection; retrying");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let endpoints = endpoints.clone();
        connections.spawn(converse(stream, endpoints));
    }
}

/// Answers on one connection until it is closed, or silent for too long: before its first request or after any.
async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, endpoints: Endpoints) {
    let service = service_fn(move |request| {
        let endpoints = endpoints.clone();
        async move { Ok::<_, Infallible>(endpoints.answer(&request).await) }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(SILENCE);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection ended");
    }
}

impl Endpoints {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n".to_owned());
        }
        if path == "/metrics"
            && let Some(metrics) = &self.metrics
        {
            let mut answer = Response::new(Full::from(metrics.encode()));
            answer
                .headers_mut()
                .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(metrics::CONTENT_TYPE));
            return answer;
        }
        for (name, checks) in [("healthz", &self.healthz), ("readyz", &self.readyz)] {
            let Some(checks) = checks else { continue };
            let Some(rest) = path.strip_prefix('/').and_then(|path| path.strip_prefix(name)) else {
                continue;
            };
            match rest.strip_prefix('/') {
                None if rest.is_empty() => return check(name, checks, None, request.uri().query()).await,
                Some(only) => return check(name, checks, Some(only), request.uri().query()).await,
                None => {}
            }
        }
        text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
    }
}

/// As Kubernetes' own health endpoints answer.
async fn check(
    name: &str,
    checks: &Checks,
    only: Option<&str>,
    query: Option<&str>,
) -> Response<Full<Bytes>> {
    let parameters =
        || query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let excluded: Vec<&str> =
        parameters().filter(|(key, _)| *key == "exclude").map(|(_, value)| value).collect();
    let verbose = parameters().any(|(key, _)| key == "verbose");
    let only = only.filter(|only| !only.is_empty());
    let results = checks.run(only, &excluded).await;
    if only.is_some() && results.is_empty() {
        return text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned());
    }
    let failed = results.iter().any(|(_, result)| result.is_err());
    if !failed && !verbose {
        return text(StatusCode::OK, "ok".to_owned());
    }
    let mut body = String::new();
    for (check, result) in &results {
        match result {
            Ok(()) => body.push_str(&format!("[+]{check} ok\n")),
            Err(reason) => {
                tracing::debug!(check, reason, "health check failed");
                body.push_str(&format!("[-]{check} failed: reason withheld\n"));
            }
        }
    }
    for check in &excluded {
        body.push_str(&format!("[+]{check} excluded: ok\n"));
    }
    body.push_str(&format!("{name} check {}\n", if failed { "failed" } else { "passed" }));
    text(if failed { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK }, body)
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(body));
    *answer.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn body(answer: Response<Full<Bytes>>) -> (u16, String) {
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn checks_answer_as_kubernetes_does() {
        let checks = Checks::default();
        checks.add("ping", || async { Ok(()) });
        assert_eq!(body(check("healthz", &checks, None, None).await).await, (200, "ok".into()));
        checks.add("store", || async { Err("secret detail".into()) });
        let failed = "[+]ping ok\n[-]store failed: reason withheld\nhealthz check failed\n";
        assert_eq!(body(check("healthz", &checks, None, None).await).await, (500, failed.into()));
        let (status, text) = body(check("healthz", &checks, None, Some("exclude=store&verbose")).await).await;
        assert_eq!(
            (status, text.as_str()),
            (200, "[+]ping ok\n[+]store excluded: ok\nhealthz check passed\n")
        );
        assert_eq!(body(check("healthz", &checks, Some("ping"), None).await).await.0, 200);
        assert_eq!(body(check("healthz", &checks, Some("none"), None).await).await.0, 404);
    }

    /// The bytes that a client reads until the server closes the connection, and how long that took.
    async fn until_closed(request: &str) -> (String, Duration) {
        let (mut client, server) = tokio::io::duplex(4096);
        let began = tokio::time::Instant::now();
        let speak = async {
            client.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let closed = async { tokio::join!(converse(server, Endpoints::default()), speak) };
        let (_, answer) = tokio::time::timeout(10 * SILENCE, closed).await.expect("it is closed");
        (answer, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_closed() {
        let about = |time: Duration| time >= SILENCE && time < 2 * SILENCE;
        let (answer, time) = until_closed("").await;
        assert!(about(time), "nothing asked: {time:?} {answer}");
        let (answer, time) = until_closed("GET /healthz HTTP/1.1\r\nHost:").await;
        assert!(about(time), "half a question: {time:?} {answer}");
        let (answer, time) = until_closed("GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 404") && about(time), "after an answer: {time:?} {answer}");
    }
}
