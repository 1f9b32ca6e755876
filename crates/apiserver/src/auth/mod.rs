//! Authentication and authorization of requests.

pub(crate) mod escalation;
pub(crate) mod impersonate;
pub(crate) mod openid;
pub(crate) mod reconcile;
mod covers;
pub(crate) mod access;
pub(crate) mod policy;
pub(crate) mod authz;
pub(crate) mod authn;
pub(crate) mod legacy;
pub(crate) mod certificate;
mod front_proxy;

use std::sync::Arc;

use crate::user::UserInfo;

pub use certificate::ClientCertificate;

/// How a request reached the server.
#[derive(Clone, Debug)]
pub enum Caller {
    /// In process, as a user that the assembler vouches for. Credentials in the request are ignored.
    Trusted(UserInfo),
    /// In process, with whatever credentials the request carries.
    Anonymous,
    /// Over a connection, with the client's certificate. If no authority has signed the certificate, a token may
    /// still authenticate the client. Without a token the server refuses the request: it is not anonymous.
    Connection(Option<Arc<ClientCertificate>>),
}
