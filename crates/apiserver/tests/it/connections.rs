//! Limits of connections: what clients may leave unread, unsent and unsaid.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use jiff::Timestamp;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::json;
use setpoint_apiserver::pki::{Authority, ServingTls};
use setpoint_apiserver::{Caller, UserInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, MAPS, map, start};

type Sender = http2::SendRequest<UnsyncBoxBody<Bytes, Infallible>>;

/// A pipe to the server, and the server's end of it.
fn pipe(cluster: &Cluster, caller: Caller, tasks: &mut JoinSet<()>) -> DuplexStream {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let server = cluster.server.clone();
    tasks.spawn(async move { server.serve_io(far, caller, CancellationToken::new()).await });
    near
}

fn admin() -> Caller {
    Caller::Trusted(UserInfo::admin("admin"))
}

fn nobody() -> Caller {
    Caller::Connection(None)
}

async fn http2(io: DuplexStream, window: u32, tasks: &mut JoinSet<()>) -> Sender {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).initial_stream_window_size(window);
    let (sender, connection) = builder.handshake(TokioIo::new(io)).await.unwrap();
    tasks.spawn(async move { drop(connection.await) });
    sender
}

fn get(path: &str) -> Request<UnsyncBoxBody<Bytes, Infallible>> {
    Request::get(format!("http://x{path}")).body(Full::default().boxed_unsync()).unwrap()
}

/// A list of about 4 MB.
async fn fill(cluster: &Cluster) {
    for at in 0..5 {
        let object = map(&format!("m{at}"), json!({"k": "x".repeat(900_000)}));
        cluster.post(MAPS, &object).await.expect(201);
    }
}

/// Lists that are made piece by piece and whole, and how many of them a connection holds: 16 MiB, and what reaches that
/// is made to its end.
const LISTS: [(&str, usize); 2] = [("", 19), ("pretty=true", 4)];

/// Asks for the list many times over a connection that opens no window.
async fn pin_down(cluster: &Cluster, query: &str, tasks: &mut JoinSet<()>) -> JoinSet<Answered> {
    let io = pipe(cluster, admin(), tasks);
    let sender = http2(io, 0, tasks).await;
    let mut heads = JoinSet::new();
    for _ in 0..30 {
        let mut sender = sender.clone();
        let request = get(&format!("{MAPS}?{query}"));
        heads.spawn(async move { sender.send_request(request).await });
    }
    heads
}

type Answered = hyper::Result<http::Response<hyper::body::Incoming>>;

fn answered(heads: &mut JoinSet<Answered>) -> Vec<http::Response<hyper::body::Incoming>> {
    std::iter::from_fn(|| heads.try_join_next()).map(|head| head.unwrap().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_opens_no_window_holds_few_answers_and_not_for_long() {
    let cluster = start().await;
    fill(&cluster).await;
    for (query, count) in LISTS {
        let mut tasks = JoinSet::new();
        let mut heads = pin_down(&cluster, query, &mut tasks).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let held = answered(&mut heads);
        assert_eq!(held.len(), count, "{query}");
        let began = Instant::now();
        for answer in held {
            answer.into_body().collect().await.expect_err("the stream is reset");
        }
        assert_eq!(began.elapsed(), Duration::from_secs(40), "60 seconds after it was made");
        heads.join_next().await.unwrap().unwrap().expect("there is room for the next");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_that_waited_for_the_same_version_share_the_bound() {
    let cluster = start().await;
    fill(&cluster).await;
    for (query, count) in LISTS {
        let mut tasks = JoinSet::new();
        let next = cluster.server.store().revision() + 1;
        let mut heads = pin_down(&cluster, &format!("resourceVersion={next}&{query}"), &mut tasks).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(answered(&mut heads).is_empty(), "the version is not there yet");
        cluster.post(MAPS, &map(&format!("z{next}"), json!({}))).await.expect(201);
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(answered(&mut heads).len(), count, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_read_get_whole_answers() {
    let cluster = start().await;
    fill(&cluster).await;
    for query in ["", "pretty=true"] {
        let path = format!("{MAPS}?{query}");
        let whole = cluster.get(&path).await.bytes;
        let mut tasks = JoinSet::new();
        let io = pipe(&cluster, admin(), &mut tasks);
        let sender = http2(io, 64 * 1024, &mut tasks).await;
        let mut answers = JoinSet::new();
        for _ in 0..8 {
            let (mut sender, request) = (sender.clone(), get(&path));
            answers.spawn(async move {
                let answer = sender.send_request(request).await.unwrap();
                answer.into_body().collect().await.unwrap().to_bytes()
            });
        }
        while let Some(answer) = answers.join_next().await {
            assert!(answer.unwrap() == whole);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_events_is_not_taken_for_a_stalled_one() {
    let cluster = start().await;
    let mut tasks = JoinSet::new();
    let io = pipe(&cluster, admin(), &mut tasks);
    let mut sender = http2(io, 64 * 1024, &mut tasks).await;
    let answer = sender.send_request(get(&format!("{MAPS}?watch=true&timeoutSeconds=600"))).await.unwrap();
    let mut body = answer.into_body();
    for name in ["a", "b"] {
        tokio::time::sleep(Duration::from_secs(200)).await;
        cluster.post(MAPS, &map(name, json!({}))).await.expect(201);
        assert!(
            body.frame().await.unwrap().unwrap().into_data().unwrap().starts_with(b"{\"type\":\"ADDED\"")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn connections_without_requests_end() {
    let cluster = start().await;
    let mut tasks = JoinSet::new();
    // Silent from the beginning.
    let mut silent = pipe(&cluster, admin(), &mut tasks);
    let began = Instant::now();
    assert_eq!(silent.read(&mut [0; 8]).await.unwrap(), 0);
    assert_eq!(began.elapsed(), Duration::from_secs(32));
    // HTTP/2 is greeted, and nothing is asked.
    let io = pipe(&cluster, admin(), &mut tasks);
    let mut greeted = JoinSet::new();
    let sender = http2(io, 64 * 1024, &mut greeted).await;
    let began = Instant::now();
    while !sender.is_closed() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(began.elapsed() <= Duration::from_secs(34), "{:?}", began.elapsed());
    // Something was asked once.
    let io = pipe(&cluster, admin(), &mut tasks);
    let mut sender = http2(io, 64 * 1024, &mut greeted).await;
    sender.send_request(get("/version")).await.unwrap().into_body().collect().await.unwrap();
    let began = Instant::now();
    while !sender.is_closed() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let took = began.elapsed().as_secs();
    assert!((90..=110).contains(&took), "{took}");
}

/// Writes that are refused: whom, the path, and with what code.
const REFUSED: [(bool, &str, u16); 3] =
    [(false, MAPS, 403), (true, "/apis/none.io/v1/things", 404), (true, "/nothing", 404)];

#[tokio::test(start_paused = true)]
async fn a_refused_write_leaves_its_connection_usable() {
    let cluster = start().await;
    for (known, path, code) in REFUSED {
        let mut tasks = JoinSet::new();
        let mut io = pipe(&cluster, if known { admin() } else { nobody() }, &mut tasks);
        for _ in 0..2 {
            let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 150000\r\n\r\n");
            io.write_all(head.as_bytes()).await.unwrap();
            io.write_all(&[b' '; 150_000]).await.unwrap();
            let answer = read_answer(&mut io).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{path} {answer}");
            assert!(!answer.contains("connection: close"), "{answer}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_that_goes_on_is_answered_within_a_second_and_its_connection_closed() {
    let cluster = start().await;
    let mut tasks = JoinSet::new();
    let mut io = pipe(&cluster, nobody(), &mut tasks);
    let began = Instant::now();
    let head = format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 150000\r\n\r\n{{");
    io.write_all(head.as_bytes()).await.unwrap();
    let answer = read_answer(&mut io).await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("connection: close"), "{answer}");
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    // A client that sent `Expect: 100-continue` is not asked for the body.
    let mut io = pipe(&cluster, nobody(), &mut tasks);
    let began = Instant::now();
    let head =
        format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 150000\r\n\r\n");
    io.write_all(head.as_bytes()).await.unwrap();
    assert!(read_answer(&mut io).await.starts_with("HTTP/1.1 403 "));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_refused_stream_ends_without_an_error() {
    let cluster = start().await;
    let mut tasks = JoinSet::new();
    let io = pipe(&cluster, nobody(), &mut tasks);
    let mut sender = http2(io, 64 * 1024, &mut tasks).await;
    let piece = || Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"{")));
    let endless = futures::stream::iter([piece()]).chain(futures::stream::pending());
    let request = Request::post(format!("http://x{MAPS}"));
    let request = request.body(StreamBody::new(endless).boxed_unsync()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 403);
    let status =
        answer.into_body().collect().await.expect("a reset without an error ends the body").to_bytes();
    assert!(status.starts_with(b"{"), "{status:?}");
    assert_eq!(sender.send_request(get("/version")).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_head_has_a_length_and_no_body() {
    let cluster = start().await;
    let mut tasks = JoinSet::new();
    let io = pipe(&cluster, admin(), &mut tasks);
    let mut sender = http2(io, 64 * 1024, &mut tasks).await;
    for (path, code) in [("/version", 200), ("/nothing", 404), (MAPS, 405)] {
        let whole = sender.send_request(get(path)).await.unwrap().into_body().collect().await.unwrap();
        let mut head = get(path);
        *head.method_mut() = Method::HEAD;
        let answer = sender.send_request(head).await.unwrap();
        assert_eq!(answer.status(), code, "{path}");
        let length = answer.headers()["content-length"].to_str().unwrap().to_owned();
        let body = answer.into_body().collect().await.expect("the stream ends without an error");
        assert!(body.to_bytes().is_empty(), "{path}");
        if code != 405 {
            assert_eq!(length, whole.to_bytes().len().to_string(), "{path}");
        }
    }
}

/// Reads one answer with a length.
pub async fn read_answer(io: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse::<usize>().unwrap() {
                return text.into_owned();
            }
        }
        let mut chunk = [0; 1024];
        let count = io.read(&mut chunk).await.expect("the answer arrives");
        assert_ne!(count, 0, "{text}");
        read.extend_from_slice(&chunk[..count]);
    }
}

/// The time of the certificates.
#[derive(Debug)]
struct Then;

impl rustls::time_provider::TimeProvider for Then {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000)))
    }
}

/// A server behind a socket, with TLS.
pub struct Listening {
    address: SocketAddr,
    tls: Arc<rustls::ClientConfig>,
    _tasks: JoinSet<()>,
}

impl Listening {
    fn start(cluster: &Cluster, listener: TcpListener) -> Listening {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let authority = Authority::generate(now).unwrap();
        let identity = authority.serving(&[], &[IpAddr::V4(Ipv4Addr::LOCALHOST)], now).unwrap();
        let serving = ServingTls::new(&identity, None, None).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        let pem = &authority.identity().certificate;
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_details(provider, Arc::new(Then))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let address = listener.local_addr().unwrap();
        let (server, mut tasks) = (cluster.server.clone(), JoinSet::new());
        tasks.spawn(async move { server.serve(listener, serving, CancellationToken::new()).await });
        Listening { address, tls: Arc::new(tls), _tasks: tasks }
    }

    pub async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(self.address).await?;
        let name = ServerName::from(self.address.ip());
        tokio_rustls::TlsConnector::from(self.tls.clone()).connect(name, socket).await
    }
}

pub async fn listening(cluster: &Cluster) -> Listening {
    Listening::start(cluster, TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap())
}

#[tokio::test]
async fn refused_writes_are_answered_over_a_socket_too() {
    let cluster = start().await;
    let listening = listening(&cluster).await;
    // The server reads 3 MiB of the last one, and discards the rest.
    let sent = [(MAPS, "", 100, 403), (MAPS, "", 400_000, 403), (MAPS, "alice", 3_300_000, 403)];
    for (path, token, length, code) in sent {
        for _ in 0..5 {
            let mut stream = listening.connect().await.unwrap();
            let bearer = if token.is_empty() { "" } else { "authorization: Bearer alice\r\n" };
            let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\n{bearer}content-length: {length}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
            // A client that minds the answer reads it while it writes.
            let (mut read, mut write) = tokio::io::split(stream);
            let write = async move {
                let _ = write.write_all(&vec![b' '; length]).await;
                write
            };
            let (answer, _write) = tokio::join!(read_answer(&mut read), write);
            assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
        }
    }
}

#[tokio::test]
async fn silent_connections_make_room_for_others() {
    let cluster = start().await;
    let listening = listening(&cluster).await;
    let mut first = listening.connect().await.unwrap();
    let mut others = Vec::new();
    for _ in 0..256 {
        others.push(TcpStream::connect(listening.address).await.unwrap());
    }
    let gone = tokio::time::timeout(Duration::from_secs(60), first.read(&mut [0; 8])).await;
    let read = gone.expect("the oldest goes before its time is up");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let mut late = listening.connect().await.unwrap();
    let request = format!("{} /version HTTP/1.1\r\nhost: x\r\n\r\n", Method::GET);
    late.write_all(request.as_bytes()).await.unwrap();
    assert!(read_answer(&mut late).await.starts_with("HTTP/1.1 200 "));
}
