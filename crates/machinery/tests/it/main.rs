//! Requests as large as they may be.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod growth;
