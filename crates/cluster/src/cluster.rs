//! One cluster: its store, its server, its controllers and nodes, and the order in which they start and stop.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use setpoint::SetupError;
use setpoint_api::{Clock, Random};
use setpoint_apiserver::jwt::{SigningKey, VerifyingKey};
use setpoint_apiserver::pki::{Identity, PkiError, ServingTls, kubelet_client_config};
use setpoint_apiserver::{
    KubeletTls, Options as ServerOptions, Server, ServiceAccountKeys, StartError, UserInfo,
};
use setpoint_store::{Directory, OpenError, Recovery, Store};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::credentials::{Credentials, CredentialsError};
use crate::nodes::LocalNodes;
use crate::options::{Backend, Options, Serving};
use crate::webhooks::InProcessWebhooks;
use crate::{kubeconfig, transport, workload};

/// Shortest interval at which the server drops expired objects and old history.
const MAINTENANCE: Duration = Duration::from_secs(1);
/// The interval when nothing changes and nothing expires.
const IDLE_MAINTENANCE: Duration = Duration::from_secs(60);
/// Time that open connections have to end when the cluster stops.
const DRAIN: Duration = Duration::from_secs(2);

/// The reason why a cluster did not start.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The store's files could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The folder of the files failed.
    #[error("data folder: {0}")]
    Folder(std::io::Error),
    /// The keys failed.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The server failed.
    #[error(transparent)]
    Server(#[from] StartError),
    /// The controllers failed.
    #[error(transparent)]
    Controllers(#[from] SetupError),
    /// A certificate failed.
    #[error(transparent)]
    Certificate(#[from] PkiError),
    /// The address could not be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
}

/// A running cluster. Dropping it stops everything at once, like a crash. [`Cluster::shutdown`] stops in order.
pub struct Cluster {
    server: Server,
    store: Store,
    credentials: Arc<Credentials>,
    clock: Clock,
    random: Random,
    options: Options,
    recovery: Option<Recovery>,
    stop: CancellationToken,
    tasks: Mutex<JoinSet<()>>,
}

impl Cluster {
    /// Starts a cluster. Its API is ready when this returns.
    pub async fn start(options: Options) -> Result<Cluster, ClusterError> {
        let (store, recovery) = open(&options).await?;
        let clock = options.clock.clone().unwrap_or_else(setpoint::clock::system_clock);
        let random = Random::from_seed(options.seed.unwrap_or_else(seed));
        Cluster::on(store, recovery, clock, random, options).await
    }

    async fn on(
        store: Store,
        recovery: Option<Recovery>,
        clock: Clock,
        random: Random,
        options: Options,
    ) -> Result<Cluster, ClusterError> {
        let credentials = Arc::new(Credentials::of(&store, clock.now()).await?);
        let mut server = ServerOptions::new(store.clone(), clock.clone(), random.clone());
        server.service_cidr.clone_from(&options.service_cidr);
        server.ca_certificate = Some(credentials.authority.identity().certificate.clone());
        server.service_accounts = service_account_keys(&options, &credentials)?;
        server.authorization.clone_from(&options.authorization);
        server.anonymous = options.anonymous;
        server.front_proxy.clone_from(&options.front_proxy);
        server.tokens.clone_from(&options.tokens);
        server.token_webhook.clone_from(&options.token_webhook);
        server.access_webhook.clone_from(&options.access_webhook);
        server.event_ttl = options.event_ttl;
        server.node_ports = options.node_ports;
        server.parts = workload::parts(&options);
        server.prose = options.prose;
        server.storage_provisioner = workload::storage_provisioner(&options);
        server.admission = options.admission.clone();
        server.allow_privileged = options.allow_privileged;
        server.requests = options.requests;
        server.max_token_life = options.max_token_life;
        let nodes = LocalNodes::default();
        server.nodes = Some(Arc::new(nodes.clone()));
        server.webhooks = Some(Arc::new(options.webhooks.clone()));
        server.kubelet_tls = Some(kubelet_tls(&credentials, &clock));
        let server = Server::start(server).await?;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(maintain(server.clone(), clock.clone(), stop.clone()));
        if let Some(manager) = workload::manager(&server, &clock, &random, &options, &nodes)? {
            tasks.spawn(workload::run(manager, stop.clone()));
        }
        let tasks = Mutex::new(tasks);
        Ok(Cluster { server, store, credentials, clock, random, options, recovery, stop, tasks })
    }

    /// Findings about the files that the cluster opened.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// Returns the API server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the store under the API server.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the cluster's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the cluster's source of random numbers.
    pub fn random(&self) -> &Random {
        &self.random
    }

    /// Returns a client with all rights, without a socket.
    pub fn client(&self) -> Client {
        transport::client(&self.server, UserInfo::admin("admin"))
    }

    /// Returns a client that acts as any user in any groups.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        transport::client(&self.server, UserInfo::new(user, groups.iter().copied()))
    }

    /// Returns the webhooks that the server calls as functions: those of the options, also after the start.
    pub fn webhooks(&self) -> &InProcessWebhooks {
        &self.options.webhooks
    }

    /// Opens a TLS socket for clients of other processes. Returns the bound address.
    pub async fn listen(&self, address: SocketAddr) -> Result<SocketAddr, ClusterError> {
        self.listen_with(address, Serving::default()).await
    }

    /// Serves the cluster like [`Cluster::listen`], with another certificate or client authority.
    pub async fn listen_with(
        &self,
        address: SocketAddr,
        serving: Serving,
    ) -> Result<SocketAddr, ClusterError> {
        self.serve(bind(address).await?, serving)
    }

    /// Serves clients of other processes on a socket that [`bind`] opened. Pods may know its address already.
    pub fn serve(&self, listener: TcpListener, serving: Serving) -> Result<SocketAddr, ClusterError> {
        let address = listener.local_addr().map_err(ClusterError::Folder)?;
        let authority = &self.credentials.authority;
        let identity = match serving.identity {
            Some((certificate, key)) => Identity { certificate, key },
            None => {
                let names = SERVER_NAMES.map(str::to_owned);
                let addresses = [address.ip(), reachable(address).ip()];
                authority.serving(&names, &addresses, self.clock.now())?
            }
        };
        let client_authority =
            serving.client_authority.unwrap_or_else(|| authority.identity().certificate.clone());
        let front_proxy = self.options.front_proxy.as_ref().map(|proxy| proxy.authority.as_str());
        let tls = ServingTls::new(&identity, Some(&client_authority), front_proxy)?;
        let server = self.server.clone();
        let stop = self.stop.clone();
        let mut advertised = reachable(address);
        if let Some(own) = serving.advertise.filter(|own| !own.is_unspecified()) {
            advertised.set_ip(own);
        }
        self.spawn(async move {
            if let Err(error) = server.advertise(advertised).await {
                tracing::warn!(%error, "could not write the endpoints of the Service kubernetes");
            }
            server.serve(listener, tls, stop).await;
        });
        Ok(address)
    }

    /// Signs a client certificate for a user in these groups with the cluster's authority.
    pub fn certificate(&self, user: &str, groups: &[&str]) -> Result<Identity, ClusterError> {
        Ok(self.credentials.authority.client(user, groups, self.clock.now())?)
    }

    /// Returns the text of an administrator's kubeconfig for the server at `address`.
    pub fn kubeconfig(&self, address: SocketAddr) -> Result<String, ClusterError> {
        let admin = self.certificate("admin", &["system:masters"])?;
        Ok(kubeconfig::kubeconfig(address, &self.credentials.authority.identity().certificate, &admin))
    }

    /// Returns a new cluster in memory with a copy of this one's state: same objects, uids, versions, history,
    /// authority and keys. Its clock shows the same time, and its random numbers continue this one's sequence. Its
    /// controllers start with empty caches.
    pub async fn fork(&self) -> Result<Cluster, ClusterError> {
        self.checkpoint().start_with(self.clock.clone()).await
    }

    /// Keeps the present state, from which [`Checkpoint::start`] makes clusters later, also on another runtime.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            store: self.store.fork(),
            time: self.clock.now(),
            random: self.random.fork(),
            options: Options { backend: Backend::Memory, clock: None, ..self.options.clone() },
        }
    }

    /// Stops in order: first controllers and nodes, then connections, then the store.
    pub async fn shutdown(self) {
        self.stop.cancel();
        let mut tasks = std::mem::take(&mut *self.tasks.lock().expect("no holder of this lock panics"));
        // Tasks that have not ended by then are dropped.
        let _ = tokio::time::timeout(DRAIN, async { while tasks.join_next().await.is_some() {} }).await;
        tasks.shutdown().await;
        self.store.shutdown().await;
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().expect("no holder of this lock panics").spawn(task);
    }
}

/// The state of a cluster at one moment, independent of the runtime that the cluster ran on.
#[derive(Clone)]
pub struct Checkpoint {
    store: Store,
    time: Timestamp,
    random: Random,
    options: Options,
}

impl Checkpoint {
    /// Returns the state of the objects.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the time on the cluster's clock.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Starts a cluster in memory on a copy of the state. Its clock begins at the checkpoint's time and follows the
    /// present runtime. Two clusters of one checkpoint draw the same random numbers.
    pub async fn start(&self) -> Result<Cluster, ClusterError> {
        self.start_with(setpoint::clock::tokio_clock(self.time)).await
    }

    /// Starts a cluster like [`Checkpoint::start`], with another clock.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start_with(&self, clock: Clock) -> Result<Cluster, ClusterError> {
        Cluster::on(self.store.fork(), None, clock, self.random.fork(), self.options.clone()).await
    }
}

/// The server's client certificate for nodes of other processes.
fn kubelet_tls(credentials: &Arc<Credentials>, clock: &Clock) -> KubeletTls {
    let (credentials, clock) = (credentials.clone(), clock.clone());
    Arc::new(LazyLock::new(Box::new(move || {
        let client = credentials.authority.client(KUBELET_CLIENT, &["system:masters"], clock.now())?;
        kubelet_client_config(&client)
    })))
}

/// Returns the keys of service-account tokens. The cluster's own key signs, unless the options have a signing key.
fn service_account_keys(options: &Options, own: &Credentials) -> Result<ServiceAccountKeys, ClusterError> {
    let mut keys = ServiceAccountKeys::default();
    if let Some(issuer) = &options.service_account_issuer {
        keys.issuer.clone_from(issuer);
    }
    let given = options.service_account_signing_key.as_ref();
    keys.signing = Some(match given.map(|pem| SigningKey::from_pem(pem)) {
        Some(Ok(key)) => key,
        _ => own.service_accounts.clone(),
    });
    for pem in options.service_account_keys.iter().chain(given) {
        keys.verifying.push(VerifyingKey::from_pem(pem).map_err(CredentialsError::from)?);
    }
    Ok(keys)
}

/// Opens a socket for [`Cluster::serve`]. Programs that get its address before the cluster starts can connect and
/// wait.
///
/// # Errors
/// When the address is taken.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ClusterError> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A server that was stopped a moment ago leaves connections that keep its port.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|source| ClusterError::Listen { address, source })
}

/// Number of connections that may wait to be accepted. The kernel limits it to `somaxconn`. Go asks for the same.
const BACKLOG: u32 = 65_535;

/// Returns an address of this host under which a socket on `address` answers. Replaces an address that names no host.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (std::net::Ipv6Addr::LOCALHOST, v6.port()).into(),
        address => address,
    }
}

/// Common name of the server's client certificate for nodes of other processes.
const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// The server's host names for pods and people.
const SERVER_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

async fn open(options: &Options) -> Result<(Store, Option<Recovery>), ClusterError> {
    let mut store = setpoint_store::Options::default();
    store.history_events = options.history_events.unwrap_or(store.history_events);
    store.quota_bytes = options.quota_bytes.unwrap_or(store.quota_bytes);
    match &options.backend {
        Backend::Memory => Ok((Store::memory(store), None)),
        Backend::Copy { path } => {
            let disk = Directory::new(path).map_err(ClusterError::Folder)?;
            let (original, recovery) = Store::open(disk, store).await?;
            let copy = original.fork();
            original.shutdown().await;
            Ok((copy, Some(recovery)))
        }
        Backend::Folder { path, fsync } => {
            let disk = Directory::new(path).map_err(ClusterError::Folder)?;
            let options = setpoint_store::Options { fsync: *fsync, ..store };
            let (store, recovery) = Store::open(disk, options).await?;
            Ok((store, Some(recovery)))
        }
    }
}

/// Maintains the server after changes, when an object expires, and at an interval: an idle cluster in virtual time
/// must cost next to nothing.
async fn maintain(server: Server, clock: Clock, stop: CancellationToken) {
    let changed = Arc::new(Notify::new());
    let notify = changed.clone();
    server.store().on_commit(move |_| notify.notify_one());
    loop {
        server.maintain().await;
        let now = u64::try_from(clock.now().as_millisecond()).unwrap_or(0);
        let expiry = server.store().next_expiry().map(|at| Duration::from_millis(at.saturating_sub(now)));
        let wait = expiry.unwrap_or(IDLE_MAINTENANCE).clamp(MAINTENANCE, IDLE_MAINTENANCE);
        let due = async {
            tokio::time::sleep(MAINTENANCE).await;
            tokio::select! {
                biased;
                () = changed.notified() => {}
                () = tokio::time::sleep(wait - MAINTENANCE) => {}
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = due => {}
        }
    }
}

/// Returns a seed from the operating system.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    u64::from_le_bytes(bytes)
}
