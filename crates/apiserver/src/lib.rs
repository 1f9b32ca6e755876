//! A Kubernetes API server as a library: HTTP requests become store transactions.
//!
//! The life of a request reads off the file names: `serve → server → auth → route → body → write → verb/… →
//! admission → validate → managed → (store) → form → respond`.

mod admission;
mod advertise;
pub mod auth;
mod body;
mod bootstrap;
mod clients;
mod conversion;
mod convert;
pub mod crd;
mod dial;
mod discovery;
pub mod error;
mod event;
mod form;
mod header;
mod health;
mod managed;
mod message;
mod metrics;
pub mod negotiate;
mod object;
pub mod openapi;
mod options;
pub mod pki;
mod protobuf;
pub mod registry;
pub mod request;
mod request_limits;
mod respond;
mod route;
mod serve;
mod server;
mod service;
mod size;
mod statusz;
mod subresource;
mod table;
mod validate;
mod verb;
mod version;
mod webhook;
mod write;
mod yaml;

pub use auth::{Caller, ClientCertificate, UserInfo};
pub use options::{
    Admission, Authorization, FrontProxy, KubeletTls, Options, ServiceAccountKeys, StaticToken,
};
pub use serve::raise_open_files;
pub use server::{Body, BoxError, Server, StartError};
pub use subresource::node::{Dialing, Io, Nodes, NodesHandle};
