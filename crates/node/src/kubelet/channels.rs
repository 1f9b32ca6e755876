//! The two carriers of an exec session: SPDY streams named by their headers, and websocket messages whose first
//! byte names the channel.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use super::session::{Session, Sizes};
use crate::process::streams::{Client, PIECES};
use crate::process::terminal::Size;
use crate::spdy::{Connection, Stream};

/// The SPDY protocol of exec and attach.
pub const SPDY_PROTOCOLS: &[&str] = &["v4.channel.k8s.io"];
/// The websocket protocols of exec and attach; the fifth adds a message that closes a channel.
pub const WEBSOCKET_PROTOCOLS: &[&str] = &["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// The streams that the client will use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The client sends input.
    pub stdin: bool,
    /// The client shows output.
    pub stdout: bool,
    /// The client shows errors.
    pub stderr: bool,
    /// The client wants a terminal, whose only output is the standard output.
    pub tty: bool,
}

impl Wanted {
    fn streams(self) -> usize {
        [self.stdin, self.stdout, self.stderr, self.tty].into_iter().filter(|wanted| *wanted).count()
    }
}

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Version 5: the second byte names the channel that its sender closed.
const CLOSE: u8 = 255;

/// Time that a client has to open its streams.
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// Serves one session over SPDY.
pub async fn over_spdy(io: impl AsyncRead + AsyncWrite + Send + 'static, session: Session, wanted: Wanted) {
    let mut connection = Connection::serve(io);
    let mut tasks = JoinSet::new();
    let opened = tokio::time::timeout(OPEN_WITHIN, open(&mut connection, wanted, &mut tasks)).await;
    let Ok(Some((client, error, incoming))) = opened else { return };
    let status = tokio::select! {
        biased;
        status = session.run(client) => status,
        // If the client leaves, the session ends, and dropping the session ends the program.
        () = closed(&mut connection) => return,
    };
    // Send the output first: the client takes the status as the end.
    while tasks.len() > incoming {
        tasks.join_next().await;
    }
    let _ = error.writer.write(Bytes::from(status.to_string())).await;
    let _ = error.writer.finish().await;
    // The client closes the connection when it has read the status.
    let _ = tokio::time::timeout(OPEN_WITHIN, closed(&mut connection)).await;
}

async fn closed(connection: &mut Connection) {
    while connection.accept().await.is_some() {}
}

/// Waits for the announced streams. Returns the error stream apart, and the number of tasks that never end.
async fn open(
    connection: &mut Connection,
    wanted: Wanted,
    tasks: &mut JoinSet<()>,
) -> Option<(Client, Stream, usize)> {
    let mut client = Client { tty: wanted.tty, ..Client::default() };
    let mut error = None;
    let mut missing = 1 + wanted.streams();
    while missing > 0 {
        let stream = connection.accept().await?;
        missing -= 1;
        match stream.headers.get("streamtype").map(String::as_str) {
            Some("error") => error = Some(stream),
            Some("stdin") => client.stdin = Some(input(stream, tasks)),
            Some("stdout") => client.stdout = Some(output(stream, tasks)),
            Some("stderr") => client.stderr = Some(output(stream, tasks)),
            Some("resize") => client.resize = Some(sizes(stream, tasks)),
            // A stream that the request did not ask for does not count.
            _ => missing += 1,
        }
    }
    let incoming = usize::from(client.stdin.is_some()) + usize::from(client.resize.is_some());
    Some((client, error?, incoming))
}

fn sizes(stream: Stream, tasks: &mut JoinSet<()>) -> mpsc::Receiver<Size> {
    let (sender, receiver) = mpsc::channel(PIECES);
    let mut reader = stream.reader;
    tasks.spawn(async move {
        let mut sizes = Sizes::default();
        while let Some(bytes) = reader.next().await {
            if let Some(size) = sizes.push(&bytes) {
                // If the channel is full, a newer size follows.
                let _ = sender.try_send(size);
            }
        }
        std::future::pending::<()>().await;
    });
    receiver
}

fn input(stream: Stream, tasks: &mut JoinSet<()>) -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(PIECES);
    let mut reader = stream.reader;
    tasks.spawn(async move {
        while let Some(bytes) = reader.next().await {
            // Once the program has ended, further input is dropped.
            let _ = sender.send(bytes).await;
        }
        drop(sender);
        std::future::pending::<()>().await;
    });
    receiver
}

fn output(stream: Stream, tasks: &mut JoinSet<()>) -> mpsc::Sender<Bytes> {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(PIECES);
    tasks.spawn(async move {
        while let Some(bytes) = receiver.recv().await {
            if stream.writer.write(bytes).await.is_err() {
                break;
            }
        }
        let _ = stream.writer.finish().await;
    });
    sender
}

/// Serves one session over a websocket.
pub async fn over_websocket(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    session: Session,
    wanted: Wanted,
) {
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
    let (mut send, mut receive) = socket.split();
    let (typed, stdin) = mpsc::channel(PIECES);
    let (sized, resize) = mpsc::channel(PIECES);
    let (stdout, mut shown) = mpsc::channel::<Bytes>(PIECES);
    let (stderr, mut complained) = mpsc::channel::<Bytes>(PIECES);
    let client = Client {
        stdin: wanted.stdin.then_some(stdin),
        stdout: wanted.stdout.then_some(stdout),
        stderr: wanted.stderr.then_some(stderr),
        resize: wanted.tty.then_some(resize),
        tty: wanted.tty,
    };
    let typing = async move {
        let mut typed = Typed { stdin: Some(typed), resize: sized, sizes: Sizes::default() };
        while let Some(Ok(message)) = receive.next().await {
            match message {
                Message::Binary(bytes) => typed.take(&bytes).await,
                Message::Close(_) => break,
                _ => {}
            }
        }
    };
    let showing = async {
        let run = session.run(client);
        tokio::pin!(run);
        let mut status = None;
        loop {
            tokio::select! {
                biased;
                Some(bytes) = shown.recv() => send_on(&mut send, STDOUT, &bytes).await,
                Some(bytes) = complained.recv() => send_on(&mut send, STDERR, &bytes).await,
                ended = &mut run, if status.is_none() => status = Some(ended),
                else => break,
            }
        }
        let status = status.map(|status| status.to_string()).unwrap_or_default();
        send_on(&mut send, ERROR, status.as_bytes()).await;
        let _ = send.send(normal_close()).await;
    };
    tokio::pin!(typing);
    tokio::select! {
        biased;
        () = showing => {}
        // If the client leaves, the session ends, and dropping the session ends the program.
        () = &mut typing => return,
    }
    // Closing a connection on which the client still sends would reset it, and lose the status.
    let _ = tokio::time::timeout(OPEN_WITHIN, typing).await;
}

/// kubectl takes any other code for a failure.
pub fn normal_close() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))
}

/// The input of the client.
struct Typed {
    stdin: Option<mpsc::Sender<Bytes>>,
    resize: mpsc::Sender<Size>,
    sizes: Sizes,
}

impl Typed {
    async fn take(&mut self, message: &Bytes) {
        match message.split_first() {
            Some((&STDIN, rest)) if !rest.is_empty() => {
                if let Some(stdin) = &self.stdin {
                    let _ = stdin.send(message.slice(1..)).await;
                }
            }
            Some((&RESIZE, rest)) => {
                if let Some(size) = self.sizes.push(rest) {
                    let _ = self.resize.try_send(size);
                }
            }
            Some((&CLOSE, [STDIN])) => self.stdin = None,
            _ => {}
        }
    }
}

async fn send_on<S>(send: &mut S, channel: u8, bytes: &[u8])
where
    S: futures::Sink<Message> + Unpin,
{
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(channel);
    message.extend_from_slice(bytes);
    // The reading half notices when the client is gone.
    let _ = send.send(Message::Binary(message.into())).await;
}
