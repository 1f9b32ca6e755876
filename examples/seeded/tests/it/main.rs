//! The yardstick: proofs find every seeded bug, and nothing in the sound operator.
#![allow(clippy::unwrap_used)]

mod lives;
mod plans;
mod sound;
mod found;
mod determinism;
