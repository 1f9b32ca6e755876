//! Talking to the server: what to watch, and how a list and a watch are asked for.

mod list_watch;
mod target;

pub use list_watch::{ListRequest, ListerWatcher, WatchFailure, WatchRequest, WatchStream};
pub use target::{Namespaces, Target};
