//! The connection of a probe, and its failure.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

pub(super) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// An attempt of a probe that failed, in a kubelet's words where they are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProbeFailure(pub String);

impl ProbeFailure {
    /// The failure that `cause` describes.
    pub(crate) fn new(cause: impl std::fmt::Display) -> Self {
        ProbeFailure(cause.to_string())
    }
}
