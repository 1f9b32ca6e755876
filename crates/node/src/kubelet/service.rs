//! Routes a kubelet's paths to the pods of this process.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use setpoint_api::Clock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::channels::{self, Wanted};
use super::port_forward::{self, Dial};
use super::session::Session;
use super::tunnel::Tunnel;
use super::upgrade::{Upgrade, UpgradeError};
use crate::log::{Log, LogOptions, LogReader};
use crate::process::attach::Attachment;
use crate::process::exec::ExecCommand;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Maximum number of upgraded sessions. Further ones are refused.
const SESSIONS: usize = 1024;

/// A container of a pod, as a path names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerName {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The container; empty for paths that name none.
    pub container: String,
}

/// The reason why a request about a pod cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// This node has no such pod or container.
    #[error("{0}")]
    NotFound(String),
    /// The container is here, but does not support the request.
    #[error("{0}")]
    Refused(String),
    /// The container is here, but does not support the request yet.
    #[error("{0}")]
    NotYet(String),
}

/// The source of a container's log.
pub enum LogSource {
    /// A file that may still grow.
    File(Log),
    /// The whole log.
    Lines(Vec<u8>),
}

/// The pods behind the paths.
pub trait Host: Clone + Send + Sync + 'static {
    /// Opens connections to a pod's ports.
    type Dial: Dial;
    /// The list of the node's pods.
    fn pods(&self) -> Value;
    /// Returns a container's log, or its previous run's.
    fn log(&self, name: &ContainerName, previous: bool) -> Result<LogSource, HostError>;
    /// Returns the program that runs `command` beside a container.
    fn exec(&self, name: &ContainerName, command: &[String]) -> Result<ExecCommand, HostError>;
    /// A container's own streams.
    fn attach(&self, name: &ContainerName) -> Result<Attachment, HostError>;
    /// Returns the dialer of a pod's ports.
    fn dial(&self, name: &ContainerName) -> Result<Self::Dial, HostError>;
}

/// The HTTP service of a node. Clones share its sessions; dropping the last ends them.
#[derive(Clone)]
pub struct Service<H> {
    host: H,
    clock: Clock,
    sessions: Arc<Mutex<JoinSet<()>>>,
}

impl<H: Host> Service<H> {
    /// Creates a service for these pods.
    pub fn new(host: H, clock: Clock) -> Self {
        Service { host, clock, sessions: Arc::default() }
    }

    /// Returns the pods.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Serves HTTP/1.1 over one connection, upgrades included, until it ends.
    pub async fn serve(&self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let answer = hyper::service::service_fn(|request| {
            let service = self.clone();
            async move { Ok::<_, Infallible>(service.handle(request)) }
        });
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(io), answer);
        // A client that breaks off needs no report.
        let _ = connection.with_upgrades().await;
    }

    /// Answers one request.
    pub fn handle<B>(&self, mut request: Request<B>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let name = |container: &str| ContainerName {
            namespace: parts[1].into(),
            pod: parts[2].into(),
            container: container.into(),
        };
        let answer = match parts.as_slice() {
            ["healthz"] | ["healthz", "ping" | "syncloop"] => Ok(text(StatusCode::OK, "ok")),
            ["pods"] if request.method() == Method::GET => Ok(json(&self.host.pods())),
            ["containerLogs", _, _, container] if request.method() == Method::GET => {
                self.logs(&name(container), request.uri().query())
            }
            ["portForward", _, _] => self.port_forward(&name(""), &mut request),
            ["exec", _, _, container] => self.exec(&name(container), &mut request),
            ["attach", _, _, container] => self.attach(&name(container), &mut request),
            _ => Ok(text(StatusCode::NOT_FOUND, "404 page not found\n")),
        };
        answer.unwrap_or_else(|refusal| text(refusal.status(), &refusal.to_string()))
    }

    fn logs(&self, name: &ContainerName, query: Option<&str>) -> Result<Response<Body>, Refusal> {
        let pairs = pairs(query);
        let options =
            LogOptions::from_query(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))
                .map_err(|error| Refusal::Query(error.to_string()))?;
        let now = self.clock.now();
        let body = match self.host.log(name, options.previous)? {
            LogSource::Lines(lines) => full(options.select(&lines, now)),
            LogSource::File(log) if options.follow => follow(log, options, self.clock.clone())?,
            LogSource::File(log) => full(options.select(&log.read()?, now)),
        };
        let mut response = Response::new(body);
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain"));
        Ok(response)
    }

    fn port_forward<B>(
        &self,
        name: &ContainerName,
        request: &mut Request<B>,
    ) -> Result<Response<Body>, Refusal> {
        let dial = self.host.dial(name)?;
        let known = [port_forward::TUNNEL_PROTOCOL, super::ports::PROTOCOL];
        let upgrade = Upgrade::negotiate(request.headers(), &[port_forward::PROTOCOL], &known)?;
        let ports = super::ports::from_query(&pairs(request.uri().query()));
        let response = upgrade.response();
        self.session(request, move |io| async move {
            match upgrade {
                Upgrade::Spdy(_) => port_forward::serve(io, dial).await,
                Upgrade::WebSocket { protocol, .. } => {
                    let socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
                    if protocol == port_forward::TUNNEL_PROTOCOL {
                        port_forward::serve(Tunnel::new(socket), dial).await;
                    } else {
                        super::ports::serve(socket, &ports, dial).await;
                    }
                }
            }
        })?;
        Ok(response)
    }

    fn exec<B>(&self, name: &ContainerName, request: &mut Request<B>) -> Result<Response<Body>, Refusal> {
        let pairs = pairs(request.uri().query());
        let command: Vec<String> =
            pairs.iter().filter(|(name, _)| name == "command").map(|(_, value)| value.clone()).collect();
        let session = Session::Exec(self.host.exec(name, &command)?);
        self.streams(request, session, wanted(&pairs))
    }

    fn attach<B>(&self, name: &ContainerName, request: &mut Request<B>) -> Result<Response<Body>, Refusal> {
        let session = Session::Attach(self.host.attach(name)?);
        let wanted = wanted(&pairs(request.uri().query()));
        self.streams(request, session, wanted)
    }

    fn streams<B>(
        &self,
        request: &mut Request<B>,
        session: Session,
        wanted: Wanted,
    ) -> Result<Response<Body>, Refusal> {
        let upgrade =
            Upgrade::negotiate(request.headers(), channels::SPDY_PROTOCOLS, channels::WEBSOCKET_PROTOCOLS)?;
        let response = upgrade.response();
        self.session(request, move |io| async move {
            match upgrade {
                Upgrade::Spdy(_) => channels::over_spdy(io, session, wanted).await,
                Upgrade::WebSocket { .. } => channels::over_websocket(io, session, wanted).await,
            }
        })?;
        Ok(response)
    }

    /// Runs `serve` on the connection after the 101 was sent.
    fn session<B, F, S>(&self, request: &mut Request<B>, serve: S) -> Result<(), Refusal>
    where
        S: FnOnce(TokioIo<hyper::upgrade::Upgraded>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let upgraded = hyper::upgrade::on(request);
        let mut sessions = self.sessions.lock().expect("no holder of this lock panics");
        while sessions.try_join_next().is_some() {}
        if sessions.len() >= SESSIONS {
            return Err(Refusal::Host(HostError::Refused(format!("{SESSIONS} sessions are open already"))));
        }
        sessions.spawn(async move {
            if let Ok(upgraded) = upgraded.await {
                serve(TokioIo::new(upgraded)).await;
            }
        });
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("{0}")]
    Host(#[from] HostError),
    #[error("{0}")]
    Upgrade(#[from] UpgradeError),
    #[error("{0}")]
    Query(String),
    #[error("{0}")]
    Log(#[from] io::Error),
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Refusal::Host(HostError::NotFound(_)) => StatusCode::NOT_FOUND,
            Refusal::Host(HostError::Refused(_)) => StatusCode::FORBIDDEN,
            Refusal::Host(HostError::NotYet(_))
            | Refusal::Upgrade(UpgradeError::Missing)
            | Refusal::Query(_) => StatusCode::BAD_REQUEST,
            Refusal::Upgrade(UpgradeError::Protocol { .. }) => StatusCode::FORBIDDEN,
            Refusal::Log(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

pub fn text(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(full(text.as_bytes().to_vec()));
    *response.status_mut() = status;
    response
}

fn json(value: &Value) -> Response<Body> {
    let mut response = Response::new(full(value.to_string().into_bytes()));
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn full(bytes: Vec<u8>) -> Body {
    if bytes.is_empty() {
        return Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync();
    }
    Full::new(Bytes::from(bytes)).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// Streams the stored lines, then new ones, until the container ends, the limit is reached or the client leaves.
fn follow(log: Log, options: LogOptions, clock: Clock) -> io::Result<Body> {
    let (kept, reader) = log.follow()?;
    let first = options.select(&kept, clock.now());
    let rest = Following {
        first: Some(first),
        reader,
        left: options.limit_bytes.unwrap_or(usize::MAX),
        options: LogOptions { tail_lines: None, ..options },
        clock,
    };
    let frames = stream::unfold(rest, |mut following| async move {
        let frame = following.next().await.transpose()?;
        Some((frame.map(|bytes| Frame::data(Bytes::from(bytes))), following))
    });
    Ok(BodyExt::boxed_unsync(StreamBody::new(frames)))
}

struct Following {
    first: Option<Vec<u8>>,
    reader: LogReader,
    options: LogOptions,
    left: usize,
    clock: Clock,
}

impl Following {
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut bytes = match self.first.take().filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => bytes,
            None => match self.reader.next().await? {
                Some(lines) => self.options.select(&lines, self.clock.now()),
                None => return Ok(None),
            },
        };
        bytes.truncate(self.left);
        self.left -= bytes.len();
        Ok(Some(bytes))
    }
}

/// Returns the streams that a query asks for. A terminal has no separate errors.
fn wanted(pairs: &[(String, String)]) -> Wanted {
    let is_set = |wanted: &str| {
        pairs.iter().any(|(name, value)| name == wanted && matches!(value.as_str(), "1" | "true"))
    };
    let tty = is_set("tty");
    Wanted { stdin: is_set("input"), stdout: is_set("output"), stderr: is_set("error") && !tty, tty }
}

/// The decoded pairs of a query.
fn pairs(query: Option<&str>) -> Vec<(String, String)> {
    let parts = query.unwrap_or_default().split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(a, b)| (decode(a), decode(b)))
        .collect()
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match (byte, escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(value)) => {
                bytes.push(value);
                rest = &after[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = after;
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
