//! Start options of a cluster.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::Clock;
use setpoint_apiserver::openapi::Prose;
use setpoint_apiserver::{
    AccessWebhook, Admission, Authorization, FrontProxy, RequestLimits, StaticToken, TokenWebhook,
};
use setpoint_node::NodeOptions;

use crate::webhooks::InProcessWebhooks;

/// Start options of a cluster. The default suits tests: in memory, every controller, one simulated node.
#[derive(Clone)]
pub struct Options {
    /// Storage of the objects.
    pub backend: Backend,
    /// Number of changes kept for watches that resume and for pages of lists. Default: the store's bound. A client
    /// with an older version gets "Expired".
    pub history_events: Option<usize>,
    /// The most bytes stored, history included. Default: the store's bound. The server refuses a write that would
    /// exceed it.
    pub quota_bytes: Option<u64>,
    /// The built-in controllers that run.
    pub controllers: Controllers,
    /// The nodes, and their number.
    pub nodes: NodeOptions,
    /// Seed of all random numbers. Default: from the operating system.
    pub seed: Option<u64>,
    /// The clock. Default: the runtime's own, starting at the present time.
    pub clock: Option<Clock>,
    /// Range of the cluster IPs.
    pub service_cidr: String,
    /// The authorizers, in the order in which the server asks them.
    pub authorization: Vec<Authorization>,
    /// Whether requests without credentials are `system:anonymous`. `AlwaysAllow` turns it off.
    pub anonymous: bool,
    /// Bearer tokens that never expire.
    pub tokens: Vec<StaticToken>,
    /// The webhook that authenticates other bearer tokens.
    pub token_webhook: Option<Arc<TokenWebhook>>,
    /// The webhook behind [`Authorization::Webhook`].
    pub access_webhook: Option<Arc<AccessWebhook>>,
    /// Time for which Events are kept.
    pub event_ttl: Duration,
    /// Range of the node ports: the first and the last.
    pub node_ports: (u16, u16),
    /// The front proxy whose headers name users. Without one the headers are ignored.
    pub front_proxy: Option<FrontProxy>,
    /// The admission plugins that run.
    pub admission: Admission,
    /// Whether containers may be privileged.
    pub allow_privileged: bool,
    /// The limits of requests that are not long-running.
    pub requests: RequestLimits,
    /// The longest life of a token that a client asks for.
    pub max_token_life: Option<Duration>,
    /// The issuer of service-account tokens. Default: the usual one.
    pub service_account_issuer: Option<String>,
    /// The key (PEM) that signs service-account tokens. Default: the cluster's own. An RSA key cannot sign here: it
    /// verifies, and the cluster's own key signs.
    pub service_account_signing_key: Option<String>,
    /// Further keys (PEM) of accepted tokens.
    pub service_account_keys: Vec<String>,
    /// Descriptions of built-in types for `kubectl explain`. Without them it shows fields and types only.
    pub prose: Option<Prose>,
    /// Webhooks that the server calls as functions.
    pub webhooks: InProcessWebhooks,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            backend: Backend::Memory,
            history_events: None,
            quota_bytes: None,
            controllers: Controllers::All,
            nodes: NodeOptions::default(),
            seed: None,
            clock: None,
            service_cidr: "10.96.0.0/16".into(),
            authorization: vec![Authorization::Rbac],
            anonymous: true,
            tokens: Vec::new(),
            token_webhook: None,
            access_webhook: None,
            event_ttl: Duration::from_secs(3600),
            node_ports: (30000, 32767),
            front_proxy: None,
            admission: Admission::default(),
            allow_privileged: true,
            requests: RequestLimits::default(),
            max_token_life: None,
            service_account_issuer: None,
            service_account_signing_key: None,
            service_account_keys: Vec::new(),
            prose: None,
            webhooks: InProcessWebhooks::default(),
        }
    }
}

/// Storage of the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Memory of this process only.
    Memory,
    /// Memory of this process, which begins with the state of a folder. The folder's state stays as it is.
    Copy {
        /// The folder: one of a stopped cluster, or one that [`Store::save`](setpoint_store::Store::save) wrote.
        path: PathBuf,
    },
    /// A folder, which survives the process.
    Folder {
        /// The folder.
        path: PathBuf,
        /// Whether each write is synced to the disk before it is acknowledged.
        fsync: bool,
    },
}

/// The built-in controllers that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controllers {
    /// All of them.
    All,
    /// None: a bare API server.
    None,
    /// The named ones.
    Only(Vec<String>),
}

/// Options for serving on a socket. The cluster's own authority supplies absent values.
#[derive(Clone, Default)]
pub struct Serving {
    /// Certificate and key (PEM).
    pub identity: Option<(String, String)>,
    /// The authority (PEM) of client certificates.
    pub client_authority: Option<String>,
    /// The address in the endpoints of the Service `kubernetes`. Default: the one that the socket listens on.
    pub advertise: Option<IpAddr>,
}
