//! Who is asking, and whether they may.

pub(crate) mod escalation;
pub(crate) mod impersonate;
pub(crate) mod openid;
pub(crate) mod reconcile;
mod covers;
pub(crate) mod policy;
pub mod authz;
pub mod authn;
pub(crate) mod legacy;
pub(crate) mod certificate;
mod front_proxy;

use std::sync::Arc;

use crate::user::UserInfo;

pub use certificate::ClientCertificate;

/// How a request reached the server.
#[derive(Clone, Debug)]
pub enum Caller {
    /// In process, by somebody the assembler vouches for; credentials in the request are ignored.
    Trusted(UserInfo),
    /// In process, with whatever credentials the request carries.
    Anonymous,
    /// Over a connection, with the certificate that the client showed. If no authority vouches for that, a token may
    /// still say who asks; without one the request is refused, not anonymous.
    Connection(Option<Arc<ClientCertificate>>),
}
