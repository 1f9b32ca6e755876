//! Signals that end a process.

use tokio::signal::unix::{SignalKind, signal};

/// SIGTERM and SIGINT. The first one asks a process to stop in order, the second one to stop at once:
/// [`Manager::run_until_signal`](crate::Manager::run_until_signal) does both.
#[derive(Debug)]
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Takes over SIGTERM and SIGINT from now on.
    ///
    /// # Errors
    /// When the process may not handle signals.
    pub fn new() -> std::io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next SIGTERM or SIGINT.
    ///
    /// Dropping the future loses no signal: a later call returns it.
    pub async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
