//! The seam between a reflector and a server: list a page, open a watch, both as bytes.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListRequest {
    /// `resourceVersion`; `None` asks for the newest state.
    pub resource_version: Option<String>,
    /// `limit`; `None` asks for everything at once.
    pub limit: Option<u32>,
    /// `continue` of the page before.
    pub continue_token: Option<String>,
}

/// One watch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchRequest {
    /// `resourceVersion`; `None` leaves it out.
    pub resource_version: Option<String>,
    /// `sendInitialEvents=true` with `resourceVersionMatch=NotOlderThan`: the state first, then changes.
    pub send_initial_events: bool,
    /// `timeoutSeconds`: the server ends the watch after this time.
    pub timeout_seconds: u32,
}

/// The body of an answer, cut anywhere: lines of JSON for a watch, one JSON text for a page of a list.
pub type WatchStream = BoxStream<'static, Result<Bytes, WatchFailure>>;

/// Lists and watches one collection. [`crate::ClientListerWatcher`] does it through a `kube::Client`; tests write
/// their own.
pub trait ListerWatcher: Send + Sync + 'static {
    /// One page, as the server's JSON. It comes in pieces, so that a large one that is long in coming can be told from
    /// one that does not come.
    fn list(&self, request: ListRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>>;

    /// Opens a watch.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>>;

    /// Whether it asks for metadata alone. Then no more is kept of an object, whatever the server sends.
    fn metadata_only(&self) -> bool {
        false
    }
}

/// Why a list or a watch failed, as far as a reflector must tell apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchFailure {
    /// 410: the revision is no longer kept.
    #[error("the resourceVersion is too old: {0}")]
    Expired(String),
    /// The revision lies in the server's future.
    #[error("the resourceVersion is too large: {0}")]
    TooLarge(String),
    /// 429: the server has too much to do.
    #[error("the server asks to wait")]
    TooManyRequests {
        /// `Retry-After`, if it was sent.
        retry_after: Option<Duration>,
    },
    /// Nobody listens.
    #[error("the connection was refused")]
    Refused,
    /// 500 with reason InternalError.
    #[error("the server failed: {0}")]
    Internal(String),
    /// Any other answer of the server.
    #[error("the server answered {code} {reason}: {message}")]
    Status {
        /// The HTTP status.
        code: u16,
        /// The Status object's reason.
        reason: String,
        /// The Status object's message.
        message: String,
    },
    /// No answer, or none that can be read.
    #[error("{0}")]
    Transport(String),
    /// Our own deadline passed.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
}

impl WatchFailure {
    /// Whether both have one cause, as far as can be told: texts also say which request it was.
    pub(crate) fn is_like(&self, other: &WatchFailure) -> bool {
        match (self, other) {
            (
                WatchFailure::Status { code, reason, .. },
                WatchFailure::Status { code: other_code, reason: other_reason, .. },
            ) => code == other_code && reason == other_reason,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}
