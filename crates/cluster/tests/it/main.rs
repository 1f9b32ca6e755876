//! Scenarios on a cluster in this process.

#![allow(clippy::unwrap_used)]

mod controllers;
mod library;
mod runtime;
