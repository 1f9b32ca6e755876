//! Header blocks: name/value pairs under one zlib stream per direction.

use std::collections::BTreeMap;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::dictionary::dictionary;
use super::error::SpdyError;

/// A block that unpacks to more is refused: a few kilobytes are usual.
const BLOCK_BYTES: usize = 64 * 1024;

/// Lower-case name to values; a repeated header is one value with NULs between, as the protocol has it.
pub type Headers = BTreeMap<String, String>;

pub struct Inflater(Decompress);

impl Default for Inflater {
    fn default() -> Self {
        Inflater(Decompress::new(true))
    }
}

impl Inflater {
    pub fn read(&mut self, block: &[u8]) -> Result<Headers, SpdyError> {
        parse(&self.inflate(block)?)
    }

    fn inflate(&mut self, mut input: &[u8]) -> Result<Vec<u8>, SpdyError> {
        let mut output = Vec::with_capacity(1024);
        loop {
            let before = (self.0.total_in(), output.len());
            match self.0.decompress_vec(input, &mut output, FlushDecompress::Sync) {
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&dictionary()).map_err(|_| SpdyError::HeaderBlock)?;
                }
                Err(_) => return Err(SpdyError::HeaderBlock),
            }
            let read = usize::try_from(self.0.total_in() - before.0).map_err(|_| SpdyError::HeaderBlock)?;
            input = &input[read..];
            if output.len() > BLOCK_BYTES {
                return Err(SpdyError::HeaderBlock);
            }
            if output.len() == output.capacity() {
                output.reserve(1024);
            } else if input.is_empty() && read == 0 {
                return Ok(output);
            } else if read == 0 && output.len() == before.1 && self.0.total_in() == before.0 {
                // Neither input nor output moved: the block is cut.
                return if input.is_empty() { Ok(output) } else { Err(SpdyError::HeaderBlock) };
            }
        }
    }
}

pub struct Deflater(Compress);

impl Default for Deflater {
    fn default() -> Self {
        let mut compress = Compress::new(Compression::default(), true);
        compress.set_dictionary(&dictionary()).expect("a fresh zlib stream takes a dictionary");
        Deflater(compress)
    }
}

impl Deflater {
    pub fn write(&mut self, headers: &Headers) -> Result<Vec<u8>, SpdyError> {
        let plain = print(headers);
        let mut input = plain.as_slice();
        let mut output = Vec::with_capacity(plain.len() + 64);
        loop {
            let before = self.0.total_in();
            self.0
                .compress_vec(input, &mut output, FlushCompress::Sync)
                .map_err(|_| SpdyError::HeaderBlock)?;
            input =
                &input[usize::try_from(self.0.total_in() - before).map_err(|_| SpdyError::HeaderBlock)?..];
            if output.len() < output.capacity() && input.is_empty() {
                return Ok(output);
            }
            output.reserve(256);
        }
    }
}

fn print(headers: &Headers) -> Vec<u8> {
    let mut block = Vec::new();
    let number = |block: &mut Vec<u8>, count: usize| {
        block.extend_from_slice(&u32::try_from(count).expect("a block is small").to_be_bytes());
    };
    number(&mut block, headers.len());
    for (name, value) in headers {
        for text in [name, value] {
            number(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

fn parse(block: &[u8]) -> Result<Headers, SpdyError> {
    let mut rest = block;
    let mut headers = Headers::new();
    for _ in 0..number(&mut rest)? {
        let name = text(&mut rest)?.to_ascii_lowercase();
        let value = text(&mut rest)?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn number(rest: &mut &[u8]) -> Result<usize, SpdyError> {
    let (bytes, after) = rest.split_first_chunk::<4>().ok_or(SpdyError::HeaderBlock)?;
    *rest = after;
    usize::try_from(u32::from_be_bytes(*bytes)).map_err(|_| SpdyError::HeaderBlock)
}

fn text(rest: &mut &[u8]) -> Result<String, SpdyError> {
    let length = number(rest)?;
    let (bytes, after) = rest.split_at_checked(length).ok_or(SpdyError::HeaderBlock)?;
    *rest = after;
    String::from_utf8(bytes.to_vec()).map_err(|_| SpdyError::HeaderBlock)
}
