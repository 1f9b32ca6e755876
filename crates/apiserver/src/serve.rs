//! Connections: TLS, HTTP/1.1 and HTTP/2, and their limits.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::auth::Caller;
use crate::auth::authn::certificate_user;
use crate::pki::ServingTls;
use crate::server::{BoxError, Server};

/// Streams that one HTTP/2 connection may have open: client-go multiplexes its watches on one.
const MAX_STREAMS: u32 = 1000;
/// Streams that a client may open and reset before we have answered, after which the connection is closed: more
/// is an attack, not a client that changes its mind.
const MAX_PENDING_RESETS: usize = 100;
/// Bytes of headers.
const MAX_HEADERS: u32 = 1 << 20;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long an HTTP/1 connection may wait for the next request's head, as Go's server has it.
const IDLE: Duration = Duration::from_secs(90);
/// How long a client may leave bytes unread before its connection is closed.
const WRITE_STALL: Duration = Duration::from_secs(60);
/// How often a silent HTTP/2 connection is asked whether it lives, and how long it has to answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(15);
/// How long answers under way may take once the server stops; watches end with it.
const DRAIN: Duration = Duration::from_millis(500);
/// How often expired objects are forgotten while connections are served.
const MAINTAIN: Duration = Duration::from_secs(10);

impl Server {
    /// Serves a listener until `shutdown`: new connections are refused at once, answers under way are finished,
    /// watches end.
    pub async fn serve(&self, listener: TcpListener, tls: ServingTls, shutdown: CancellationToken) {
        if let Some(authority) = &tls.client_ca {
            self.trust_clients_of(authority);
        }
        let mut connections: JoinSet<()> = JoinSet::new();
        let mut maintain = tokio::time::interval(MAINTAIN);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => {
                        let (server, tls) = (self.clone(), tls.clone());
                        let shutdown = shutdown.clone();
                        connections.spawn(async move { server.accept(socket, tls, shutdown).await });
                    }
                    // Out of file descriptors: the next connection that closes makes room.
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                _ = maintain.tick() => self.maintain().await,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
        drop(listener);
        let drained = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(DRAIN, drained).await;
    }

    async fn accept(self, socket: TcpStream, tls: ServingTls, shutdown: CancellationToken) {
        let acceptor = TlsAcceptor::from(tls.config.clone());
        let _ = socket.set_nodelay(true);
        let socket = Stalling::new(socket);
        let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(socket)).await else { return };
        let (_, session) = stream.get_ref();
        // The certificate is read once a connection, not once a request.
        let caller = match session.peer_certificates() {
            None | Some([]) => Caller::Connection { client_certificate: None },
            Some(chain) if tls.vouches_for(chain, self.options().clock.now()) => {
                certificate_user(chain[0].as_ref()).map_or(Caller::Stranger, Caller::Trusted)
            }
            Some(_) => Caller::Stranger,
        };
        self.serve_io(stream, caller, shutdown).await;
    }

    /// Serves one connection that is established already: over TLS, or a pipe inside the process.
    pub async fn serve_io(
        &self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        caller: Caller,
        shutdown: CancellationToken,
    ) {
        let tasks = Tasks::default();
        let mut builder = Builder::new(tasks.clone());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE).keep_alive(true);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
            .max_header_list_size(MAX_HEADERS)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_ANSWER)
            .adaptive_window(true);
        let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
            let (server, caller) = (self.clone(), caller.clone());
            async move {
                let request = request.map(|body| body.map_err(BoxError::from).boxed_unsync());
                Ok::<_, Infallible>(server.handle(caller, request).await)
            }
        });
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(io), service);
        tokio::pin!(connection);
        tokio::select! {
            biased;
            result = connection.as_mut() => log_end(result),
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(DRAIN, connection).await;
            }
        }
    }
}

fn log_end(result: Result<(), BoxError>) {
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Tasks of one connection: they end with it.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let mut tasks = self.0.lock().expect("no holder of this lock panics");
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// A socket whose reader must keep up: a write that waits too long fails.
struct Stalling<S> {
    inner: S,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    fn new(inner: S) -> Self {
        Stalling { inner, stalled: None }
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
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

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.inner).poll_write(cx, buf);
        this.judge(cx, result)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.inner).poll_flush(cx);
        this.judge(cx, result)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.inner).poll_write_vectored(cx, bufs);
        this.judge(cx, result)
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
        let mut socket = Stalling::new(ours);
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
        let mut socket = Stalling::new(ours);
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
}
