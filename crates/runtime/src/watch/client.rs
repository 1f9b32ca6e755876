//! Lists and watches through a `kube::Client`, as bytes.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, RETRY_AFTER};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;

use super::list_watch::{ListRequest, ListerWatcher, WatchFailure, WatchRequest, WatchStream};
use super::target::Target;

/// Longest failure answer that is read; the rest of it is not.
const LONGEST_FAILURE: usize = 64 * 1024;

/// Lists and watches one collection through a `kube::Client`.
///
/// Each list and each watch is one request. Over HTTP/1.1, as kube's own client speaks it, an open watch takes a
/// connection of its own. Compression is refused for watches: servers from 1.37 on would compress event by event.
pub struct ClientListerWatcher {
    client: Client,
    path: String,
    selectors: Query,
    metadata_only: bool,
}

impl ClientListerWatcher {
    /// For `target` in one namespace, or in all.
    pub fn new(client: Client, target: &Target, namespace: Option<&str>) -> Self {
        let selectors = Query::default()
            .with("labelSelector", target.labels.as_deref())
            .with("fieldSelector", target.fields.as_deref());
        ClientListerWatcher {
            client,
            path: target.path(namespace),
            selectors,
            metadata_only: target.metadata_only,
        }
    }

    fn request(&self, query: &Query, kind: &str) -> Result<http::Request<Body>, WatchFailure> {
        let accept = if self.metadata_only {
            format!("application/json;as={kind};g=meta.k8s.io;v=v1")
        } else {
            "application/json".to_owned()
        };
        let uri = format!("{}?{}", self.path, query.0);
        let request = http::Request::get(uri).header(ACCEPT, accept).header(ACCEPT_ENCODING, "identity");
        request.body(Body::empty()).map_err(|error| WatchFailure::Transport(error.to_string()))
    }
}

impl ListerWatcher for ClientListerWatcher {
    fn list(&self, request: ListRequest) -> BoxFuture<'static, Result<Bytes, WatchFailure>> {
        // A continued list goes on at the version it began with, which its token knows.
        let version = request.resource_version.filter(|_| request.continue_token.is_none());
        let query = self.selectors.clone();
        let query = query
            .with("limit", request.limit.map(|limit| limit.to_string()).as_deref())
            .with("continue", request.continue_token.as_deref())
            .with("resourceVersion", version.as_deref());
        let request = self.request(&query, "PartialObjectMetadataList");
        let client = self.client.clone();
        async move {
            let body = send(client, request?).await?;
            body.collect().await.map(http_body_util::Collected::to_bytes).map_err(transport)
        }
        .boxed()
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        let initial = request.send_initial_events;
        let query = self.selectors.clone();
        let query = query
            .with("watch", Some("true"))
            .with("allowWatchBookmarks", Some("true"))
            .with("timeoutSeconds", Some(&request.timeout_seconds.to_string()))
            .with("resourceVersion", request.resource_version.as_deref())
            .with("sendInitialEvents", initial.then_some("true"))
            .with("resourceVersionMatch", initial.then_some("NotOlderThan"));
        let request = self.request(&query, "PartialObjectMetadata");
        let client = self.client.clone();
        async move {
            let body = send(client, request?).await?;
            Ok(body.into_data_stream().map_err(transport).boxed())
        }
        .boxed()
    }
}

async fn send(client: Client, request: http::Request<Body>) -> Result<Body, WatchFailure> {
    let response = client
        .send(request)
        .await
        .map_err(|error| if is_refused(&error) { WatchFailure::Refused } else { transport(error) })?;
    let status = response.status();
    let encoding = response.headers().get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity");
    if let (true, Some(encoding)) = (status.is_success(), encoding) {
        return Err(WatchFailure::Transport(format!(
            "the answer is encoded as {encoding:?}, which was refused"
        )));
    }
    if status.is_success() {
        return Ok(response.into_body());
    }
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let retry_after = retry_after.map(Duration::from_secs);
    let body = http_body_util::Limited::new(response.into_body(), LONGEST_FAILURE).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Err(WatchFailure::from_status(Some(status.as_u16()), retry_after, &body))
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

/// The query part of a URI.
#[derive(Clone, Default)]
struct Query(String);

impl Query {
    /// Appends `name=value`, escaped, if there is a value.
    fn with(mut self, name: &str, value: Option<&str>) -> Self {
        let Some(value) = value else { return self };
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.0.push(char::from(byte));
            } else {
                self.0.push_str(&format!("%{byte:02X}"));
            }
        }
        self
    }
}
