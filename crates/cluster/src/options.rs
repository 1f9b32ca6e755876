//! Start options of a cluster.

use std::path::PathBuf;

use setpoint_api::Clock;
use setpoint_apiserver::openapi::Prose;
use setpoint_apiserver::{Authorization, FrontProxy};
use setpoint_node::NodeOptions;

/// Start options of a cluster. The default suits tests: in memory, every controller, one simulated node.
#[derive(Clone)]
pub struct Options {
    /// Storage of the objects.
    pub backend: Backend,
    /// Number of changes kept for watches that resume and for pages of lists. Default: the store's bound. A client
    /// with an older version gets "Expired".
    pub history_events: Option<usize>,
    /// Which built-in controllers run.
    pub controllers: Controllers,
    /// The nodes, their number first of all.
    pub nodes: NodeOptions,
    /// The first of all random numbers; drawn from the operating system when absent.
    pub seed: Option<u64>,
    /// The time; the runtime's own, from the present on, when absent.
    pub clock: Option<Clock>,
    /// Cluster IPs come from here.
    pub service_cidr: String,
    /// The authorizers, in the order in which the server asks them.
    pub authorization: Vec<Authorization>,
    /// Whether requests without credentials are `system:anonymous`. `AlwaysAllow` turns it off.
    pub anonymous: bool,
    /// The proxy whose headers say who asks; without one the headers count for nothing.
    pub front_proxy: Option<FrontProxy>,
    /// Whether pods get a service account and its token, and need it to exist.
    pub service_account_admission: bool,
    /// The issuer of service-account tokens, where it is not the usual one.
    pub service_account_issuer: Option<String>,
    /// The key (PEM) to sign service-account tokens with; the cluster's own when absent. An RSA key cannot sign here:
    /// it verifies, and the cluster's own signs.
    pub service_account_signing_key: Option<String>,
    /// More keys (PEM) whose tokens are accepted.
    pub service_account_keys: Vec<String>,
    /// Descriptions of built-in types, which `kubectl explain` shows; without them it shows fields and types.
    pub prose: Option<Prose>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            backend: Backend::Memory,
            history_events: None,
            controllers: Controllers::All,
            nodes: NodeOptions::default(),
            seed: None,
            clock: None,
            service_cidr: "10.96.0.0/16".into(),
            authorization: vec![Authorization::Rbac],
            anonymous: true,
            front_proxy: None,
            service_account_admission: true,
            service_account_issuer: None,
            service_account_signing_key: None,
            service_account_keys: Vec::new(),
            prose: None,
        }
    }
}

/// Storage of the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// In this process only.
    Memory,
    /// In a folder, which survives the process.
    Folder {
        /// The folder.
        path: PathBuf,
        /// Whether a write is on the disk before it is acknowledged.
        fsync: bool,
    },
}

/// Which built-in controllers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controllers {
    /// All of them.
    All,
    /// None: a bare API server.
    None,
    /// Those named.
    Only(Vec<String>),
}

/// Options for serving on a socket. The cluster's own authority supplies absent values.
#[derive(Clone, Default)]
pub struct Serving {
    /// Certificate and key (PEM).
    pub identity: Option<(String, String)>,
    /// The authority (PEM) of client certificates.
    pub client_authority: Option<String>,
}
