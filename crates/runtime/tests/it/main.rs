//! Integration tests of the runtime's public interface.
// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod allocations;
mod apply;
mod bad_server;
mod consistency;
mod controllers;
mod dynamic;
mod election;
mod fake;
mod informers;
mod logging;
mod managing;
mod misdeed;
mod own_writes;
mod promptness;
mod pump;
mod recording;
mod serving;
mod world;
