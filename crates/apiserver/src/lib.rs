//! A Kubernetes API server as a library: HTTP requests become store transactions.
//!
//! A request goes through `serve → handle → auth → route → verb`. A write goes on through `write/pipeline`, which lists its
//! stages, to the store; the answer comes back through `representation → respond`.

mod serve;
mod handle;
mod webhook_call;
mod route;
mod health;
mod statusz;
mod version;
pub mod openapi;
mod start;
mod advertise;
mod client_ca;
mod bootstrap;
mod access_review;
mod component_status;
mod subresource;
mod heavy;
mod verb;
mod selection;
mod watch_frame;
mod write;
mod size;
mod representation;
mod table;
pub mod crd;
mod protobuf_fill;
mod service;
mod dial;
mod discovery;
mod tracking;
mod writer;
mod admission;
pub mod auth;
mod managed;
mod write_options;
mod versions;
mod context;
mod server;
mod origin;
mod configured;
mod metrics;
mod request_limits;
pub mod registry;
mod webhook;
mod decision;
mod options;
mod review_webhook;
mod respond;
mod protobuf;
pub mod negotiate;
mod header;
mod nodes;
mod local_webhooks;
mod unsent;
mod body;
mod user;
pub mod jwt;
pub mod key;
mod entry;
mod protobuf_cache;
pub mod request;
pub mod error;
mod object;
pub mod pki;
mod yaml;

pub use auth::{Caller, ClientCertificate};
pub use body::{Body, BoxError};
pub use bootstrap::StartError;
pub use local_webhooks::{Answering, LocalWebhooks, LocalWebhooksHandle};
pub use nodes::{Dialing, Io, Nodes, NodesHandle};
pub use options::{
    Admission, Authorization, FrontProxy, KubeletTls, Options, Parts, Plugin, RequestLimits,
    ServiceAccountKeys, StaticToken,
};
pub use origin::Origin;
pub use request_limits::{DurationError, go_duration};
pub use review_webhook::{
    AccessStatus, AccessWebhook, ReviewClient, ReviewError, ReviewVersion, TokenWebhook,
};
pub use serve::raise_open_files;
pub use server::Server;
pub use user::UserInfo;
pub use version::VERSION;
