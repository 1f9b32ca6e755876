//! Recordings of the real server, replayed; and requests as large as they may be.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its recording fails")]

mod growth;
mod kinds;
