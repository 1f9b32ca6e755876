//! One connection: TLS, HTTP/2 or HTTP/1.1, and its limits in time.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use setpoint_api::status::{Reason, Status};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::body;
use crate::webhook::options::ServingOptions;
use crate::webhook::{Route, Webhooks, failure};

/// The time for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time to the head of the first request.
const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// The time between two requests. Go's client keeps an idle connection for 90 seconds.
const IDLE: Duration = Duration::from_secs(120);
/// How often an HTTP/2 connection is looked at.
const IDLE_CHECK: Duration = Duration::from_secs(10);
/// The time for a request's body. The API server waits no longer for any webhook.
const BODY: Duration = Duration::from_secs(30);
/// Requests that one HTTP/2 connection may have open, as in the API server.
const MAX_STREAMS: u32 = 100;
/// Streams that a client may open and reset before it is an attack.
const MAX_PENDING_RESETS: usize = 100;
/// Bytes of headers.
const MAX_HEADERS: u32 = 64 << 10;
/// How often a silent HTTP/2 connection is asked whether it lives, and how long it has to answer.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));

/// The limits in space of one server.
#[derive(Clone)]
pub(super) struct Limits {
    review: usize,
    conversion: usize,
    room: Arc<Semaphore>,
}

impl Limits {
    pub(super) fn new(options: &ServingOptions, room: Arc<Semaphore>) -> Self {
        Limits { review: options.max_review_bytes, conversion: options.max_conversion_bytes, room }
    }
}

/// Serves one connection until it ends, is idle for too long, or the server stops. Requests under way are answered.
pub(super) async fn serve(
    socket: TcpStream,
    tls: Arc<ServerConfig>,
    webhooks: Webhooks,
    limits: Limits,
    stopping: CancellationToken,
) {
    // Reviews are small, and a request of a user waits for each.
    let _ = socket.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(tls).accept(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            // A caller that does not trust the certificate is found here.
            tracing::warn!(%error, "a TLS handshake with the webhooks failed");
            return;
        }
        Err(_) => return,
    };
    let (tasks, has_spoken) = (Tasks::default(), Arc::new(AtomicBool::new(false)));
    let spoken = Arc::clone(&has_spoken);
    let service = service_fn(move |request: Request<Incoming>| {
        spoken.store(true, Ordering::Relaxed);
        let (webhooks, limits) = (webhooks.clone(), limits.clone());
        async move { Ok::<_, Infallible>(answer(&webhooks, &limits, request).await) }
    });
    let builder = builder(&tasks);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut first_request = std::pin::pin!(tokio::time::sleep(FIRST_REQUEST));
    let mut idle_check = tokio::time::interval(IDLE_CHECK);
    let (mut is_new, mut busy_at) = (true, Instant::now());
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => return log_end(ended),
            () = stopping.cancelled() => break,
            () = first_request.as_mut(), if is_new => match has_spoken.load(Ordering::Relaxed) {
                true => is_new = false,
                false => return,
            },
            _ = idle_check.tick() => {
                // Streams of HTTP/2 are tasks. HTTP/1.1 has its own limit for the next head.
                if tasks.are_running() || !tasks.have_run() {
                    busy_at = Instant::now();
                } else if busy_at.elapsed() >= IDLE {
                    break;
                }
            }
        }
    }
    // A polite end: the client opens another connection for its next request. The manager's grace period is the limit.
    connection.as_mut().graceful_shutdown();
    log_end(connection.await);
}

fn builder(tasks: &Tasks) -> Builder<Tasks> {
    let mut builder = Builder::new(tasks.clone());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(MAX_HEADERS as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_header_list_size(MAX_HEADERS)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1);
    builder
}

async fn answer(webhooks: &Webhooks, limits: &Limits, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let most = match webhooks.routes.get(parts.uri.path()) {
        Some(Route::Conversion(_)) => limits.conversion,
        _ => limits.review,
    };
    let read = tokio::time::timeout(BODY, body::read(body, most, &limits.room)).await;
    let late = || Err(Status::failure(408, Reason::Timeout, format!("the body took longer than {BODY:?}")));
    let response = match read.unwrap_or_else(|_| late()) {
        Ok((bytes, _held)) => webhooks.call(Request::from_parts(parts, bytes)).await,
        Err(status) => {
            let path = parts.uri.path();
            tracing::warn!(webhook = path, error = status.message, "could not read a review");
            failure(&status)
        }
    };
    response.map(Full::new)
}

fn log_end(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the webhooks ended");
    }
}

/// The HTTP/2 streams of one connection. They end with it.
#[derive(Clone, Default)]
struct Tasks {
    tasks: Arc<Mutex<JoinSet<()>>>,
    any: Arc<AtomicBool>,
}

impl Tasks {
    fn are_running(&self) -> bool {
        let mut tasks = self.tasks.lock().expect("no holder of this lock panics");
        while tasks.try_join_next().is_some() {}
        !tasks.is_empty()
    }

    fn have_run(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }
}

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.any.store(true, Ordering::Relaxed);
        let mut tasks = self.tasks.lock().expect("no holder of this lock panics");
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}
