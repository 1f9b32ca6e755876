//! Talking to the server: what to watch, and how a list and a watch are asked for.

mod client;
mod connection;
mod gunzip;
mod list_watch;
mod target;

pub use client::ClientListerWatcher;
pub(crate) use connection::{ConnectionExecutor, HeldBack};
pub use list_watch::{Connect, ListRequest, ListerWatcher, WatchRequest, WatchStream};
pub use target::{Namespaces, Target};
