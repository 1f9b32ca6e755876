//! The client's side of an exec or attach session, whatever protocol carries it.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::terminal::Size;

/// Maximum number of pieces in flight in either direction. A slow client slows the program.
pub const PIECES: usize = 32;

/// The client's side of a session.
#[derive(Default)]
pub struct Client {
    /// The client's input. Closed at its end.
    pub stdin: Option<mpsc::Receiver<Bytes>>,
    /// The program's output.
    pub stdout: Option<mpsc::Sender<Bytes>>,
    /// The program's errors.
    pub stderr: Option<mpsc::Sender<Bytes>>,
    /// The size of the client's window, at each change.
    pub resize: Option<mpsc::Receiver<Size>>,
    /// Whether the program gets a terminal.
    pub tty: bool,
}
