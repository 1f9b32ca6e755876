//! Integration tests of the runtime's public interface.
// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod bad_server;
mod informers;
mod misdeed;
mod world;
