//! Bytes on a TLS socket: requests of HTTP/1.1 as they stand, and frames of HTTP/2 that no client library sends.

use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::servers::Server;

pub type Stream = tokio_rustls::client::TlsStream<TcpStream>;

/// Opens a connection of a user that speaks this protocol.
pub async fn open(server: &Server, user: &str, protocol: &[u8]) -> Result<Stream> {
    let tls = server.clients.config(user, &[protocol])?;
    let stream = TcpStream::connect(&server.clients.address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("127.0.0.1")?;
    Ok(tokio_rustls::TlsConnector::from(tls).connect(name, stream).await?)
}

/// Sends bytes over HTTP/1.1 and reads until the server closes, or for a while.
pub async fn exchange(server: &Server, user: &str, bytes: &[u8], within: Duration) -> Result<String> {
    let mut stream = open(server, user, b"http/1.1").await?;
    // A server that has answered and closed takes no more bytes.
    let _ = stream.write_all(bytes).await;
    let _ = stream.flush().await;
    Ok(read(&mut stream, within).await)
}

/// Everything that comes until the end of the connection, or within a time.
pub async fn read(stream: &mut Stream, within: Duration) -> String {
    let mut bytes = Vec::new();
    let _ = tokio::time::timeout(within, async {
        while matches!(stream.read_buf(&mut bytes).await, Ok(more) if more > 0) {}
    })
    .await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether the server ends the connection within a time. What it sends before is dropped.
pub async fn ends(stream: &mut Stream, within: Duration) -> bool {
    let mut bytes = vec![0; 1 << 14];
    let end = async { while matches!(stream.read(&mut bytes).await, Ok(more) if more > 0) {} };
    tokio::time::timeout(within, end).await.is_ok()
}

/// The statuses of all answers in a text of HTTP/1.1.
pub fn statuses(text: &str) -> String {
    let heads = text.split("HTTP/1.1 ").skip(1).map(|rest| rest.get(..3).unwrap_or("?"));
    let all: Vec<&str> = heads.collect();
    if all.is_empty() { "closed".to_owned() } else { all.join(" ") }
}

/// The preface of HTTP/2 and a SETTINGS frame with these (identifier, value).
pub fn preface(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (identifier, value) in settings {
        payload.extend(identifier.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &payload));
    bytes
}

/// One frame of HTTP/2.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A block of headers in literal form, without the table.
pub fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let text = |block: &mut Vec<u8>, text: &str| {
        let mut rest = text.len();
        if rest < 127 {
            block.push(u8::try_from(rest).unwrap_or_default());
        } else {
            block.push(127);
            rest -= 127;
            while rest >= 128 {
                block.push(u8::try_from(rest % 128).unwrap_or_default() | 128);
                rest /= 128;
            }
            block.push(u8::try_from(rest).unwrap_or_default());
        }
        block.extend(text.as_bytes());
    };
    for (name, value) in fields {
        block.push(0);
        text(&mut block, name);
        text(&mut block, value);
    }
    block
}

/// The headers of a GET.
pub fn get(path: &str) -> Vec<u8> {
    headers(&[(":method", "GET"), (":scheme", "https"), (":authority", "127.0.0.1"), (":path", path)])
}

/// A TCP connection that has not begun TLS.
pub async fn tcp(server: &Server) -> Result<TcpStream> {
    TcpStream::connect(&server.clients.address).await.context("connect")
}
