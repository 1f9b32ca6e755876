//! The webhook server in a manager: on every replica, before the caches, until the last work has ended.

mod connection;
mod body;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::core::ApiResource;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Webhooks;
use super::certificates::{Holder, KeeperOptions, Place, Source, Tls};
use super::manifests::{GROUP, MUTATING, VALIDATING};
use super::options::Certificates;
use super::own::{self, OwnObject};
use crate::error::Error;
use crate::key::Key;
use crate::latch::Latch;
use crate::manager::{Addresses, Manager, SetupError};

use connection::Limits;

/// The most connections. Further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 512;
/// The most bytes of all reviews that are being read or answered. Further ones are answered 503.
const MAX_BYTES: usize = 256 << 20;

impl Webhooks {
    /// Makes a manager serve the webhooks at [`ManagerOptions::webhook_address`](crate::ManagerOptions::webhook_address).
    /// Without an address nothing is served, and the handlers can be called in process only.
    ///
    /// The manager starts in this order: the Secret with the certificates, the server, `caBundle`, then the caches. A list
    /// of a converted kind needs a webhook that answers, so `/readyz` does not wait for caches: its check `webhooks` says
    /// whether there is a certificate.
    ///
    /// # Errors
    /// When two webhooks have one path or name, when an option is out of bounds, or when a webhook would be asked about
    /// the operator's own Secret or Lease.
    pub fn register(self, manager: &Manager) -> Result<(), SetupError> {
        if let Some(mistake) = self.mistakes.first() {
            return Err(SetupError::Webhook(mistake.clone()));
        }
        let own = self.own_objects(manager);
        if let Some(refusal) = self.configurations().iter().find_map(|object| own::refusal(object, &own)) {
            return Err(SetupError::Webhook(refusal));
        }
        self.metrics.register(manager.metrics());
        let Some(address) = manager.webhook_address() else { return Ok(()) };
        let tls: Tls = watch::Sender::new(None);
        let seen = tls.subscribe();
        manager.ready_checks().add("webhooks", move || {
            let is_served = seen.borrow().is_some();
            async move { is_served.then_some(()).ok_or_else(|| "there is no certificate yet".to_owned()) }
        });
        let source = self.source(manager, own, tls.clone());
        let known = manager.known_addresses();
        manager.before_caches("webhooks", move |stopping, ready| -> BoxFuture<'static, Result<(), Error>> {
            Box::pin(async move {
                let serving = Serving { webhooks: self, known, address, tls };
                serving.run(source, stopping, ready).await
            })
        })
    }

    /// The objects that must be written before the webhooks answer.
    fn own_objects(&self, manager: &Manager) -> Vec<OwnObject> {
        let mut own = Vec::new();
        if self.options.certificates == Certificates::Managed {
            let (namespace, name) = (self.service.namespace.clone(), self.secret_name());
            own.push(OwnObject { group: "", resource: "secrets", namespace, name });
        }
        if let Some((namespace, name)) = manager.lease() {
            own.push(OwnObject { group: "coordination.k8s.io", resource: "leases", namespace, name });
        }
        own
    }

    fn source(&self, manager: &Manager, own: Vec<OwnObject>, tls: Tls) -> Source {
        let options = self.options.clone();
        if let Certificates::Folder(path) = options.certificates {
            return Source::folder(path, options.check_every, options.client_authority, tls);
        }
        let (namespace, service) = (&self.service.namespace, &self.service.name);
        let short = format!("{service}.{namespace}");
        let options = KeeperOptions {
            client: manager.client_without_lease(manager.name()),
            clock: manager.clock().clone(),
            random: manager.random().clone(),
            secret: Key::namespaced(namespace, &self.secret_name()),
            // The API server asks for the first one.
            names: vec![format!("{short}.svc"), format!("{short}.svc.cluster.local"), short],
            holders: self.holders(),
            own,
            validity: options.validity,
            check_every: options.check_every,
            settle: options.settle,
            client_authority: options.client_authority,
            patience: manager.cache_sync_timeout(),
        };
        Source::managed(options, tls)
    }

    /// The objects that hold a `caBundle`.
    fn holders(&self) -> Vec<Holder> {
        let resource = |group: &str, kind: &str| ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version: format!("{group}/v1"),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
        };
        let mut holders = Vec::new();
        for (kind, mutating) in [(MUTATING, true), (VALIDATING, false)] {
            let of_kind = self.hooks.iter().filter(|hook| hook.mutating == mutating);
            let names: Vec<String> = of_kind.map(|hook| hook.name.clone()).collect();
            if !names.is_empty() {
                let (name, place) = (self.service.name.clone(), Place::Webhooks(names));
                holders.push(Holder { resource: resource(GROUP, kind), name, place });
            }
        }
        holders.extend(self.conversions.iter().map(|converted| Holder {
            resource: resource("apiextensions.k8s.io", "CustomResourceDefinition"),
            name: converted.definition.clone(),
            place: Place::Conversion,
        }));
        holders
    }
}

/// A server, before it runs.
struct Serving {
    webhooks: Webhooks,
    known: watch::Sender<Addresses>,
    address: SocketAddr,
    tls: Tls,
}

impl Serving {
    /// Serves until the manager stops, then drains.
    async fn run(
        self,
        mut source: Source,
        stopping: CancellationToken,
        ready: Arc<Latch>,
    ) -> Result<(), Error> {
        let address = self.address;
        let listen = |error: std::io::Error| Error::msg(format!("cannot listen on {address}: {error}"));
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let bound = listener.local_addr().map_err(listen)?;
        let mut tasks = JoinSet::new();
        tokio::select! {
            biased;
            () = stopping.cancelled() => return Ok(()),
            obtained = source.obtain() => obtained?,
        }
        let limits = Limits::new(&self.webhooks.options, Arc::new(Semaphore::new(MAX_BYTES / body::UNIT)));
        let (tls, stop) = (self.tls.subscribe(), stopping.clone());
        tasks.spawn(accept(listener, self.webhooks, tls, limits, stop));
        self.known.send_modify(|addresses| addresses.webhooks = Some(bound));
        tracing::info!(address = %bound, "serving webhooks");
        let prepared = async {
            source.publish().await?;
            ready.set();
            source.keep().await
        };
        let ended = tokio::select! {
            biased;
            () = stopping.cancelled() => Ok(()),
            ended = prepared => ended,
        };
        ended?;
        self.tls.send_replace(None);
        while tasks.join_next().await.is_some() {}
        Ok(())
    }
}

/// Accepts connections until it is told to stop, and then waits for those that are open.
async fn accept(
    listener: TcpListener,
    webhooks: Webhooks,
    tls: watch::Receiver<Option<Arc<rustls::ServerConfig>>>,
    limits: Limits,
    stopping: CancellationToken,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((socket, _)) => {
                    // The certificate of this moment: a rotation needs no new listener.
                    let Some(config) = tls.borrow().clone() else { continue };
                    let (webhooks, limits, stopping) = (webhooks.clone(), limits.clone(), stopping.clone());
                    connections.spawn(connection::serve(socket, config, webhooks, limits, stopping));
                }
                Err(error) => {
                    // One connection failed, or too many files are open: both pass.
                    tracing::debug!(%error, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}
