//! Container logs: kept on disk within a bound, read as `kubectl logs` asks for them.

mod file;
mod options;

pub use file::{Log, LogReader, Origin};
pub use options::LogOptions;
