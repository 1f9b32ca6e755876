//! The API server through `handle`, in process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod auth;
mod cluster;
mod definitions;
mod reads;
mod relays;
mod watches;
mod writes;
