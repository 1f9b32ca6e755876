//! Port-forward: pairs of streams from the client, each pair a TCP connection to a port of the pod.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::spdy::{Connection, Stream, StreamReader, StreamWriter};

/// The only protocol version.
pub const PROTOCOL: &str = "portforward.k8s.io";
/// kubectl's tunnel of that protocol through a websocket.
pub const TUNNEL_PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";
/// Maximum number of half-opened pairs. A client opens both halves at once.
const HALVES: usize = 64;

/// Opens a connection to a port of the pod.
pub trait Dial: Clone + Send + 'static {
    /// The connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Opens it.
    fn dial(&self, port: u16) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

/// Serves one client over an upgraded connection that speaks SPDY.
pub async fn serve(io: impl AsyncRead + AsyncWrite + Send + 'static, dial: impl Dial) {
    let mut connection = Connection::serve(io);
    let mut pairs = JoinSet::new();
    let mut halves: BTreeMap<String, Stream> = BTreeMap::new();
    loop {
        let stream = tokio::select! {
            biased;
            Some(_) = pairs.join_next() => continue,
            stream = connection.accept() => stream,
        };
        let Some(stream) = stream else { return };
        let request =
            stream.headers.get("requestid").or(stream.headers.get("port")).cloned().unwrap_or_default();
        match halves.remove(&request) {
            None if halves.len() < HALVES => drop(halves.insert(request, stream)),
            None => {}
            Some(first) => {
                let first_is_data = first.headers.get("streamtype").is_some_and(|kind| kind == "data");
                let (data, error) = if first_is_data { (first, stream) } else { (stream, first) };
                pairs.spawn(forward(data, error, dial.clone()));
            }
        }
    }
}

async fn forward(data: Stream, error: Stream, dial: impl Dial) {
    let Stream { headers, mut reader, writer } = data;
    let port = headers.get("port").and_then(|port| port.parse::<u16>().ok());
    let connected = match port {
        Some(port) => dial.dial(port).await.map_err(|error| format!("port {port}: {error}")),
        None => Err("the stream names no port".to_owned()),
    };
    match connected {
        Ok(target) => {
            copy(target, &mut reader, writer).await;
            // An error stream that ends without content means success.
            let _ = error.writer.finish().await;
        }
        Err(message) => {
            let message =
                format!("error forwarding port {}: {message}", headers.get("port").map_or("", |port| port));
            let _ = error.writer.write(Bytes::from(message)).await;
            let _ = error.writer.finish().await;
            let _ = writer.finish().await;
        }
    }
}

/// Copies both ways until the pod has sent everything. A client that closes its half lets the pod finish.
async fn copy(target: impl AsyncRead + AsyncWrite + Unpin, reader: &mut StreamReader, writer: StreamWriter) {
    let (mut from_pod, mut to_pod) = tokio::io::split(target);
    let upward = async {
        while let Some(bytes) = reader.next().await {
            if to_pod.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to_pod.shutdown().await;
    };
    let downward = async move {
        let mut buffer = vec![0; 32 * 1024];
        while let Ok(count) = from_pod.read(&mut buffer).await {
            if count == 0 || writer.write(Bytes::copy_from_slice(&buffer[..count])).await.is_err() {
                break;
            }
        }
        let _ = writer.finish().await;
    };
    tokio::pin!(upward, downward);
    let mut sending = true;
    loop {
        tokio::select! {
            biased;
            () = &mut downward => break,
            () = &mut upward, if sending => sending = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spdy::{Frame, FrameReader, FrameWriter, Headers};
    use bytes::BytesMut;
    use tokio::io::DuplexStream;

    /// A pod whose port 80 answers with its input in upper case, and whose other ports refuse.
    #[derive(Clone)]
    struct Shouting;

    impl Dial for Shouting {
        type Io = DuplexStream;
        async fn dial(&self, port: u16) -> io::Result<DuplexStream> {
            if port != 80 {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (near, far) = tokio::io::duplex(1024);
            let (mut read, mut write) = tokio::io::split(far);
            #[allow(clippy::disallowed_methods)] // The test's own pod ends with the test's runtime.
            tokio::spawn(async move {
                let mut text = String::new();
                read.read_to_string(&mut text).await.unwrap();
                write.write_all(text.to_uppercase().as_bytes()).await.unwrap();
                write.shutdown().await.unwrap();
            });
            Ok(near)
        }
    }

    fn open(stream: u32, kind: &str, port: &str) -> Frame {
        let pairs = [("streamtype", kind), ("port", port), ("requestid", "0")];
        let headers: Headers =
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Frame::SynStream { stream, fin: false, headers }
    }

    /// Sends the frames and collects each stream's bytes until both have ended.
    async fn exchange(frames: &[Frame]) -> BTreeMap<u32, String> {
        let (client, server) = tokio::io::duplex(4096);
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(server, Shouting));
        let (mut read, mut write) = tokio::io::split(client);
        let mut bytes = BytesMut::new();
        let mut writer = FrameWriter::default();
        for frame in frames {
            writer.write(frame, &mut bytes).unwrap();
        }
        write.write_all(&bytes).await.unwrap();
        let mut reader = FrameReader::default();
        let mut texts: BTreeMap<u32, String> = BTreeMap::new();
        let mut ended = 0;
        let mut buffer = [0; 512];
        while ended < 2 {
            let count = read.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the connection ended early");
            reader.push(&buffer[..count]);
            while let Some(frame) = reader.next_frame().unwrap() {
                if let Frame::Data { stream, fin, bytes } = frame {
                    *texts.entry(stream).or_default() += std::str::from_utf8(&bytes).unwrap();
                    ended += usize::from(fin);
                }
            }
        }
        texts
    }

    #[tokio::test]
    async fn bytes_go_to_the_port_and_back() {
        let hello = Frame::Data { stream: 3, fin: true, bytes: Bytes::from_static(b"hello") };
        let texts = exchange(&[open(1, "error", "80"), open(3, "data", "80"), hello]).await;
        assert_eq!(texts, BTreeMap::from([(1, String::new()), (3, "HELLO".into())]));
    }

    #[tokio::test]
    async fn a_refused_port_is_told_on_the_error_stream() {
        let texts = exchange(&[open(1, "error", "81"), open(3, "data", "81")]).await;
        assert_eq!(texts[&3], "");
        assert!(texts[&1].starts_with("error forwarding port 81: "), "{texts:?}");
    }
}
