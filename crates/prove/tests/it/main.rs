//! Proofs of the example operators.
#![allow(clippy::unwrap_used)]

mod examples;
mod mistakes;
