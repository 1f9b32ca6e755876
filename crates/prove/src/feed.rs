//! One watch, event by event, so that each event can be late and each is seen.

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::Response;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt, StreamBody};
use kube::client::Body;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::resource::ObjectName;
use crate::traffic::{Call, Delivered};
use crate::wire::Wire;

/// The error type of a tower service.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of an answer.
pub type Answer = UnsyncBoxBody<Bytes, BoxError>;

/// An event, as far as it matters here.
#[derive(Deserialize)]
struct Read {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    object: ReadObject,
}

#[derive(Default, Deserialize)]
struct ReadObject {
    #[serde(default)]
    metadata: ReadMetadata,
}

#[derive(Default, Deserialize)]
struct ReadMetadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default, rename = "resourceVersion")]
    resource_version: String,
}

struct Feed {
    wire: Wire,
    incarnation: u32,
    resource: String,
    /// The number of the watch, if it shows all objects.
    number: Option<usize>,
    began: Instant,
    frames: BodyDataStream<Body>,
    buffer: BytesMut,
    /// Whether an event was handed over and no more was asked for.
    unread: bool,
    ended: bool,
}

impl Drop for Feed {
    fn drop(&mut self) {
        if self.unread {
            self.wire.unread(self.incarnation, false);
        }
        self.wire.watch_ends(self.number);
    }
}

/// Returns the answer to a watch, with each event in its own frame and under the control of the wire.
pub fn gated(
    wire: Wire,
    incarnation: u32,
    call: &Call,
    query: &str,
    response: Response<Body>,
) -> Response<Answer> {
    let (parts, body) = response.into_parts();
    let number = wire.watch_opens(incarnation, call, query);
    let feed = Feed {
        wire,
        incarnation,
        resource: call.object.resource.clone(),
        number,
        began: Instant::now(),
        frames: BodyDataStream::new(body),
        buffer: BytesMut::new(),
        unread: false,
        ended: false,
    };
    let frames = futures::stream::unfold(feed, |mut feed| async move {
        let frame = feed.next().await?;
        Some((frame.map(Frame::data), feed))
    });
    Response::from_parts(parts, StreamBody::new(frames).boxed_unsync())
}

impl Feed {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if std::mem::take(&mut self.unread) {
            self.wire.unread(self.incarnation, false);
        }
        if self.ended {
            return None;
        }
        let (wire, began) = (self.wire.clone(), self.began);
        let line = tokio::select! {
            biased;
            () = wire.server_ends(began) => return None,
            line = self.line() => line?,
        };
        let line = match line {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        let Ok(read) = serde_json::from_slice::<Read>(&line) else {
            self.wire.watch_ends(self.number);
            return Some(Ok(line));
        };
        let event = matches!(read.kind.as_str(), "ADDED" | "MODIFIED" | "DELETED");
        if event && self.wire.about_to_deliver(&self.resource) {
            return None;
        }
        self.wire.released(&self.resource).await;
        self.wire.sighted(self.incarnation, self.began).await;
        self.wire.connected(self.incarnation).await;
        if self.wire.expired(&self.resource, self.began) {
            self.ended = true;
            return Some(Ok(gone()));
        }
        self.wire.delay().await;
        if !self.wire.runs(self.incarnation) {
            std::future::pending::<()>().await;
        }
        // The first events of a watch are old. Each is a lower bound of what the watch has shown.
        if let Ok(revision) = read.object.metadata.resource_version.parse() {
            self.wire.watch_shows(self.number, revision);
        }
        if event {
            self.hand_over(read);
        }
        Some(Ok(line))
    }

    fn hand_over(&mut self, read: Read) {
        let metadata = read.object.metadata;
        let object = ObjectName {
            resource: self.resource.clone(),
            namespace: metadata.namespace,
            name: metadata.name,
        };
        let delivered = Delivered { at: Default::default(), incarnation: 0, kind: read.kind, object };
        self.wire.deliver(self.incarnation, delivered);
        self.unread = true;
        self.wire.unread(self.incarnation, true);
    }

    /// Returns the next line with its end.
    async fn line(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Some(Ok(self.buffer.split_to(end + 1).freeze()));
            }
            match self.frames.next().await {
                Some(Ok(frame)) => self.buffer.extend_from_slice(&frame),
                Some(Err(error)) => return Some(Err(error.into())),
                None if self.buffer.is_empty() => return None,
                None => return Some(Ok(self.buffer.split().freeze())),
            }
        }
    }
}

/// The event with which a server ends a watch from a version that it does not remember.
fn gone() -> Bytes {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "metadata": {},
        "code": 410, "reason": "Expired", "message": "too old resource version",
    });
    format!("{}\n", json!({"type": "ERROR", "object": status})).into()
}
