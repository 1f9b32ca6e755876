//! Unpacking what a server compressed although it was asked not to.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;

/// Unpacks a gzip stream as it comes.
pub(super) struct Gunzip(MultiGzDecoder<Vec<u8>>);

impl Default for Gunzip {
    fn default() -> Self {
        Gunzip(MultiGzDecoder::new(Vec::new()))
    }
}

impl Gunzip {
    /// Returns the bytes that can be unpacked now: after a flush of the server, all that it sent.
    pub(super) fn unpack(&mut self, chunk: &[u8]) -> io::Result<Bytes> {
        self.0.write_all(chunk)?;
        self.0.flush()?;
        Ok(Bytes::from(std::mem::take(self.0.get_mut())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    #[test]
    fn each_flushed_line_comes_out_at_once_however_the_bytes_are_cut() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let mut gunzip = Gunzip::default();
        for line in ["first\n", "second\n", "third\n"] {
            encoder.write_all(line.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let mut out = Vec::new();
            for byte in std::mem::take(encoder.get_mut()) {
                out.extend(gunzip.unpack(&[byte]).unwrap());
            }
            assert_eq!(out, line.as_bytes());
        }
        let refused = Gunzip::default().unpack(b"no gzip at all").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
