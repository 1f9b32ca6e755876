//! The store from outside.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod behaviour;
mod contention;
mod crash;
mod folder;
mod model;
mod recovery;
mod save;
