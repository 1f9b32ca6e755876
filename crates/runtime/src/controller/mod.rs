//! Controllers: the watches that queue keys, and the workers that reconcile them.

mod builder;
mod handle;
mod worker;
mod report;
mod arrivals;
mod blocked;
mod hot_loop;
mod outcome;
mod source;
mod watch;
mod mapping;
mod reconcile;
mod test_context;
mod context;

pub use builder::{Controller, DEFAULT_CONCURRENCY};
pub use context::{Cause, Context};
pub use handle::{AddedWatch, ControllerHandle};
pub use reconcile::{Action, Reconciler};
pub use test_context::{RecordedEvent, TestContext};
pub use watch::Watch;
