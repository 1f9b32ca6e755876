//! The store from outside.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod behaviour;
mod folder;
