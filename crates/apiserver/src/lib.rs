//! A Kubernetes API server as a library: HTTP requests become store transactions.
//!
//! A request goes through `serve → server → auth → route → verb`. A write goes on through `write/pipeline`, which lists its
//! stages, to the store; the answer comes back through `form → respond`.

mod advertise;
mod clients;
mod bootstrap;
mod event;
mod health;
mod metrics;
mod serve;
mod size;
mod statusz;
mod version;
pub mod openapi;
mod service;
mod table;
mod verb;
mod dial;
mod discovery;
mod route;
mod request_limits;
mod subresource;
mod write;
mod body;
mod admission;
mod decision;
pub mod auth;
mod managed;
mod writer;
mod convert;
mod form;
mod options;
mod protobuf;
mod respond;
mod header;
pub mod negotiate;
pub mod crd;
mod conversion;
mod webhook;
mod server;
mod message;
pub mod registry;
pub mod error;
pub mod request;
mod object;
pub mod pki;
mod yaml;

pub use auth::{Caller, ClientCertificate, UserInfo};
pub use options::{
    Admission, Authorization, FrontProxy, KubeletTls, Options, ServiceAccountKeys, StaticToken,
};
pub use serve::raise_open_files;
pub use server::{Body, BoxError, Server, StartError};
pub use subresource::node::{Dialing, Io, Nodes, NodesHandle};
