//! The server: what it holds, and how one request goes through it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use setpoint_store::{Store, WriteError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::configured::Configured;
use crate::error::{ApiError, Result};
use crate::message::Kept;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::registry::Registry;
use crate::request_limits::Limits;

/// How long a read waits for a version that is not there yet.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// An API server. Clones are handles to the same one.
#[derive(Clone)]
pub struct Server(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) registry: Registry,
    pub(crate) webhooks: Configured,
    /// Room for the answers of webhooks.
    pub(crate) webhook_room: Arc<Semaphore>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) discovery: crate::registry::discovered::Cache,
    pub(crate) kept: Kept,
    /// When it was started.
    pub(crate) started: jiff::Timestamp,
    /// Where it listens, as the Service `kubernetes` says.
    pub(crate) advertised: OnceLock<SocketAddr>,
    /// Who vouches for clients, as PEM.
    pub(crate) client_authority: OnceLock<Arc<str>>,
    /// Set once the store has failed to write for good.
    pub(crate) write_failed: AtomicBool,
    /// Relayed streams and what is done beside requests: they end with the server.
    pub(crate) sessions: Mutex<JoinSet<()>>,
}

impl Server {
    /// The store behind it.
    pub fn store(&self) -> &Store {
        &self.0.options.store
    }

    /// What it was started with.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Waits a little for a version that a client saw elsewhere.
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

    /// Runs something until it or the server ends.
    pub(crate) fn own(&self, session: impl Future<Output = ()> + Send + 'static) {
        let mut sessions = self.0.sessions.lock().expect("no holder of this lock panics");
        while sessions.try_join_next().is_some() {}
        sessions.spawn(session);
    }

    /// Whether the store still takes writes.
    pub(crate) fn is_writable(&self) -> bool {
        !self.0.write_failed.load(Ordering::Relaxed)
    }

    /// Remembers when writing has ended, and makes the answer.
    pub(crate) fn write_failed(&self, error: WriteError) -> ApiError {
        if matches!(error, WriteError::Failed(_)) {
            self.0.write_failed.store(true, Ordering::Relaxed);
        }
        error.into()
    }

    /// A change of a definition: what is served follows before the writer is answered.
    pub(crate) fn definitions_changed(&self) {
        self.0.registry.reload(&self.0.options.store.snapshot());
    }

    /// A change of a webhook's configuration: who is asked follows before the writer is answered.
    pub(crate) fn webhooks_changed(&self) {
        self.0.webhooks.reload(&self.0.options.store.snapshot());
    }
}
