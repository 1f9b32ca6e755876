//! Secrets of the type `kubernetes.io/service-account-token`: they hold a token of the account that they name, and go
//! with it.

mod reconcile;
mod plan;
mod signer;

pub(crate) use reconcile::register;
pub use signer::TokenSigner;
