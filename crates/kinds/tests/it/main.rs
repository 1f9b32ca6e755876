//! Recordings of the real server, replayed.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its recording fails")]

mod kinds;
mod plugins;
