//! Frames and their bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::error::{FRAME_BYTES, SpdyError};
use super::header::{Deflater, Headers, Inflater};

/// A stream within a connection: odd from the client, even from the server.
pub type StreamId = u32;

const VERSION: u16 = 3;
const FLAG_FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const SETTINGS: u16 = 4;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Opens a stream.
    SynStream {
        /// The new stream.
        stream: StreamId,
        /// The sender will send nothing on it.
        fin: bool,
        /// The headers that describe the stream's purpose.
        headers: Headers,
    },
    /// Accepts a stream.
    SynReply {
        /// The stream.
        stream: StreamId,
        /// The sender will send nothing on it.
        fin: bool,
        /// Usually empty.
        headers: Headers,
    },
    /// Bytes of a stream.
    Data {
        /// The stream.
        stream: StreamId,
        /// The last from this sender.
        fin: bool,
        /// The bytes.
        bytes: Bytes,
    },
    /// Ends a stream at once.
    RstStream {
        /// The stream.
        stream: StreamId,
        /// The cause, as a status code of the protocol.
        status: u32,
    },
    /// Asks for, or is, an echo.
    Ping {
        /// Odd from the client.
        id: u32,
    },
    /// No new streams.
    GoAway {
        /// The last stream that was taken.
        last_stream: StreamId,
        /// The cause, as a status code of the protocol.
        status: u32,
    },
    /// More headers.
    Headers {
        /// The stream.
        stream: StreamId,
        /// The sender will send nothing more on it.
        fin: bool,
        /// The headers.
        headers: Headers,
    },
    /// A frame that asks nothing of us: settings, window updates, types that we do not know.
    Ignored,
}

/// Turns the peer's bytes into frames; keeps that direction's compression state.
#[derive(Default)]
pub struct FrameReader {
    input: BytesMut,
    inflater: Inflater,
}

impl FrameReader {
    /// Takes bytes as they come from the peer.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next whole frame, where there is one.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, SpdyError> {
        if self.input.len() < 8 {
            return Ok(None);
        }
        let length = u32::from_be_bytes([0, self.input[5], self.input[6], self.input[7]]) as usize;
        if length > FRAME_BYTES {
            return Err(SpdyError::TooLong(length));
        }
        if self.input.len() < 8 + length {
            return Ok(None);
        }
        let mut head = self.input.split_to(8);
        let body = self.input.split_to(length).freeze();
        let first = head.get_u32();
        let flags = head.get_u8();
        if first & 0x8000_0000 == 0 {
            return Ok(Some(Frame::Data { stream: first, fin: flags & FLAG_FIN != 0, bytes: body }));
        }
        let version = (first >> 16) as u16 & 0x7fff;
        if version != VERSION {
            return Err(SpdyError::Version(version));
        }
        self.control((first & 0xffff) as u16, flags & FLAG_FIN != 0, body).map(Some)
    }

    fn control(&mut self, kind: u16, fin: bool, mut body: Bytes) -> Result<Frame, SpdyError> {
        let word = |body: &mut Bytes| {
            if body.len() < 4 { Err(SpdyError::Short(kind)) } else { Ok(body.get_u32()) }
        };
        let frame = match kind {
            SYN_STREAM => {
                let stream = word(&mut body)? & 0x7fff_ffff;
                word(&mut body)?;
                if body.len() < 2 {
                    return Err(SpdyError::Short(kind));
                }
                body.advance(2);
                Frame::SynStream { stream, fin, headers: self.inflater.read(&body)? }
            }
            SYN_REPLY => {
                let stream = word(&mut body)? & 0x7fff_ffff;
                Frame::SynReply { stream, fin, headers: self.inflater.read(&body)? }
            }
            HEADERS => {
                let stream = word(&mut body)? & 0x7fff_ffff;
                Frame::Headers { stream, fin, headers: self.inflater.read(&body)? }
            }
            RST_STREAM => {
                Frame::RstStream { stream: word(&mut body)? & 0x7fff_ffff, status: word(&mut body)? }
            }
            PING => Frame::Ping { id: word(&mut body)? },
            GOAWAY => Frame::GoAway { last_stream: word(&mut body)? & 0x7fff_ffff, status: word(&mut body)? },
            SETTINGS | WINDOW_UPDATE => Frame::Ignored,
            _ => Frame::Ignored,
        };
        Ok(frame)
    }
}

/// Turns frames into bytes; keeps this direction's compression state.
#[derive(Default)]
pub struct FrameWriter {
    deflater: Deflater,
}

impl FrameWriter {
    /// Appends the frame's bytes.
    pub fn write(&mut self, frame: &Frame, output: &mut BytesMut) -> Result<(), SpdyError> {
        let mut body = BytesMut::new();
        let (kind, fin) = match frame {
            Frame::Data { stream, fin, bytes } => {
                output.put_u32(*stream);
                put_length(output, *fin, bytes.len())?;
                output.extend_from_slice(bytes);
                return Ok(());
            }
            Frame::SynStream { stream, fin, headers } => {
                body.put_u32(*stream);
                body.put_u32(0);
                body.put_u16(0);
                body.extend_from_slice(&self.deflater.write(headers)?);
                (SYN_STREAM, *fin)
            }
            Frame::SynReply { stream, fin, headers } => {
                body.put_u32(*stream);
                body.extend_from_slice(&self.deflater.write(headers)?);
                (SYN_REPLY, *fin)
            }
            Frame::Headers { stream, fin, headers } => {
                body.put_u32(*stream);
                body.extend_from_slice(&self.deflater.write(headers)?);
                (HEADERS, *fin)
            }
            Frame::RstStream { stream, status } => {
                body.put_u32(*stream);
                body.put_u32(*status);
                (RST_STREAM, false)
            }
            Frame::Ping { id } => {
                body.put_u32(*id);
                (PING, false)
            }
            Frame::GoAway { last_stream, status } => {
                body.put_u32(*last_stream);
                body.put_u32(*status);
                (GOAWAY, false)
            }
            Frame::Ignored => return Ok(()),
        };
        output.put_u16(0x8000 | VERSION);
        output.put_u16(kind);
        put_length(output, fin, body.len())?;
        output.extend_from_slice(&body);
        Ok(())
    }
}

fn put_length(output: &mut BytesMut, fin: bool, length: usize) -> Result<(), SpdyError> {
    if length > FRAME_BYTES {
        return Err(SpdyError::TooLong(length));
    }
    let length = u32::try_from(length).map_err(|_| SpdyError::TooLong(length))?;
    output.put_u32((u32::from(fin) << 24) | length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn what_one_side_writes_the_other_reads_in_pieces_of_any_size() {
        let frames = [
            Frame::SynStream {
                stream: 1,
                fin: false,
                headers: headers(&[("streamtype", "error"), ("port", "3000"), ("requestid", "0")]),
            },
            Frame::SynStream {
                stream: 3,
                fin: false,
                headers: headers(&[("streamtype", "data"), ("port", "3000")]),
            },
            Frame::SynReply { stream: 1, fin: false, headers: Headers::new() },
            Frame::Data { stream: 3, fin: true, bytes: Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n") },
            Frame::Ping { id: 7 },
            Frame::RstStream { stream: 3, status: 5 },
            Frame::GoAway { last_stream: 3, status: 0 },
        ];
        let mut bytes = BytesMut::new();
        let mut writer = FrameWriter::default();
        for frame in &frames {
            writer.write(frame, &mut bytes).unwrap();
        }
        for piece in [1, 3, 7, 4096] {
            let mut reader = FrameReader::default();
            let mut read = Vec::new();
            for chunk in bytes.chunks(piece) {
                reader.push(chunk);
                while let Some(frame) = reader.next_frame().unwrap() {
                    read.push(frame);
                }
            }
            assert_eq!(read, frames);
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_is_held() {
        let mut framer = FrameReader::default();
        framer.push(&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff]);
        assert_eq!(framer.next_frame(), Err(SpdyError::TooLong(0x00ff_ffff)));
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_frames_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut framer = FrameReader::default();
            framer.push(&bytes);
            let mut frames = 0;
            while let Ok(Some(_)) = framer.next_frame() {
                frames += 1;
                prop_assert!(frames <= bytes.len() / 8);
            }
        }
    }
}
