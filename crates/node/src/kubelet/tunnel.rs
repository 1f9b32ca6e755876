//! A byte stream inside a websocket: kubectl's port-forward sends its SPDY frames as binary messages.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::channels::normal_close;

/// Reads and writes the payload of binary messages.
pub struct Tunnel<IO> {
    socket: WebSocketStream<IO>,
    rest: Bytes,
    said_end: bool,
}

impl<IO> Tunnel<IO> {
    /// Over a websocket after its handshake.
    pub fn new(socket: WebSocketStream<IO>) -> Self {
        Tunnel { socket, rest: Bytes::new(), said_end: false }
    }
}

fn broken(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::BrokenPipe.into(),
        error => io::Error::other(error),
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Tunnel<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                Some(Ok(Message::Binary(bytes))) => self.rest = bytes,
                Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(())),
                // Pings are answered below. Text messages have no meaning here and are skipped.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
            }
        }
        let count = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest[..count]);
        self.rest.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tunnel<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut socket = Pin::new(&mut self.socket);
        ready!(socket.as_mut().poll_ready(cx)).map_err(broken)?;
        socket.start_send(Message::Binary(Bytes::copy_from_slice(bytes))).map_err(broken)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx).map_err(broken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.said_end {
            let mut socket = Pin::new(&mut self.socket);
            if ready!(socket.as_mut().poll_ready(cx)).is_ok() {
                let _ = socket.start_send(normal_close());
            }
            self.said_end = true;
        }
        match ready!(Pin::new(&mut self.socket).poll_close(cx)) {
            Ok(()) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(broken(error))),
        }
    }
}
