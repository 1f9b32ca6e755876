//! Health and readiness checks, and the small HTTP server that answers for them and for metrics.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::metrics::{self, Metrics};

/// How many connections the server keeps open; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 64;

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

/// What a server answers.
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
                tracing::debug!(%error, "accepting a connection failed");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let endpoints = endpoints.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let endpoints = endpoints.clone();
                async move { Ok::<_, Infallible>(endpoints.answer(&request).await) }
            });
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            if let Err(error) = server.http1_only().serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "a connection ended");
            }
        });
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
}
