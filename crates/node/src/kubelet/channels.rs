//! The two carriers of an exec session: SPDY streams named by their headers, and websocket messages whose first
//! byte names the channel.

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use super::exec::{self, Client, ExecCommand, PIECES};
use crate::spdy::{Connection, Stream};

/// The SPDY protocol of exec and attach.
pub const SPDY_PROTOCOLS: &[&str] = &["v4.channel.k8s.io"];
/// The websocket protocols of exec and attach; the fifth adds a message that closes a channel.
pub const WEBSOCKET_PROTOCOLS: &[&str] = &["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// Which streams the client will use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// It sends input.
    pub stdin: bool,
    /// It shows output.
    pub stdout: bool,
    /// It shows errors.
    pub stderr: bool,
}

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
/// Version 5: the second byte names the channel that its sender closed.
const CLOSE: u8 = 255;

/// Serves one session over SPDY.
pub async fn over_spdy(io: impl AsyncRead + AsyncWrite + Send + 'static, exec: ExecCommand, wanted: Wanted) {
    let mut connection = Connection::serve(io);
    let mut expected =
        1 + usize::from(wanted.stdin) + usize::from(wanted.stdout) + usize::from(wanted.stderr);
    let mut error = None;
    let mut client = Client { stdin: None, stdout: None, stderr: None };
    let mut tasks = JoinSet::new();
    while expected > 0 {
        let Some(stream) = connection.accept().await else { return };
        expected -= 1;
        match stream.headers.get("streamtype").map(String::as_str) {
            Some("error") => error = Some(stream),
            Some("stdin") => client.stdin = Some(input(stream, &mut tasks)),
            Some("stdout") => client.stdout = Some(output(stream, &mut tasks)),
            Some("stderr") => client.stderr = Some(output(stream, &mut tasks)),
            // A stream that nobody asked for does not count.
            _ => expected += 1,
        }
    }
    let status = exec::run(&exec, client).await;
    // Output first: the client takes the status as the end.
    while tasks.len() > usize::from(wanted.stdin) {
        tasks.join_next().await;
    }
    if let Some(error) = error {
        let _ = error.writer.write(Bytes::from(status.to_string())).await;
        let _ = error.writer.finish().await;
    }
    // The client closes the connection when it has read the status.
    while connection.accept().await.is_some() {}
}

fn input(stream: Stream, tasks: &mut JoinSet<()>) -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(PIECES);
    let mut reader = stream.reader;
    tasks.spawn(async move {
        while let Some(bytes) = reader.next().await {
            if sender.send(bytes).await.is_err() {
                // The program ended; what is still typed has nowhere to go.
                std::future::pending::<()>().await;
            }
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
    exec: ExecCommand,
    wanted: Wanted,
) {
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
    let (mut send, mut receive) = socket.split();
    let (typed, stdin) = mpsc::channel(PIECES);
    let (stdout, mut shown) = mpsc::channel::<Bytes>(PIECES);
    let (stderr, mut complained) = mpsc::channel::<Bytes>(PIECES);
    let client = Client {
        stdin: wanted.stdin.then_some(stdin),
        stdout: wanted.stdout.then_some(stdout),
        stderr: wanted.stderr.then_some(stderr),
    };
    let typing = async move {
        let mut typed = Some(typed);
        while let Some(Ok(message)) = receive.next().await {
            match message {
                Message::Binary(bytes) => type_in(&bytes, &mut typed).await,
                Message::Close(_) => break,
                _ => {}
            }
        }
    };
    let showing = async {
        let run = exec::run(&exec, client);
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
        // kubectl takes any other code for a failure.
        let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        let _ = send.send(Message::Close(Some(normal))).await;
    };
    tokio::select! {
        biased;
        () = showing => {}
        // A client that goes away ends the session, and dropping the session ends the program.
        () = typing => {}
    }
}

async fn type_in(message: &Bytes, typed: &mut Option<mpsc::Sender<Bytes>>) {
    match message.split_first() {
        Some((&STDIN, rest)) if !rest.is_empty() => {
            if let Some(typed) = typed {
                let _ = typed.send(message.slice(1..)).await;
            }
        }
        Some((&CLOSE, [STDIN])) => *typed = None,
        _ => {}
    }
}

async fn send_on<S>(send: &mut S, channel: u8, bytes: &[u8])
where
    S: futures::Sink<Message> + Unpin,
{
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(channel);
    message.extend_from_slice(bytes);
    // A client that is gone shows in the reading half.
    let _ = send.send(Message::Binary(message.into())).await;
}
