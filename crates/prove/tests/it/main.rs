//! Proofs of the example operators and of the built-in controllers.
#![allow(clippy::unwrap_used)]

mod examples;
mod leaders;
mod mistakes;
mod ourselves;
mod schema;
mod webhooks;
