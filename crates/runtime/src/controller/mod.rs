//! Controllers: the watches that queue keys, and the workers that reconcile them.

mod builder;
mod handle;
mod worker;
mod arrivals;
mod outcome;
mod source;
mod watch;
mod mapping;
mod reconcile;
mod context;

pub use builder::{Controller, DEFAULT_CONCURRENCY};
pub use context::Context;
pub use handle::{AddedWatch, ControllerHandle};
pub use reconcile::{Action, Reconciler};
pub use watch::Watch;
