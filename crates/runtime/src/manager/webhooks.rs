//! The part of a manager that webhooks use.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Addresses, Group, Manager, Runnable, SetupError};
use crate::error::Error;
use crate::latch::Latch;

impl Manager {
    /// Runs work before the caches start, and until all other work has ended. The caches wait for the latch.
    pub(crate) fn before_caches<F>(&self, name: &str, start: F) -> Result<(), SetupError>
    where
        F: FnOnce(CancellationToken, Arc<Latch>) -> BoxFuture<'static, Result<(), Error>> + Send + 'static,
    {
        if self.state().running.is_some() {
            return Err(SetupError::Webhook("register them before the manager runs".to_owned()));
        }
        let ready: Arc<Latch> = Arc::default();
        let set = Arc::clone(&ready);
        self.register_runnable(Runnable {
            name: name.to_owned(),
            group: Group::Server,
            caches: None,
            stop: CancellationToken::new(),
            ready,
            start: Box::new(move |stopping| start(stopping, set)),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.options.name
    }

    pub(crate) fn webhook_address(&self) -> Option<SocketAddr> {
        self.0.options.webhook_address
    }

    /// The place in which the address of the webhooks is made known. Apart from the manager, because the manager holds
    /// the work that holds this.
    pub(crate) fn known_addresses(&self) -> watch::Sender<Addresses> {
        self.0.addresses.clone()
    }

    /// The namespace and name of the Lease, if this process takes part in an election.
    pub(crate) fn lease(&self) -> Option<(String, String)> {
        let election = self.0.options.leader_election.as_ref()?;
        Some((election.namespace.clone(), election.name.clone()))
    }
}
