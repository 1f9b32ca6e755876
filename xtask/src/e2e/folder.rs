//! The folders of servers and programs: gone at the end, or kept for a part that is run by itself.

use std::io;

/// Names the folder that keeps what a part writes.
pub const KEEP: &str = "SETPOINT_E2E_KEEP";

/// A new folder. Under [`KEEP`] it stays, so that the logs of a part that fails can be read.
pub fn new() -> io::Result<tempfile::TempDir> {
    match std::env::var_os(KEEP) {
        Some(kept) => tempfile::Builder::new().disable_cleanup(true).tempdir_in(kept),
        None => tempfile::tempdir(),
    }
}
