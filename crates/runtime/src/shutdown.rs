//! Signals that end a process.

use tokio::signal::unix::{SignalKind, signal};

/// Completes on the first SIGTERM or SIGINT. A second one, while the process is still busy stopping, ends it at
/// once with exit code 1, as long as the returned future's owner keeps polling [`Signals::second`].
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
    pub async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
