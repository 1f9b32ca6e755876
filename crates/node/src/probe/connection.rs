//! The connection of a probe.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

pub(super) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

pub(super) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
