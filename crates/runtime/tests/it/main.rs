//! Integration tests of the runtime's public interface.
// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod allocations;
mod apply;
mod bad_server;
mod calling;
mod consistency;
mod controllers;
mod direct;
mod dynamic;
mod election;
mod fake;
mod gates;
mod identity;
mod informers;
mod logging;
mod managing;
mod misdeed;
mod misuse;
mod numbers;
mod odd_objects;
mod own_writes;
mod promptness;
mod pump;
mod recording;
mod reflecting;
mod serving;
mod sources;
mod unanswered;
mod workers;
mod world;
