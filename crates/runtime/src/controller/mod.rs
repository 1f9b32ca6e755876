//! Controllers: what queues which object, and who works on it.

mod builder;
mod handle;
mod worker;
mod arrivals;
mod outcome;
mod source;
mod reconcile;
mod context;

pub use builder::{Controller, DEFAULT_CONCURRENCY};
pub use context::Context;
pub use handle::{AddedWatch, ControllerHandle};
pub use reconcile::{Action, Reconciler, Request};
