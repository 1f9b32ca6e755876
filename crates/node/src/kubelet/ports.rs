//! Port-forward as kube-rs uses it: two websocket channels per port, and the first message of each names the port.

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::channels::normal_close;
use super::port_forward::Dial;

/// The subprotocol of such a request.
pub const PROTOCOL: &str = "v4.channel.k8s.io";
/// Maximum number of messages in flight in either direction.
const MESSAGES: usize = 32;
/// Channel numbers are one byte, and each port has two.
const PORTS: usize = 128;

/// The ports of a request, in the order that gives them their channels.
pub fn from_query(pairs: &[(String, String)]) -> Vec<u16> {
    let named = pairs.iter().filter(|(name, _)| name == "ports" || name == "port");
    named.flat_map(|(_, value)| value.split(',')).filter_map(|port| port.parse().ok()).take(PORTS).collect()
}

/// Serves the ports until the client leaves.
pub async fn serve<IO>(socket: WebSocketStream<IO>, ports: &[u16], dial: impl Dial)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let (mut send, mut receive) = socket.split();
    let (outgoing, mut messages) = mpsc::channel::<Message>(MESSAGES);
    let mut incoming = Vec::new();
    let mut tasks = JoinSet::new();
    for (at, port) in ports.iter().enumerate() {
        let data = u8::try_from(at * 2).expect("ports are bounded by the channels of one byte");
        for channel in [data, data + 1] {
            let _ = outgoing.send(message(channel, &port.to_le_bytes())).await;
        }
        let (sender, receiver) = mpsc::channel(MESSAGES);
        incoming.push(sender);
        tasks.spawn(forward(data, *port, dial.clone(), receiver, outgoing.clone()));
    }
    drop(outgoing);
    loop {
        tokio::select! {
            biased;
            message = messages.recv() => match message {
                Some(message) => {
                    if send.send(message).await.is_err() {
                        return;
                    }
                }
                // The pod has closed every port.
                None => {
                    let _ = send.send(normal_close()).await;
                    return;
                }
            },
            received = receive.next() => match received {
                Some(Ok(Message::Binary(bytes))) => {
                    let channel = bytes.first().map(|channel| usize::from(*channel));
                    if let Some(sender) = channel.filter(|c| c % 2 == 0).and_then(|c| incoming.get(c / 2)) {
                        let _ = sender.send(bytes.slice(1..)).await;
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}

fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(channel);
    message.extend_from_slice(bytes);
    Message::Binary(message.into())
}

async fn forward(
    channel: u8,
    port: u16,
    dial: impl Dial,
    mut incoming: mpsc::Receiver<Bytes>,
    outgoing: mpsc::Sender<Message>,
) {
    let target = match dial.dial(port).await {
        Ok(target) => target,
        Err(error) => {
            let text = format!("error forwarding port {port}: {error}");
            let _ = outgoing.send(message(channel + 1, text.as_bytes())).await;
            return;
        }
    };
    let (mut read, mut write) = tokio::io::split(target);
    let mut buffer = vec![0; 16 * 1024];
    loop {
        tokio::select! {
            biased;
            bytes = incoming.recv() => match bytes {
                Some(bytes) => {
                    if write.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                None => return,
            },
            count = read.read(&mut buffer) => match count {
                Ok(count) if count > 0 => {
                    if outgoing.send(message(channel, &buffer[..count])).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
}
