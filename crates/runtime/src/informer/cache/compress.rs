//! The bytes of an object at rest: raw, compressed with the dictionary of its kind, or what differs from another.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use zstd::bulk::{Compressor, Decompressor};

use super::difference::{apply, difference};

/// The level at which zstd begins to trade speed for size. The dictionary gives most of the gain already.
const LEVEL: i32 = 1;
/// Dictionary size, at most.
const DICTIONARY_BYTES: usize = 32 * 1024;
/// Expanders kept ready for a dictionary; more concurrent readers make their own for the moment.
const IDLE_EXPANDERS: usize = 8;
/// A base that fewer objects are made from is compressed: its size matters more than the time to expand it.
pub(super) const SHARED: usize = 8;

/// An object's JSON as it is kept.
pub(crate) enum Body {
    Raw(Box<[u8]>),
    Packed { dictionary: Arc<Dictionary>, length: u32, bytes: Box<[u8]> },
    Derived { base: Arc<Base>, length: u32, patch: Box<[u8]> },
}

impl Body {
    pub fn expand(&self) -> Cow<'_, [u8]> {
        match self {
            Body::Raw(bytes) => Cow::Borrowed(bytes),
            Body::Packed { dictionary, length, bytes } => {
                Cow::Owned(dictionary.expand(bytes, *length as usize))
            }
            Body::Derived { base, length, patch } => {
                let text = base.read(|base| apply(base, patch, *length as usize));
                Cow::Owned(text.expect("a base never changes what it says"))
            }
        }
    }

    /// How long the JSON is.
    pub fn length(&self) -> usize {
        match self {
            Body::Raw(bytes) => bytes.len(),
            Body::Packed { length, .. } | Body::Derived { length, .. } => *length as usize,
        }
    }

    /// Bytes of its own: what it shares with others is not counted.
    pub fn stored_bytes(&self) -> usize {
        match self {
            Body::Raw(bytes) | Body::Packed { bytes, .. } | Body::Derived { patch: bytes, .. } => bytes.len(),
        }
    }

    #[cfg(test)]
    pub fn is_raw(&self) -> bool {
        matches!(self, Body::Raw(_))
    }
}

/// A text that objects are kept as differences from: one of them, as it was once.
pub(crate) struct Base {
    text: RwLock<Body>,
    /// The bytes of all bases of a kind.
    counter: Arc<AtomicU64>,
}

impl Base {
    pub(super) fn new(text: Body, counter: &Arc<AtomicU64>) -> Arc<Self> {
        counter.fetch_add(text.stored_bytes() as u64, Ordering::Relaxed);
        Arc::new(Base { text: RwLock::new(text), counter: counter.clone() })
    }

    /// Calls `read` with the text.
    pub fn read<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        read(&self.text.read().expect("no holder of this lock panics").expand())
    }

    /// How long the text is.
    pub fn length(&self) -> usize {
        self.text.read().expect("no holder of this lock panics").length()
    }

    /// Compresses the text if few objects share it.
    pub fn pack(self: &Arc<Self>, packer: &mut Packer) {
        let mut text = self.text.write().expect("no holder of this lock panics");
        if Arc::strong_count(self) <= SHARED && !packer.has_packed(&text) {
            let packed = packer.pack(&text.expand());
            self.exchange(&mut text, packed);
        }
    }

    /// Appends to `patch` what makes `json` out of this text; false when that takes more than `limit` bytes.
    pub(super) fn difference(self: &Arc<Self>, json: &[u8], limit: usize, patch: &mut Vec<u8>) -> bool {
        if let Body::Raw(text) = &*self.text.read().expect("no holder of this lock panics") {
            return difference(text, json, limit, patch);
        }
        if Arc::strong_count(self) > SHARED {
            let mut text = self.text.write().expect("no holder of this lock panics");
            let raw = Body::Raw(text.expand().into());
            self.exchange(&mut text, raw);
        }
        self.read(|text| difference(text, json, limit, patch))
    }

    fn exchange(&self, text: &mut Body, other: Body) {
        self.counter.fetch_add(other.stored_bytes() as u64, Ordering::Relaxed);
        self.counter.fetch_sub(text.stored_bytes() as u64, Ordering::Relaxed);
        *text = other;
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let text = self.text.get_mut().expect("no holder of this lock panics");
        self.counter.fetch_sub(text.stored_bytes() as u64, Ordering::Relaxed);
    }
}

/// A trained dictionary. Each compressed object holds the one it was compressed with.
pub(crate) struct Dictionary {
    bytes: Box<[u8]>,
    idle: Mutex<Vec<Decompressor<'static>>>,
}

impl Dictionary {
    /// Trains on samples; `None` when they give none (too few, or nothing in common).
    pub fn train(samples: &[Vec<u8>]) -> Option<Arc<Self>> {
        let bytes = zstd::dict::from_samples(samples, DICTIONARY_BYTES).ok()?;
        Some(Arc::new(Dictionary { bytes: bytes.into(), idle: Mutex::default() }))
    }

    fn expand(&self, bytes: &[u8], length: usize) -> Vec<u8> {
        let idle = self.idle.lock().expect("no holder of this lock panics").pop();
        let mut expander = idle.unwrap_or_else(|| {
            Decompressor::with_dictionary(&self.bytes).expect("a dictionary that compressed also expands")
        });
        let json = expander.decompress(bytes, length).expect("what was compressed here expands here");
        let mut idle = self.idle.lock().expect("no holder of this lock panics");
        if idle.len() < IDLE_EXPANDERS {
            idle.push(expander);
        }
        json
    }
}

/// Compresses with one dictionary; belongs to one writer.
pub(crate) struct Packer {
    dictionary: Arc<Dictionary>,
    compressor: Compressor<'static>,
    scratch: Vec<u8>,
}

impl Packer {
    pub fn new(dictionary: Arc<Dictionary>) -> Option<Self> {
        let mut compressor = Compressor::with_dictionary(LEVEL, &dictionary.bytes).ok()?;
        // 13 bytes an object that the entry knows or does not need.
        for parameter in [
            zstd::zstd_safe::CParameter::ContentSizeFlag(false),
            zstd::zstd_safe::CParameter::ChecksumFlag(false),
            zstd::zstd_safe::CParameter::DictIdFlag(false),
        ] {
            compressor.set_parameter(parameter).ok()?;
        }
        Some(Packer { dictionary, compressor, scratch: Vec::new() })
    }

    /// Whether `body` is compressed with this dictionary.
    pub fn has_packed(&self, body: &Body) -> bool {
        matches!(body, Body::Packed { dictionary, .. } if Arc::ptr_eq(dictionary, &self.dictionary))
    }

    /// The compressed form, or the bytes as they are when compressing does not pay.
    pub fn pack(&mut self, json: &[u8]) -> Body {
        let bound = zstd::zstd_safe::compress_bound(json.len());
        self.scratch.clear();
        self.scratch.reserve(bound);
        let packed = self.compressor.compress_to_buffer(json, &mut self.scratch);
        match (packed, u32::try_from(json.len())) {
            (Ok(size), Ok(length)) if size * 4 < json.len() * 3 => Body::Packed {
                dictionary: self.dictionary.clone(),
                length,
                bytes: self.scratch[..size].into(),
            },
            _ => Body::Raw(json.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(number: usize) -> Vec<u8> {
        let digest = format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web-{number}","namespace":"default"}},
            "spec":{{"containers":[{{"name":"main","image":"registry/app@sha256:{digest}"}}],"nodeName":"n{number}"}}}}"#
        )
        .into_bytes()
    }

    #[test]
    fn packed_bytes_expand_to_what_they_were() {
        let samples: Vec<_> = (0..400).map(sample).collect();
        let dictionary = Dictionary::train(&samples).unwrap();
        let mut packer = Packer::new(dictionary).unwrap();
        for number in 1000..1100 {
            let json = sample(number);
            let body = packer.pack(&json);
            assert!(!body.is_raw() && body.stored_bytes() * 2 < json.len());
            assert_eq!(body.expand(), json);
        }
        assert!(packer.pack(b"{}").is_raw());
        assert!(Dictionary::train(&[]).is_none());
    }
}
