//! The server: its state, and what modules of all layers do with it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use setpoint_store::{Store, WriteError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::configured::Configured;
use crate::error::{ApiError, Result};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::origin::{Origin, Origins};
use crate::protobuf_cache::ProtobufCache;
use crate::registry::Registry;
use crate::request_limits::Limits;

/// The time that a read waits for a future version.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// An API server. Clones are handles to the same one.
#[derive(Clone)]
pub struct Server(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) registry: Registry,
    pub(crate) webhooks: Configured,
    /// The memory for webhooks' answers.
    pub(crate) webhook_room: Arc<Semaphore>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) discovery: crate::registry::discovered::Cache,
    pub(crate) protobuf_cache: ProtobufCache,
    pub(crate) origins: Origins,
    /// The time at which the server started.
    pub(crate) started: jiff::Timestamp,
    /// The address that the server listens on, as the Service `kubernetes` names it.
    pub(crate) advertised: OnceLock<SocketAddr>,
    /// The authority of client certificates, as PEM.
    pub(crate) client_authority: OnceLock<Arc<str>>,
    /// Whether the store has failed to write for good.
    pub(crate) write_failed: AtomicBool,
    /// Relayed streams and background tasks. They end with the server.
    pub(crate) sessions: Mutex<JoinSet<()>>,
}

impl Server {
    /// The store of the server.
    pub fn store(&self) -> &Store {
        &self.0.options.store
    }

    /// The options with which the server started.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// The origin of the write that made a resourceVersion, while it is remembered.
    pub fn origin(&self, revision: u64) -> Option<Arc<Origin>> {
        self.0.origins.get(revision)
    }

    /// Waits briefly for a version that a client saw elsewhere.
    pub(crate) async fn wait_for(&self, revision: u64) -> Result<()> {
        let store = &self.0.options.store;
        if store.revision() >= revision {
            return Ok(());
        }
        match tokio::time::timeout(FUTURE_WAIT, store.reached(revision)).await {
            Ok(()) => {
                // Requests that waited together must not all answer at once.
                crate::unsent::room().await;
                Ok(())
            }
            Err(_) => Err(ApiError::future_version(revision, store.revision())),
        }
    }

    /// Runs a future until it or the server ends.
    pub(crate) fn own(&self, session: impl Future<Output = ()> + Send + 'static) {
        let mut sessions = self.0.sessions.lock().expect("no holder of this lock panics");
        while sessions.try_join_next().is_some() {}
        sessions.spawn(session);
    }

    /// Whether the store still takes writes.
    pub(crate) fn is_writable(&self) -> bool {
        !self.0.write_failed.load(Ordering::Relaxed)
    }

    /// Remembers that the store has failed for good, and makes the answer.
    pub(crate) fn write_failed(&self, error: WriteError) -> ApiError {
        if matches!(error, WriteError::Failed(_)) {
            self.0.write_failed.store(true, Ordering::Relaxed);
        }
        error.into()
    }

    /// Reloads the served resources after a change of a definition, before the writer gets the answer.
    pub(crate) fn definitions_changed(&self) {
        self.0.registry.reload(&self.0.options.store.snapshot());
    }

    /// Reloads webhooks and policies after a change of a configuration, before the writer gets the answer.
    pub(crate) fn webhooks_changed(&self) {
        let options = &self.0.options;
        self.0.webhooks.reload(&options.store.snapshot(), &options.admission);
    }
}
