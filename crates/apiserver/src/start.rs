//! The start of a server, and what it does now and then.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use crate::bootstrap::{self, StartError};
use crate::configured::Configured;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::origin::Origins;
use crate::protobuf_cache::ProtobufCache;
use crate::registry::Registry;
use crate::request_limits::Limits;
use crate::server::{Inner, Server};

impl Server {
    /// Starts a server on a store: writes what every cluster has, where it is missing, and reads the custom
    /// resource definitions.
    pub async fn start(options: Options) -> Result<Server, StartError> {
        bootstrap::run(&options).await?;
        let registry = Registry::default();
        let webhooks = Configured::default();
        let snapshot = options.store.snapshot();
        registry.reload(&snapshot);
        webhooks.reload(&snapshot, &options.admission);
        Ok(Server(Arc::new(Inner {
            protobuf_cache: ProtobufCache::new(options.kept_protobuf),
            started: options.clock.now(),
            limits: Limits::new(&options),
            options,
            registry,
            webhooks,
            webhook_room: crate::webhook::server_room(),
            metrics: Metrics::default(),
            origins: Origins::default(),
            discovery: crate::registry::discovered::Cache::default(),
            advertised: OnceLock::new(),
            client_authority: OnceLock::new(),
            write_failed: AtomicBool::new(false),
            sessions: Mutex::default(),
        })))
    }

    /// Deletes expired objects and old history, and restores the bootstrap objects. Connections call it now and then; so may
    /// the owner.
    pub async fn maintain(&self) {
        let now = u64::try_from(self.0.options.clock.now().as_millisecond()).unwrap_or(0);
        self.0.options.store.age(now);
        if let Err(error) = self.0.options.store.expire(now).await {
            tracing::warn!(%error, "could not delete expired objects; retrying");
        }
        if let Err(error) = bootstrap::restore(&self.0.options).await {
            tracing::warn!(%error, "could not restore the bootstrap objects; retrying");
        }
        if let Some(address) = self.advertised()
            && let Err(error) = crate::advertise::keep(&self.0.options, address).await
        {
            tracing::warn!(%error, "could not write the endpoints of the Service kubernetes; retrying");
        }
        if let Some(authority) = self.0.client_authority.get()
            && let Err(error) = crate::client_ca::keep(&self.0.options, authority).await
        {
            tracing::warn!(%error, "could not publish the client CA; retrying");
        }
    }
}
