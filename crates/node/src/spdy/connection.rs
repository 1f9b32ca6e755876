//! The server's end of a connection: streams that the client opens, each with its own bytes.

use std::collections::BTreeMap;
use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::frame::{Frame, FrameReader, FrameWriter, StreamId};
use super::header::Headers;

/// Frames waiting to be written. A stream that writes faster than the client reads waits here.
const OUTGOING: usize = 64;
/// Pieces of one stream that its owner has not taken. When full, the connection is not read further: the protocol
/// as spoken here has no windows, so this is its back-pressure.
const INCOMING: usize = 64;
/// Streams that were opened and not yet taken.
const OPENED: usize = 16;
/// Streams open at once; one more is refused.
const STREAMS: usize = 1024;

/// RST_STREAM's code for a stream that the server does not take.
const REFUSED_STREAM: u32 = 3;

/// A connection; dropping it ends both directions.
pub struct Connection {
    opened: mpsc::Receiver<Stream>,
    _tasks: JoinSet<()>,
}

/// One stream that the client opened.
pub struct Stream {
    /// The headers that describe the stream's purpose.
    pub headers: Headers,
    /// The client's bytes.
    pub reader: StreamReader,
    /// Ours.
    pub writer: StreamWriter,
}

/// The client's bytes of one stream.
pub struct StreamReader(mpsc::Receiver<Bytes>);

impl StreamReader {
    /// The next bytes; none when the client has sent all.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.0.recv().await
    }
}

/// Our bytes of one stream.
pub struct StreamWriter {
    stream: StreamId,
    outgoing: mpsc::Sender<Frame>,
}

impl StreamWriter {
    /// Sends bytes; fails when the connection is gone.
    pub async fn write(&self, bytes: Bytes) -> io::Result<()> {
        self.send(Frame::Data { stream: self.stream, fin: false, bytes }).await
    }

    /// Says that no more will come.
    pub async fn finish(self) -> io::Result<()> {
        self.send(Frame::Data { stream: self.stream, fin: true, bytes: Bytes::new() }).await
    }

    async fn send(&self, frame: Frame) -> io::Result<()> {
        self.outgoing.send(frame).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Connection {
    /// Serves the server's end over `io`.
    pub fn serve(io: impl AsyncRead + AsyncWrite + Send + 'static) -> Connection {
        let (read, write) = tokio::io::split(io);
        let (outgoing, frames) = mpsc::channel(OUTGOING);
        let (open, opened) = mpsc::channel(OPENED);
        let mut tasks = JoinSet::new();
        // A transport error ends the direction, and with it every stream: their owners see an end or a broken pipe.
        tasks.spawn(async move { drop(write_frames(write, frames).await) });
        tasks.spawn(async move { drop(read_frames(read, outgoing, open).await) });
        Connection { opened, _tasks: tasks }
    }

    /// The next stream that the client opens; none when the connection is over.
    pub async fn accept(&mut self) -> Option<Stream> {
        self.opened.recv().await
    }
}

async fn write_frames(mut io: impl AsyncWrite + Unpin, mut frames: mpsc::Receiver<Frame>) -> io::Result<()> {
    let mut writer = FrameWriter::default();
    let mut bytes = BytesMut::new();
    while let Some(frame) = frames.recv().await {
        writer.write(&frame, &mut bytes).map_err(io::Error::other)?;
        while let Ok(frame) = frames.try_recv() {
            writer.write(&frame, &mut bytes).map_err(io::Error::other)?;
        }
        io.write_all(&bytes).await?;
        io.flush().await?;
        bytes.clear();
    }
    io.shutdown().await
}

async fn read_frames(
    mut io: impl AsyncRead + Unpin,
    outgoing: mpsc::Sender<Frame>,
    open: mpsc::Sender<Stream>,
) -> io::Result<()> {
    let mut reader = FrameReader::default();
    let mut streams: BTreeMap<StreamId, mpsc::Sender<Bytes>> = BTreeMap::new();
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let count = io.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        reader.push(&buffer[..count]);
        while let Some(frame) = reader.next_frame().map_err(io::Error::other)? {
            take(frame, &mut streams, &outgoing, &open).await?;
        }
    }
}

async fn take(
    frame: Frame,
    streams: &mut BTreeMap<StreamId, mpsc::Sender<Bytes>>,
    outgoing: &mpsc::Sender<Frame>,
    open: &mpsc::Sender<Stream>,
) -> io::Result<()> {
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    match frame {
        Frame::SynStream { stream, fin, headers } => {
            if streams.len() >= STREAMS || streams.contains_key(&stream) {
                let refusal = Frame::RstStream { stream, status: REFUSED_STREAM };
                return outgoing.send(refusal).await.map_err(gone);
            }
            let reply = Frame::SynReply { stream, fin: false, headers: Headers::new() };
            outgoing.send(reply).await.map_err(gone)?;
            let (sender, receiver) = mpsc::channel(INCOMING);
            if !fin {
                streams.insert(stream, sender);
            }
            let writer = StreamWriter { stream, outgoing: outgoing.clone() };
            let opened = Stream { headers, reader: StreamReader(receiver), writer };
            open.send(opened).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
        }
        Frame::Data { stream, fin, bytes } => {
            if let Some(sender) = streams.get(&stream)
                && !bytes.is_empty()
            {
                // An owner that stopped reading does not want the rest.
                let _ = sender.send(bytes).await;
            }
            if fin {
                streams.remove(&stream);
            }
            Ok(())
        }
        Frame::RstStream { stream, .. } => {
            streams.remove(&stream);
            Ok(())
        }
        Frame::Ping { id } => outgoing.send(Frame::Ping { id }).await.map_err(gone),
        Frame::Headers { stream, fin: true, .. } | Frame::SynReply { stream, fin: true, .. } => {
            streams.remove(&stream);
            Ok(())
        }
        Frame::GoAway { .. } | Frame::Headers { .. } | Frame::SynReply { .. } | Frame::Ignored => Ok(()),
    }
}
