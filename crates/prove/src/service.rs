//! The tower layer between the operator and the server: it is where faults happen.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::{Value, json};

use crate::bystander::{self, Mark};
use crate::feed::{self, Answer, BoxError};
use crate::plan::Fault;
use crate::traffic::Call;
use crate::wire::{Signal, Wire};

/// The clients behind the operator's client.
#[derive(Clone)]
struct Layer {
    wire: Wire,
    incarnation: u32,
    inner: kube::Client,
    /// A client of somebody else, for concurrent writes.
    other: kube::Client,
}

/// Returns the client of a process of the operator.
pub fn client(wire: &Wire, incarnation: u32, inner: kube::Client, other: kube::Client) -> kube::Client {
    let namespace = inner.default_namespace().to_owned();
    let layer = Layer { wire: wire.clone(), incarnation, inner, other };
    let service = tower::service_fn(move |request: Request<Body>| {
        let layer = layer.clone();
        async move { layer.pass(request).await }
    });
    kube::Client::new(service, namespace)
}

impl Layer {
    async fn pass(&self, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        self.wire.alive(self.incarnation).await;
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let Some(call) = Call::of(&parts, &body) else {
            let response = self.inner.send(Request::from_parts(parts, Body::from(body))).await?;
            return Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()));
        };
        let flight = self.wire.take_off(self.incarnation);
        let (place, fault) = self.wire.note(self.incarnation, &call, body.clone());
        self.wire.travel().await;
        self.wire.delay().await;
        self.wire.connected(self.incarnation).await;
        if self.wire.is_down() {
            return Err(refused());
        }
        if call.watch {
            drop(flight);
            return self.watch(call, Request::from_parts(parts, Body::from(body))).await;
        }
        let (refused, mark) = self.before(&fault, &call).await?;
        if let Some(refused) = refused {
            return Ok(refused);
        }
        if call.verb == "GET" {
            self.look_back(&call, &mut parts);
        }
        let response = self.inner.send(Request::from_parts(parts, Body::from(body))).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(BoxError::from)?.to_bytes();
        self.wire.answered(place, parts.status.as_u16());
        match fault {
            Some(
                Fault::CrashAfter { .. }
                | Fault::CrashTwice { .. }
                | Fault::StaleCrash { .. }
                | Fault::LeaderChange { .. },
            ) => self.crash().await,
            Some(Fault::LeaderCutOff { .. }) => self.wire.cut_off(self.incarnation),
            Some(Fault::Replacement { .. }) => self.wire.give(Signal::Replace(self.incarnation)),
            Some(Fault::LostAnswer { .. }) => return Err(reset()),
            Some(Fault::NextStep { .. }) => {
                self.wire.give(Signal::NextStep);
                self.wire.next_step_is_done().await;
            }
            Some(Fault::ServerRestart { .. }) => {
                self.wire.restart_server();
                return Err(reset());
            }
            Some(Fault::Bystander { .. }) if parts.status.is_success() && call.verb != "DELETE" => {
                if let Some(mark) = mark
                    && mark.is_gone(&self.other).await
                {
                    self.wire.lose(mark);
                }
            }
            _ => {}
        }
        self.wire.delay().await;
        self.wire.connected(self.incarnation).await;
        self.wire.alive(self.incarnation).await;
        drop(flight);
        Ok(Response::from_parts(parts, full(body)))
    }

    /// Does what a fault does before the server gets the request.
    async fn before(
        &self,
        fault: &Option<Fault>,
        call: &Call,
    ) -> Result<(Option<Response<Answer>>, Option<Mark>), BoxError> {
        match fault {
            Some(Fault::CrashBefore { .. }) => self.crash().await,
            Some(Fault::Reset { .. }) => Err(reset()),
            Some(Fault::Refuse { status, .. }) => Ok((Some(refusal(*status)?), None)),
            Some(Fault::Bystander { .. }) => Ok((None, Mark::put(&self.other, call).await)),
            Some(Fault::WebhookOutage { seconds, .. }) => {
                self.wire.webhooks_go_down(Duration::from_secs(*seconds));
                Ok((None, None))
            }
            Some(Fault::LeaderChange { stale: true, .. }) => {
                self.wire.blind_others(self.incarnation);
                Ok((None, None))
            }
            Some(Fault::SlowDeletion { .. }) => {
                if bystander::keep(&self.other, &call.path).await {
                    self.wire.keep(call.path.clone());
                }
                Ok((None, None))
            }
            _ => Ok((None, None)),
        }
    }

    /// Lets a list from the server's cache show an older state, as a cache that lags behind does.
    fn look_back(&self, call: &Call, parts: &mut http::request::Parts) {
        let query = parts.uri.query().unwrap_or_default();
        let from_cache = |pair: &str| pair == "resourceVersion=0";
        if !call.object.name.is_empty() || !query.split('&').any(from_cache) {
            return;
        }
        let Some(view) = self.wire.list_from_cache(&call.object.resource) else { return };
        let rest: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("resourceVersion")).collect();
        let exact = format!("resourceVersion={view}&resourceVersionMatch=Exact");
        let query = [rest.as_slice(), &[exact.as_str()]].concat().join("&");
        if let Ok(uri) = format!("{}?{query}", parts.uri.path()).parse() {
            parts.uri = uri;
        }
    }

    async fn watch(&self, call: Call, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let streams = request.uri().query().is_some_and(|query| query.contains("sendInitialEvents=true"));
        if streams && self.wire.lists_only() {
            return no_streaming();
        }
        self.wire.released(&call.object.resource).await;
        let query = request.uri().query().unwrap_or_default().to_owned();
        let response = self.inner.send(request).await?;
        if !response.status().is_success() {
            return Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()));
        }
        Ok(feed::gated(self.wire.clone(), self.incarnation, &call, &query, response))
    }

    async fn crash(&self) -> ! {
        self.wire.give(Signal::Crash(self.incarnation));
        std::future::pending().await
    }
}

fn reset() -> BoxError {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by peer").into()
}

fn refused() -> BoxError {
    std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused").into()
}

fn full(bytes: Bytes) -> Answer {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Answers as kube-apiserver does when it is overloaded (429) or fails (500).
fn refusal(code: u16) -> Result<Response<Answer>, BoxError> {
    let (reason, message) = match code {
        429 => ("TooManyRequests", "too many requests, please try again later"),
        _ => ("InternalError", "Internal error occurred: the store did not answer"),
    };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "metadata": {},
        "code": code, "reason": reason, "message": message, "details": {"retryAfterSeconds": 1},
    });
    answer(code, &status)
}

/// Answers as kube-apiserver does before 1.32, where the feature gate WatchList is off by default.
fn no_streaming() -> Result<Response<Answer>, BoxError> {
    let message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    let cause = json!({"reason": "FieldValueForbidden", "message": format!("Forbidden: {message}"), "field": "sendInitialEvents"});
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "metadata": {},
        "code": 422, "reason": "Invalid",
        "message": format!("ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: {message}"),
        "details": {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]},
    });
    answer(422, &status)
}

fn answer(code: u16, status: &Value) -> Result<Response<Answer>, BoxError> {
    let response = Response::builder()
        .status(code)
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::RETRY_AFTER, "1");
    Ok(response.body(full(status.to_string().into()))?)
}
