//! The harness of the example operators, for a test of yours to use or copy: a cluster in the process with the
//! operator on it ([`World`]), a record of what the operator asked the server for ([`Requests`]), and four trials that
//! every operator should pass: [`rights`], [`crash`], [`election`], [`steady`]. [`log_lines`] has the lines that the
//! operator logs.
//!
//! Time is paused (`#[tokio::test(start_paused = true)]`), so that waiting costs nothing.

// Everything here is a test: what is not as it should be ends it.
#![allow(clippy::unwrap_used)]

pub mod crash;
pub mod election;
pub mod rights;
pub mod steady;
pub mod log_lines;
mod captured;
mod world;
mod requests;

pub use requests::{Fault, Requests, Sent};
pub use world::{DEADLINE, TestedOperator, World, ended, until};
