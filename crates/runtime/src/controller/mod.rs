//! Controllers: what queues which object, and who works on it.

mod builder;
mod context;
mod outcome;
mod source;
mod worker;

pub use builder::{Controller, ControllerHandle, DEFAULT_CONCURRENCY, SetupError};
pub use context::Context;
