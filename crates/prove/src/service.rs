//! The tower layer between the operator and the server: it is where faults happen.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::json;

use crate::feed::{self, Answer, BoxError};
use crate::plan::Fault;
use crate::state::BYSTANDER;
use crate::traffic::Call;
use crate::wire::{Signal, Wire};

/// Virtual time of each request. Without it, two programs that undo each other's writes would stop the clock.
const LATENCY: Duration = Duration::from_millis(5);

/// The clients behind the operator's client.
#[derive(Clone)]
struct Layer {
    wire: Wire,
    incarnation: u32,
    inner: kube::Client,
    /// A client of somebody else, for concurrent writes.
    other: kube::Client,
}

/// Returns the client of the next incarnation of the operator.
pub fn client(wire: &Wire, inner: kube::Client, other: kube::Client) -> kube::Client {
    let namespace = inner.default_namespace().to_owned();
    let layer = Layer { wire: wire.clone(), incarnation: wire.next_incarnation(), inner, other };
    let service = tower::service_fn(move |request: Request<Body>| {
        let layer = layer.clone();
        async move { layer.pass(request).await }
    });
    kube::Client::new(service, namespace)
}

impl Layer {
    async fn pass(&self, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        self.wire.alive(self.incarnation).await;
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let Some(call) = Call::of(&parts, &body) else {
            let response = self.inner.send(Request::from_parts(parts, Body::from(body))).await?;
            return Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()));
        };
        let flight = self.wire.take_off(self.incarnation);
        let (place, fault) = self.wire.note(self.incarnation, &call, body.clone());
        tokio::time::sleep(LATENCY).await;
        self.wire.delay().await;
        if call.watch {
            drop(flight);
            return self.watch(call, Request::from_parts(parts, Body::from(body))).await;
        }
        if let Some(refused) = self.before(&fault, &call).await? {
            return Ok(refused);
        }
        let response = self.inner.send(Request::from_parts(parts, Body::from(body))).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(BoxError::from)?.to_bytes();
        self.wire.answered(place, parts.status.as_u16());
        match fault {
            Some(Fault::CrashAfter { .. }) => self.crash().await,
            Some(Fault::LostAnswer { .. }) => return Err(reset()),
            Some(Fault::NextStep { .. }) => self.wire.give(Signal::NextStep),
            _ => {}
        }
        self.wire.delay().await;
        self.wire.alive(self.incarnation).await;
        drop(flight);
        Ok(Response::from_parts(parts, full(body)))
    }

    /// Does what a fault does before the server gets the request.
    async fn before(&self, fault: &Option<Fault>, call: &Call) -> Result<Option<Response<Answer>>, BoxError> {
        match fault {
            Some(Fault::CrashBefore { .. }) => self.crash().await,
            Some(Fault::Reset { .. }) => Err(reset()),
            Some(Fault::Refuse { status, .. }) => Ok(Some(refusal(*status)?)),
            Some(Fault::Bystander { .. }) => {
                annotate(&self.other, call).await;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    async fn watch(&self, call: Call, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        self.wire.released(&call.object.resource).await;
        let response = self.inner.send(request).await?;
        if !response.status().is_success() {
            return Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()));
        }
        Ok(feed::gated(self.wire.clone(), self.incarnation, call.object.resource, response))
    }

    async fn crash(&self) -> ! {
        self.wire.give(Signal::Crash);
        std::future::pending().await
    }
}

/// Annotates the object of a write in the name of somebody else. An object that is not there stays so.
async fn annotate(client: &kube::Client, call: &Call) {
    let Some(path) = object_path(call) else { return };
    let patch = json!({"metadata": {"annotations": {BYSTANDER: "1"}}}).to_string();
    let request = Request::patch(format!("{path}?fieldManager=bystander"))
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(Body::from(patch.into_bytes()));
    if let Ok(request) = request {
        // The object may be gone: then there is no concurrent write, and the fault changes nothing.
        let _ = client.send(request).await;
    }
}

/// Returns the path of an object in the version that the call used.
fn object_path(call: &Call) -> Option<String> {
    (!call.object.name.is_empty() && call.verb != "POST").then(|| call.path.clone())
}

fn reset() -> BoxError {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by peer").into()
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
    let response = Response::builder()
        .status(code)
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::RETRY_AFTER, "1");
    Ok(response.body(full(status.to_string().into()))?)
}
