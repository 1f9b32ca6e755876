//! The options of a server.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use setpoint_api::{Clock, Random};
use setpoint_store::Store;

pub use crate::jwt::ServiceAccountKeys;
use crate::local_webhooks::LocalWebhooksHandle;
use crate::nodes::NodesHandle;
use crate::pki::PkiError;
use crate::review_webhook::{AccessWebhook, TokenWebhook};
use crate::user::UserInfo;
pub use setpoint_kinds::admission::{Configuration as Admission, Plugin};

/// Passes on all descriptions of built-in types. Each has the published name of the type
/// (`io.k8s.api.core.v1.Container`), the field that it describes (empty for the type itself), and the text.
pub type Prose = fn(&mut dyn FnMut(&str, &str, &str));

/// The default of [`Options::kept_protobuf`].
pub const KEPT_PROTOBUF: usize = 256 * 1024 * 1024;

/// The options of a server. [`Options::new`] fills in kube-apiserver's defaults.
#[derive(Clone)]
pub struct Options {
    /// The store of all objects.
    pub store: Store,
    /// Wall-clock time.
    pub clock: Clock,
    /// The source of uids and name suffixes.
    pub random: Random,
    /// The authorizers, in the order in which the server asks them. The first one that allows a request decides; a
    /// request that none allows is refused. Members of `system:masters` are allowed before any is asked.
    pub authorization: Vec<Authorization>,
    /// Whether requests without credentials are `system:anonymous` (else 401). `AlwaysAllow` among the authorizers
    /// turns it off: see [`Options::admits_anonymous`].
    pub anonymous: bool,
    /// The proxy whose headers name the user. Without one the server ignores the headers.
    pub front_proxy: Option<FrontProxy>,
    /// Bearer tokens that never expire.
    pub tokens: Vec<StaticToken>,
    /// The webhook that authenticates bearer tokens that nothing else here knows.
    pub token_webhook: Option<Arc<TokenWebhook>>,
    /// The webhook behind [`Authorization::Webhook`].
    pub access_webhook: Option<Arc<AccessWebhook>>,
    /// The keys that sign and verify service-account tokens.
    pub service_accounts: ServiceAccountKeys,
    /// The range of cluster IPs.
    pub service_cidr: String,
    /// The range of node ports (first, last).
    pub node_ports: (u16, u16),
    /// The admission plugins that are on, and their settings.
    pub admission: Admission,
    /// The address to which the Service `kubernetes` leads.
    pub advertise: Option<SocketAddr>,
    /// The time for which Events are kept.
    pub event_ttl: Duration,
    /// The most bytes of protobuf messages that are kept with their objects. If there is no room, each reader's
    /// message is made anew.
    pub kept_protobuf: usize,
    /// Nodes inside this process; others are reached at the address in their Node status.
    pub nodes: Option<NodesHandle>,
    /// Webhooks inside this process; others are called over TLS.
    pub webhooks: Option<LocalWebhooksHandle>,
    /// TLS towards nodes at an address: the client certificate and the trusted authorities.
    pub kubelet_tls: Option<KubeletTls>,
    /// The PEM of the authority that signed the serving certificate, for `kube-root-ca.crt` and its like.
    pub ca_certificate: Option<String>,
    /// Descriptions of built-in types, for `kubectl explain`. The server calls this when it makes a document.
    pub prose: Option<Prose>,
    /// The limits of requests that are not long-running.
    pub requests: RequestLimits,
    /// The longest life of a token that a client asks for. A longer one is shortened, and the client is warned.
    pub max_token_life: Option<Duration>,
    /// Whether containers may be privileged.
    pub allow_privileged: bool,
    /// The parts of the control plane that share the process with the server.
    pub parts: Parts,
    /// The provisioner of the default StorageClass `standard`, which a new cluster then begins with.
    pub storage_provisioner: Option<String>,
}

/// The TLS configuration, made when the server first connects to a node at an address: most servers never do.
pub type KubeletTls = Arc<LazyLock<Result<Arc<rustls::ClientConfig>, PkiError>, MakeKubeletTls>>;
type MakeKubeletTls = Box<dyn FnOnce() -> Result<Arc<rustls::ClientConfig>, PkiError> + Send>;

impl Options {
    /// kube-apiserver's defaults, on this store. Containers may be privileged, as kubeadm sets it.
    pub fn new(store: Store, clock: Clock, random: Random) -> Self {
        Options {
            store,
            clock,
            random,
            authorization: vec![Authorization::Rbac],
            anonymous: true,
            front_proxy: None,
            tokens: Vec::new(),
            token_webhook: None,
            access_webhook: None,
            service_accounts: ServiceAccountKeys::default(),
            service_cidr: "10.96.0.0/16".to_owned(),
            node_ports: (30000, 32767),
            admission: Admission::default(),
            advertise: None,
            event_ttl: Duration::from_secs(3600),
            kept_protobuf: KEPT_PROTOBUF,
            nodes: None,
            webhooks: None,
            kubelet_tls: None,
            ca_certificate: None,
            prose: None,
            requests: RequestLimits::default(),
            max_token_life: None,
            allow_privileged: true,
            parts: Parts::default(),
            storage_provisioner: None,
        }
    }

    /// Whether a request without credentials is `system:anonymous`. With `AlwaysAllow` it is refused, as in
    /// kube-apiserver: otherwise anyone who reaches the port would own the cluster.
    pub fn admits_anonymous(&self) -> bool {
        self.anonymous && !self.authorization.contains(&Authorization::AlwaysAllow)
    }
}

/// An authorizer, by its name in `--authorization-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// Allows everything.
    AlwaysAllow,
    /// Allows nothing. It has no opinion, as in kube-apiserver: an authorizer behind it may still allow a request.
    AlwaysDeny,
    /// Stands for kube-apiserver's Node authorizer, which is not implemented here: it allows nothing.
    Node,
    /// Allows what the stored roles and bindings grant.
    Rbac,
    /// Asks [`Options::access_webhook`], which may also refuse for all authorizers behind it.
    Webhook,
}

/// A proxy in front of the server which authenticates its clients and names them in headers. The headers count only
/// on a connection whose certificate `authority` signed for client authentication.
#[derive(Clone, Debug, Default)]
pub struct FrontProxy {
    /// The authorities (PEM) of the proxy's certificate. The listener asks for it:
    /// [`ServingTls::new`](crate::pki::ServingTls::new).
    pub authority: String,
    /// The common names that the certificate may have; any if empty.
    pub allowed_names: Vec<String>,
    /// The headers with the user's name, `X-Remote-User` for example. The first one with a value counts.
    pub username_headers: Vec<String>,
    /// The headers with the user's uid. The first one with a value counts.
    pub uid_headers: Vec<String>,
    /// The headers with the user's groups. Each value is one group.
    pub group_headers: Vec<String>,
    /// Prefixes of the headers with extra information about the user. The rest of a header's name is the key.
    pub extra_header_prefixes: Vec<String>,
}

/// A bearer token and its user.
#[derive(Clone)]
pub struct StaticToken {
    /// The secret.
    pub token: String,
    /// The user that the token stands for.
    pub user: UserInfo,
}

/// The parts of the control plane that share the process with the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// The scheduler runs.
    pub scheduler: bool,
    /// Controllers run.
    pub controllers: bool,
}

/// The limits of requests that are not long-running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// The time limit of one request. A client may ask for less.
    pub timeout: Duration,
    /// The most reads in flight. Further ones are answered 429.
    pub reads: usize,
    /// The most mutating requests in flight. Further ones are answered 429.
    pub writes: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits { timeout: Duration::from_secs(60), reads: 400, writes: 200 }
    }
}
