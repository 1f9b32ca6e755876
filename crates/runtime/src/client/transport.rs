//! One request on its way: the check of the lease, the deadline, the server's back-pressure, the answer.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use setpoint_api::status::{Reason, Status};
use tokio::time::Instant;

use crate::error::{ApiError, ClientError};
use crate::leader_clock::LeaderClock;
use crate::metrics::ClientMetrics;

/// The default deadline of one call, retries included.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a request is sent again because the server asked for it with `Retry-After`.
pub const MAX_RETRIES: u32 = 10;
/// The request header that says which reconcile sent a request.
pub const RECONCILE_ID: &str = "x-reconcile-id";
/// The request header that lists the resourceVersions of the writes that woke the reconcile, separated by commas.
pub const RECONCILE_CAUSES: &str = "x-reconcile-causes";
/// How much of an answer that is no Status becomes the error's message.
const MESSAGE_BYTES: usize = 512;

/// Sends requests of one manager.
#[derive(Clone)]
pub(crate) struct Transport {
    client: kube::Client,
    metrics: Arc<ClientMetrics>,
    timeout: Duration,
    user_agent: HeaderValue,
}

/// The request to send.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
    /// Which reconcile sends it.
    pub(crate) sender: Option<Sender>,
    pub(crate) doubt: Doubt,
}

/// The reconcile that sends a request.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) reconcile_id: Arc<str>,
    /// The resourceVersions of the writes that woke it, as the header lists them.
    pub(crate) causes: Arc<str>,
}

/// Whether the server may have acted on a request without saying so: its answer was lost, or its future was dropped.
#[derive(Default)]
pub(crate) struct Doubt(AtomicBool);

impl Doubt {
    pub(crate) fn remains(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, doubt: bool) {
        self.0.store(doubt, Ordering::Relaxed);
    }
}

impl Transport {
    pub(crate) fn new(
        client: kube::Client,
        metrics: Arc<ClientMetrics>,
        timeout: Duration,
        user_agent: HeaderValue,
    ) -> Self {
        Transport { client, metrics, timeout, user_agent }
    }

    pub(crate) fn kube(&self) -> &kube::Client {
        &self.client
    }

    /// Sends a call and gives the body of a successful answer.
    pub(crate) async fn call(&self, leader: Option<&LeaderClock>, call: &Call) -> Result<Bytes, ClientError> {
        let begun = Instant::now();
        let left = || self.timeout.saturating_sub(begun.elapsed());
        let timeout = || ClientError::Timeout {
            verb: call.method.to_string(),
            path: call.path.clone(),
            after: self.timeout,
        };
        for attempt in 0.. {
            // An earlier attempt may have been acted on, whatever becomes of this one.
            let doubt = call.doubt.remains();
            let sent = tokio::time::timeout(left(), self.send_once(leader, call));
            let (status, retry_after, body) = sent.await.map_err(|_| timeout())?.inspect_err(|error| {
                if was_refused(error) {
                    call.doubt.set(doubt);
                }
            })?;
            if status.is_success() {
                call.doubt.set(false);
                return Ok(body);
            }
            let error = api_error(call, status, &body);
            if says_that_nothing_was_done(&error) {
                call.doubt.set(doubt);
            }
            let busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
            match retry_after.filter(|_| busy && attempt < MAX_RETRIES) {
                Some(wait) if wait < left() => {
                    self.metrics.retried(status, &call.method);
                    tokio::time::sleep(wait).await;
                }
                _ => return Err(error),
            }
        }
        unreachable!("the loop returns at the last attempt")
    }

    /// Sends a call at most once, whatever the server asks for, without a lease. The caller has the deadline.
    pub(crate) async fn call_once(&self, call: &Call) -> Result<Bytes, ClientError> {
        let (status, _, body) = self.send_once(None, call).await?;
        if status.is_success() { Ok(body) } else { Err(api_error(call, status, &body)) }
    }

    async fn send_once(
        &self,
        leader: Option<&LeaderClock>,
        call: &Call,
    ) -> Result<(StatusCode, Option<Duration>, Bytes), ClientError> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(&call.path)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, &self.user_agent);
        if !call.content_type.is_empty() {
            request = request.header(CONTENT_TYPE, call.content_type);
        }
        if let Some(Sender { reconcile_id, causes }) = &call.sender {
            request = request.header(RECONCILE_ID, &**reconcile_id);
            if !causes.is_empty() && call.method != Method::GET {
                request = request.header(RECONCILE_CAUSES, &**causes);
            }
        }
        let transport = |source: Box<dyn std::error::Error + Send + Sync>| ClientError::Transport {
            verb: call.method.to_string(),
            path: call.path.clone(),
            source,
        };
        let request =
            request.body(Body::from(call.body.to_vec())).map_err(|error| transport(error.into()))?;
        // A process that slept past its lease may wake up anywhere in here, also while a connection is made or a token is
        // fetched: the request goes no further then. Boxed, because every future that writes would hold the space for it.
        let mut sending = Box::pin(self.client.send(request));
        let answer = std::future::poll_fn(|context| match leader {
            Some(leader) if !leader.holds() => Poll::Ready(Err(ClientError::NotLeader)),
            _ => {
                call.doubt.set(true);
                sending.as_mut().poll(context).map(Ok)
            }
        })
        .await?;
        self.metrics.answered(&call.method, answer.as_ref().ok());
        let (parts, body) = answer.map_err(|error| transport(error.into()))?.into_parts();
        let retry_after = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = body.collect().await.map_err(|error| transport(error.into()))?.to_bytes();
        Ok((parts.status, retry_after.map(Duration::from_secs), body))
    }
}

/// Whether no server took the connection, so that none can have acted.
fn was_refused(error: &ClientError) -> bool {
    let ClientError::Transport { source, .. } = error else { return false };
    let first: &(dyn std::error::Error + 'static) = source.as_ref();
    let mut causes = std::iter::successors(Some(first), |error| error.source());
    causes.any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        matches!(
            io,
            Some(ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
        )
    })
}

/// Whether a refusal is the server's last word. kube-apiserver may still commit a write that it calls timed out, and an
/// error of the server without a reason comes from etcd or from a proxy that lost the connection.
fn says_that_nothing_was_done(error: &ClientError) -> bool {
    let Some(status) = error.status() else { return false };
    status.code < 500 || !matches!(status.reason, Reason::Unknown | Reason::Timeout | Reason::ServerTimeout)
}

fn api_error(call: &Call, code: StatusCode, body: &[u8]) -> ClientError {
    let mut status = serde_json::from_slice::<Status>(body)
        .ok()
        .filter(|status| !status.message.is_empty())
        .unwrap_or_else(|| {
            let text = String::from_utf8_lossy(&body[..body.len().min(MESSAGE_BYTES)]);
            // An object that does not exist is answered with a Status.
            let hint = match code {
                StatusCode::NOT_FOUND => "; is the definition of the kind installed?",
                _ => "",
            };
            let text = match text.trim() {
                "" => code.canonical_reason().unwrap_or_default(),
                text => text,
            };
            Status::failure(code.as_u16(), Reason::Unknown, format!("{text}{hint}"))
        });
    if status.code == 0 {
        status.code = code.as_u16();
    }
    let path = call.path.split('?').next().unwrap_or_default().to_owned();
    ClientError::Api(Box::new(ApiError { verb: call.method.to_string(), path, status }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use std::convert::Infallible;

    /// A process that is stopped while its request waits for a connection, and goes on when its lease is over.
    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_not_sent_yet_is_not_sent_after_the_lease() {
        let sent = Arc::new(AtomicBool::new(false));
        let server = Arc::clone(&sent);
        let service = tower::service_fn(move |_: Request<Body>| {
            let server = Arc::clone(&server);
            async move {
                tokio::time::sleep(Duration::from_secs(5)).await;
                server.store(true, Ordering::SeqCst);
                Ok::<_, Infallible>(http::Response::new(Body::from(b"{}".to_vec())))
            }
        });
        let client = kube::Client::new(service, "default");
        let metrics = Arc::new(Metrics::default().client());
        let agent = HeaderValue::from_static("test");
        let transport = Transport::new(client, metrics, REQUEST_TIMEOUT, agent);
        let leader = LeaderClock::new();
        let call = Call {
            method: Method::POST,
            path: "/api/v1/namespaces/default/configmaps".to_owned(),
            content_type: "application/json",
            body: Bytes::from_static(b"{}"),
            sender: None,
            doubt: Doubt::default(),
        };
        leader.extend(Instant::now() + Duration::from_secs(3));
        let refused = transport.call(Some(&leader), &call).await.unwrap_err();
        assert!(matches!(refused, ClientError::NotLeader), "{refused}");
        assert!(!sent.load(Ordering::SeqCst));
        let leader = LeaderClock::new();
        leader.extend(Instant::now() + Duration::from_secs(6));
        transport.call(Some(&leader), &call).await.unwrap();
        assert!(sent.load(Ordering::SeqCst));
    }
}
