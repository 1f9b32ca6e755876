//! A socket whose client must keep up, and that lets the last answer arrive before it closes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::unsent::WRITE_STALL;

/// How long a closing socket waits for its client to close too, after an answer to a body that nobody read.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes of such a body that a closing socket still takes.
const LINGER_BYTES: usize = 256 * 1024;

/// A socket whose reader must keep up: a write that waits too long fails.
///
/// A kernel that closes a socket with unread bytes in it resets the connection, and the client may lose an answer
/// that it has not read yet. So after such an answer the socket takes in a little more before it closes.
pub(super) struct Stalling<S> {
    inner: S,
    stalled: Option<Pin<Box<Sleep>>>,
    lingers: Arc<AtomicBool>,
    closing: Option<Closing>,
}

/// A socket whose own side is closed.
struct Closing {
    deadline: Pin<Box<Sleep>>,
    left: usize,
}

impl<S> Stalling<S> {
    /// Wraps a socket; `lingers` is set once an answer left a body unread.
    pub(super) fn new(inner: S, lingers: Arc<AtomicBool>) -> Self {
        Stalling { inner, stalled: None, lingers, closing: None }
    }

    /// Passes on the result of a write, or fails once the client has taken nothing for [`WRITE_STALL`].
    fn note_progress<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.stalled = None;
            return result;
        }
        let deadline = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + WRITE_STALL)));
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> Stalling<S> {
    /// Discards what the client still sends until it closes, or until it has had its chance.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let closing = self.closing.get_or_insert_with(|| Closing {
            deadline: Box::pin(tokio::time::sleep_until(Instant::now() + LINGER)),
            left: LINGER_BYTES,
        });
        let mut chunk = [0; 8 * 1024];
        while closing.left > 0 && closing.deadline.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut chunk);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    closing.left = closing.left.saturating_sub(buffer.filled().len());
                }
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.inner).poll_write(cx, buf);
        this.note_progress(cx, result)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.inner).poll_flush(cx);
        this.note_progress(cx, result)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.closing.is_none() {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
        }
        if this.lingers.load(Ordering::Relaxed) {
            ready!(this.linger(cx));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.inner).poll_write_vectored(cx, bufs);
        this.note_progress(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_given_up() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut socket = Stalling::new(ours, Arc::default());
        let began = Instant::now();
        let error = socket.write_all(&[0; 64]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), WRITE_STALL);
        let mut read = [0; 16];
        theirs.read_exact(&mut read).await.expect("what was sent before");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_fine_as_long_as_it_reads() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut socket = Stalling::new(ours, Arc::default());
        let write = async { socket.write_all(&[7; 64]).await };
        let read = async {
            let mut all = [0; 64];
            for piece in all.chunks_mut(8) {
                tokio::time::sleep(WRITE_STALL / 2).await;
                theirs.read_exact(piece).await.expect("the writer goes on");
            }
            all
        };
        let (written, read) = tokio::join!(write, read);
        written.expect("the reader reads");
        assert_eq!(read, [7; 64]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closing_socket_takes_in_what_is_under_way_for_a_second() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut socket = Stalling::new(ours, Arc::new(AtomicBool::new(true)));
        let began = Instant::now();
        let close = async {
            socket.shutdown().await.expect("a duplex closes");
            began.elapsed()
        };
        let (took, sent) = tokio::join!(close, theirs.write_all(&[0; 64]));
        sent.expect("all of it is taken");
        assert_eq!(took, LINGER, "the client never closes");
        let (ours, theirs) = tokio::io::duplex(16);
        let mut socket = Stalling::new(ours, Arc::new(AtomicBool::new(true)));
        drop(theirs);
        let began = Instant::now();
        socket.shutdown().await.expect("a duplex closes");
        assert_eq!(began.elapsed(), Duration::ZERO, "the client closes at once");
    }
}
