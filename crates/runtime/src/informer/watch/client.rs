//! Lists and watches through a `kube::Client`, as bytes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;

use super::gunzip::Gunzip;
use super::list_watch::{ListRequest, ListerWatcher, WatchRequest, WatchStream};
use super::target::Target;
use crate::informer::failure::WatchFailure;
use crate::request_path::Parameters;

/// Longest failure answer that is read; the rest of it is not.
const LONGEST_FAILURE: usize = 64 * 1024;

/// Observes the answer to a request, or `None` if there was none.
pub(crate) type OnAnswer = Arc<dyn Fn(Option<&Response<Body>>) + Send + Sync>;

/// Lists and watches one collection through a `kube::Client`.
///
/// Each list and each watch is one request. Over HTTP/1.1, as kube's own client speaks it, an open watch takes a
/// connection of its own. Compression is refused, because on a fast network it costs more than it saves; a server that
/// compresses nevertheless is understood.
pub struct ClientListerWatcher {
    client: Client,
    path: String,
    selectors: Parameters,
    metadata_only: bool,
    on_answer: Option<OnAnswer>,
    user_agent: Option<HeaderValue>,
}

impl ClientListerWatcher {
    /// For `target` in one namespace, or in all.
    pub fn new(client: Client, target: &Target, namespace: Option<&str>) -> Self {
        let mut selectors = Parameters::default();
        selectors.push_some("labelSelector", target.labels.as_deref());
        selectors.push_some("fieldSelector", target.fields.as_deref());
        ClientListerWatcher {
            client,
            path: target.path(namespace),
            selectors,
            metadata_only: target.metadata_only,
            on_answer: None,
            user_agent: None,
        }
    }

    /// Calls `on_answer` after each request, so that its requests are counted with those of the client.
    pub(crate) fn observed(mut self, on_answer: OnAnswer) -> Self {
        self.on_answer = Some(on_answer);
        self
    }

    /// Names the program that asks.
    pub(crate) fn user_agent(mut self, user_agent: HeaderValue) -> Self {
        self.user_agent = Some(user_agent);
        self
    }

    /// Sends a request, whatever becomes of this.
    fn send(
        &self,
        request: Result<http::Request<Body>, WatchFailure>,
    ) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        let (client, on_answer) = (self.client.clone(), self.on_answer.clone());
        async move {
            let answer = client.send(request?).await;
            if let Some(on_answer) = on_answer {
                on_answer(answer.as_ref().ok());
            }
            read(answer).await
        }
        .boxed()
    }

    fn request(&self, query: Parameters, kind: &str) -> Result<http::Request<Body>, WatchFailure> {
        let accept = if self.metadata_only {
            // A server that does not know this form sends whole objects rather than nothing.
            format!("application/json;as={kind};g=meta.k8s.io;v=v1,application/json")
        } else {
            "application/json".to_owned()
        };
        let mut uri = self.path.clone();
        query.append_to(&mut uri);
        let mut request = http::Request::get(uri).header(ACCEPT, accept).header(ACCEPT_ENCODING, "identity");
        if let Some(user_agent) = &self.user_agent {
            request = request.header(USER_AGENT, user_agent);
        }
        request.body(Body::empty()).map_err(|error| WatchFailure::Transport(error.to_string()))
    }
}

impl ListerWatcher for ClientListerWatcher {
    fn list(&self, request: ListRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        // A continued list goes on at the version it began with, which its token knows.
        let version = request.resource_version.filter(|_| request.continue_token.is_none());
        let mut query = self.selectors.clone();
        query.push_some("limit", request.limit.map(|limit| limit.to_string()).as_deref());
        query.push_some("continue", request.continue_token.as_deref());
        query.push_some("resourceVersion", version.as_deref());
        self.send(self.request(query, "PartialObjectMetadataList"))
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        let initial = request.send_initial_events;
        let mut query = self.selectors.clone();
        query.push("watch", "true");
        query.push("allowWatchBookmarks", "true");
        query.push("timeoutSeconds", &request.timeout_seconds.to_string());
        query.push_some("resourceVersion", request.resource_version.as_deref());
        query.push_some("sendInitialEvents", initial.then_some("true"));
        query.push_some("resourceVersionMatch", initial.then_some("NotOlderThan"));
        self.send(self.request(query, "PartialObjectMetadata"))
    }

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }

    fn metadata_only(&self) -> bool {
        self.metadata_only
    }
}

async fn read(answer: Result<Response<Body>, kube::Error>) -> Result<WatchStream, WatchFailure> {
    let response =
        answer.map_err(|error| if is_refused(&error) { WatchFailure::Refused } else { transport(error) })?;
    let status = response.status();
    if status.is_success() {
        let encoding = response.headers().get(CONTENT_ENCODING).map(http::HeaderValue::as_bytes);
        return match encoding {
            None | Some(b"identity") => {
                Ok(response.into_body().into_data_stream().map_err(transport).boxed())
            }
            Some(b"gzip") => Ok(unpacked(response.into_body())),
            Some(other) => Err(WatchFailure::Transport(format!(
                "the answer is encoded as {}, which was refused",
                String::from_utf8_lossy(other)
            ))),
        };
    }
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let retry_after = retry_after.map(Duration::from_secs);
    let body = http_body_util::Limited::new(response.into_body(), LONGEST_FAILURE).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Err(WatchFailure::from_status(Some(status.as_u16()), retry_after, &body))
}

fn unpacked(body: Body) -> WatchStream {
    let mut gunzip = Gunzip::default();
    let unpack = move |chunk: Result<Bytes, _>| gunzip.unpack(&chunk.map_err(transport)?).map_err(transport);
    body.into_data_stream().map(unpack).boxed()
}

fn transport(error: impl std::error::Error) -> WatchFailure {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    WatchFailure::Transport(text)
}

fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}
