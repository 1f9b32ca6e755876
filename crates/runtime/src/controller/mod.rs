//! Controllers: what queues which object, and who works on it.

mod arrivals;
mod builder;
mod context;
mod handle;
mod outcome;
mod source;
mod worker;

pub use builder::{Controller, DEFAULT_CONCURRENCY, SetupError};
pub use context::Context;
pub use handle::{AddedWatch, ControllerHandle};
