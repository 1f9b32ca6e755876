//! Connections: TLS, HTTP/1.1 and HTTP/2, and their limits.

use std::convert::Infallible;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT};
use http::{HeaderValue, Method, Request, Response, Version};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use setpoint_serving::{Seat, Unauthenticated};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::auth::{Caller, ClientCertificate};
use crate::body::{Body, BoxError};
use crate::pki::ServingTls;
use crate::request_limits::FromSocket;
use crate::respond::{self, Known};
use crate::server::Server;

mod descriptors;
mod unread;
mod stalling;

use crate::unsent::{self, Unsent, room};
pub use descriptors::raise_open_files;
use stalling::Stalling;

/// Connections without an authenticated request.
const MAX_UNAUTHENTICATED: usize = 256;
/// Streams that one HTTP/2 connection may have open, as kube-apiserver has it. client-go opens another connection
/// when it needs more.
const MAX_STREAMS: u32 = 100;
/// Streams that a client may open and reset before we have answered, after which the connection is closed: more
/// is an attack, not a client that changes its mind.
const MAX_PENDING_RESETS: usize = 100;
/// Bytes of headers.
const MAX_HEADERS: u32 = 1 << 20;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a new connection may take to its first request's head, as kube-apiserver has it.
const FIRST_REQUEST: Duration = Duration::from_secs(32);
/// How long a connection may wait for the next request's head, as kube-apiserver has it.
const IDLE: Duration = Duration::from_secs(90);
/// How often somebody looks whether an HTTP/2 connection is idle.
const IDLE_CHECK: Duration = Duration::from_secs(15);
/// How often a silent HTTP/2 connection is asked whether it lives, and how long it has to answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(15);
/// How long answers under way may take once the server stops; watches end with it.
const DRAIN: Duration = Duration::from_millis(500);
/// How long the answer to a write waits for the watchers that it woke. More than a turn of the scheduler means that the
/// processor is busy, and then the answer goes first.
const WATCHERS_FIRST: Duration = Duration::from_millis(1);
/// How often expired objects are forgotten while connections are served.
const MAINTAIN: Duration = Duration::from_secs(10);

/// The state that the parts of one connection share.
#[derive(Default)]
struct Link {
    /// The place among the unauthenticated connections, until a request is authenticated.
    seat: Mutex<Option<Seat>>,
    /// A request came.
    has_spoken: AtomicBool,
    /// Requests come as HTTP/2 streams.
    has_streams: AtomicBool,
    /// An answer left a body unread.
    lingers: Arc<AtomicBool>,
    is_socket: bool,
}

impl Link {
    fn leave_seat(&self) {
        drop(self.seat.lock().expect("no holder of this lock panics").take());
    }
}

impl Server {
    /// Serves a listener until `shutdown`: new connections are refused at once, answers under way are finished,
    /// watches end.
    pub async fn serve(&self, listener: TcpListener, tls: ServingTls, shutdown: CancellationToken) {
        if let Some(authority) = &tls.client_ca {
            self.trust_clients_of(authority);
        }
        let most = descriptors::max_connections();
        let unauthenticated = Unauthenticated::new(MAX_UNAUTHENTICATED);
        let mut connections: JoinSet<()> = JoinSet::new();
        let mut maintain = tokio::time::interval(MAINTAIN);
        let mut next = Box::pin(unauthenticated.accept(&listener));
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                _ = maintain.tick() => self.maintain().await,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                (socket, seat, leave) = next.as_mut(), if connections.len() < most => {
                    let (server, tls, shutdown) = (self.clone(), tls.clone(), shutdown.clone());
                    connections.spawn(async move {
                        tokio::select! {
                            biased;
                            () = leave.cancelled() => {}
                            () = server.accept(socket, seat, tls, shutdown) => {}
                        }
                    });
                    next.set(unauthenticated.accept(&listener));
                }
            }
        }
        drop(next);
        drop(listener);
        let drained = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(DRAIN, drained).await;
    }

    async fn accept(self, socket: TcpStream, seat: Seat, tls: ServingTls, shutdown: CancellationToken) {
        let link = Link { seat: Mutex::new(Some(seat)), is_socket: true, ..Link::default() };
        let acceptor = TlsAcceptor::from(tls.config.clone());
        let _ = socket.set_nodelay(true);
        let socket = Stalling::new(socket, link.lingers.clone());
        let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(socket)).await else { return };
        let (_, session) = stream.get_ref();
        let chain = session.peer_certificates().filter(|chain| !chain.is_empty());
        let certificate = chain.map(|chain| Arc::new(ClientCertificate::new(chain, tls.clone())));
        if certificate.as_ref().is_some_and(|certificate| certificate.is_known(self.options())) {
            link.leave_seat();
        }
        let caller = Caller::Connection(certificate);
        self.serve_link(stream, caller, shutdown, Arc::new(link)).await;
    }

    /// Serves one connection that is established already: over TLS, or a pipe inside the process.
    pub async fn serve_io(
        &self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        caller: Caller,
        shutdown: CancellationToken,
    ) {
        self.serve_link(io, caller, shutdown, Arc::default()).await;
    }

    async fn serve_link(
        &self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        caller: Caller,
        shutdown: CancellationToken,
        link: Arc<Link>,
    ) {
        let tasks = Tasks::default();
        let service = service_fn(|request: Request<Incoming>| {
            let (server, caller, link) = (self.clone(), caller.clone(), link.clone());
            async move { Ok::<_, Infallible>(answer(&server, caller, &link, request).await) }
        });
        let builder = builder(&tasks);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(io), service);
        tokio::pin!(connection);
        let first_request = tokio::time::sleep(FIRST_REQUEST);
        tokio::pin!(first_request);
        let mut idle_check = tokio::time::interval(IDLE_CHECK);
        let mut idle_since: Option<Instant> = None;
        let mut is_new = true;
        loop {
            tokio::select! {
                biased;
                result = connection.as_mut() => return log_end(result),
                () = shutdown.cancelled() => break,
                () = first_request.as_mut(), if is_new => match link.has_spoken.load(Ordering::Relaxed) {
                    true => is_new = false,
                    false => return,
                },
                _ = idle_check.tick() => {
                    let is_idle = link.has_streams.load(Ordering::Relaxed) && tasks.is_idle();
                    let now = Instant::now();
                    idle_since = is_idle.then(|| idle_since.unwrap_or(now));
                    // A polite end: the client opens another connection for its next request.
                    if idle_since.is_some_and(|since| now - since >= IDLE) {
                        break;
                    }
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(DRAIN, connection).await;
    }
}

fn builder(tasks: &Tasks) -> Builder<Tasks> {
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
    builder
}

/// Answers one request of a connection, and sees to it that the answer arrives.
async fn answer(server: &Server, caller: Caller, link: &Link, request: Request<Incoming>) -> Response<Body> {
    link.has_spoken.store(true, Ordering::Relaxed);
    let is_stream = request.version() == Version::HTTP_2;
    link.has_streams.store(is_stream, Ordering::Relaxed);
    room().await;
    let is_expected = request.headers().contains_key(EXPECT);
    let is_head = request.method() == Method::HEAD;
    let (mut parts, body) = request.into_parts();
    if link.is_socket {
        parts.extensions.insert(FromSocket);
    }
    let (body, left) = unread::lend(body.map_err(BoxError::from).boxed_unsync());
    let writes = link.is_socket && !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let mut response = server.handle(caller, Request::from_parts(parts, body)).await;
    if writes {
        // The commit woke the watchers. They take their event first, as kube-apiserver's do: a client that reads its
        // cache after a write finds the write there. Then they have one turn to send it.
        let _ = tokio::time::timeout(WATCHERS_FIRST, server.store().watchers_have_looked()).await;
        tokio::task::yield_now().await;
    }
    if response.extensions_mut().remove::<Known>().is_some() {
        link.leave_seat();
    }
    if !left.discard(is_expected).await && !is_stream {
        link.lingers.store(true, Ordering::Relaxed);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if is_head && is_stream {
        return without_body(response);
    }
    unsent::pace(response)
}

/// The answer to HEAD: the length of the body, and no body. hyper drops the body over HTTP/1.1 only. Over HTTP/2 the
/// client would end the stream with a protocol error.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
    }
    response.map(|_| respond::full(bytes::Bytes::new()))
}

fn log_end(result: Result<(), BoxError>) {
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended");
    }
}

/// The HTTP/2 streams of one connection: their tasks end with it.
#[derive(Clone, Default)]
struct Tasks {
    tasks: Arc<Mutex<JoinSet<()>>>,
    unsent: Unsent,
}

impl Tasks {
    fn is_idle(&self) -> bool {
        let mut tasks = self.tasks.lock().expect("no holder of this lock panics");
        while tasks.try_join_next().is_some() {}
        tasks.is_empty()
    }
}

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let mut tasks = self.tasks.lock().expect("no holder of this lock panics");
        while tasks.try_join_next().is_some() {}
        tasks.spawn(unsent::stream(self.unsent.clone(), task));
    }
}
