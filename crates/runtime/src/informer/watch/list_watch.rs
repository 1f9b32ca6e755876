//! The seam between a reflector and a server: list a page, open a watch, both as bytes.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use super::target::Target;
use crate::informer::failure::WatchFailure;

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

/// Lists and watches one collection. [`crate::informer::ClientListerWatcher`] does it through a `kube::Client`; tests write
/// their own.
pub trait ListerWatcher: Send + Sync + 'static {
    /// One page, as the server's JSON. It comes in pieces, so that a large one that is long in coming can be told from
    /// one that does not come.
    fn list(&self, request: ListRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>>;

    /// Opens a watch.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>>;

    /// The path that it asks for, as its log lines name it.
    fn path(&self) -> Option<&str> {
        None
    }

    /// Whether it asks for metadata alone. Then no more is kept of an object, whatever the server sends.
    fn metadata_only(&self) -> bool {
        false
    }
}

/// Makes the lister-watcher for one target and namespace (`None` for all).
pub type Connect = Arc<dyn Fn(&Target, Option<&str>) -> Arc<dyn ListerWatcher> + Send + Sync>;
