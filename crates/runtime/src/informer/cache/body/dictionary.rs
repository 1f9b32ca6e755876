//! Compression with a dictionary that is trained on objects of the kind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use zstd::bulk::{Compressor, Decompressor};

use super::Body;

/// The level at which zstd begins to trade speed for size. The dictionary gives most of the gain already.
const LEVEL: i32 = 1;
/// Dictionary size, at most.
const DICTIONARY_BYTES: usize = 32 * 1024;
/// Expanders kept ready for a dictionary; more concurrent readers make their own for the moment.
const IDLE_EXPANDERS: usize = 8;
/// The dictionaries of one kind, shared by all who read objects of it.
#[derive(Default)]
pub(in crate::informer::cache) struct Dictionaries {
    current: RwLock<Option<Arc<Dictionary>>>,
    /// Counts the dictionaries; readers look again when it moves.
    version: AtomicU64,
    base_bytes: Arc<AtomicU64>,
}

impl Dictionaries {
    /// For a kind whose bases are counted in `base_bytes`.
    pub fn new(base_bytes: Arc<AtomicU64>) -> Self {
        Dictionaries { base_bytes, ..Dictionaries::default() }
    }

    /// Bytes of the texts that objects are kept as differences from.
    pub fn base_bytes(&self) -> &Arc<AtomicU64> {
        &self.base_bytes
    }

    /// The number of the present dictionary; zero when there is none.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// A packer with the present dictionary.
    pub fn packer(&self) -> Option<Packer> {
        self.current.read().expect("no holder of this lock panics").clone().and_then(Packer::new)
    }

    /// Trains a new dictionary. Returns whether the samples gave one.
    pub fn train(&self, samples: &[Vec<u8>]) -> bool {
        let Some(dictionary) = Dictionary::train(samples) else { return false };
        *self.current.write().expect("no holder of this lock panics") = Some(dictionary);
        self.version.fetch_add(1, Ordering::Release);
        true
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

    pub(super) fn expand(&self, bytes: &[u8], length: usize) -> Vec<u8> {
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
