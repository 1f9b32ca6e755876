//! A container's output: it goes to its log and to attached clients.

use std::io;

use bytes::Bytes;
use setpoint_api::Clock;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::broadcast;

use super::terminal::Terminal;
use crate::log::{Log, Origin};

/// Number of pieces kept for attached clients. A slower client misses the oldest, which the log has.
const LIVE: usize = 256;
const PIECE_BYTES: usize = 16 * 1024;

/// The destination of a container's output. Clones share it.
#[derive(Clone)]
pub struct Output {
    log: Log,
    live: broadcast::Sender<(Origin, Bytes)>,
    clock: Clock,
}

impl Output {
    /// Creates an output that goes to this log.
    pub fn new(log: Log, clock: Clock) -> Self {
        Output { log, live: broadcast::Sender::new(LIVE), clock }
    }

    /// Returns a receiver of all later output.
    pub fn follow(&self) -> broadcast::Receiver<(Origin, Bytes)> {
        self.live.subscribe()
    }

    /// Reads a pipe to its end.
    pub async fn drain(&self, origin: Origin, mut from: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; PIECE_BYTES];
        while let Ok(count) = from.read(&mut buffer).await
            && count > 0
        {
            self.take(origin, &buffer[..count]);
        }
    }

    /// Reads a terminal to its end. It has one stream.
    pub async fn drain_terminal(&self, terminal: &Terminal) {
        let mut buffer = vec![0; PIECE_BYTES];
        while let Ok(count) = terminal.read(&mut buffer).await
            && count > 0
        {
            self.take(Origin::Stdout, &buffer[..count]);
        }
    }

    /// Adds a line of the node itself, for a simulated container.
    pub fn say(&self, line: &str) {
        self.take(Origin::Stdout, format!("{line}\n").as_bytes());
    }

    fn take(&self, origin: Origin, bytes: &[u8]) {
        // A line that the disk refuses is lost, and the container goes on.
        let _ = self.log.write(self.clock.now(), origin, bytes);
        if self.live.receiver_count() > 0 {
            let _ = self.live.send((origin, Bytes::copy_from_slice(bytes)));
        }
    }

    /// Marks the end of the output.
    pub fn end(&self) -> io::Result<()> {
        self.log.end(self.clock.now())
    }
}
