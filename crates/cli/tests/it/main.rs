//! Process pods on a cluster in this process, whose containers are real processes of this host.

// A test reports its expectation by failing.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod assets;
mod background;
mod messages;
mod node;
mod processes;
mod streams;
mod trust;
mod updates;
mod volumes;
