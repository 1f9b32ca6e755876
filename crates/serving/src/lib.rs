//! Parts of TLS connections that the API server and the nodes share.

mod unauthenticated;
mod any_peer;

pub use any_peer::{AnyClient, any_server};
pub use unauthenticated::{GRACE, Seat, Unauthenticated};
