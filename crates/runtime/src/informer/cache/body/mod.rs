//! The bytes of an object at rest: raw, compressed with the dictionary of its kind, or what differs from another.
//!
//! The rest of the cache asks a [`BodyWriter`] for a [`Body`] and reads it with [`Body::expand`]. How it is kept in
//! between is known here alone.

mod bases;
mod difference;
mod dictionary;

use std::borrow::Cow;
use std::sync::Arc;

use self::bases::{Base, Bases};
use self::dictionary::Dictionary;
pub(super) use self::dictionary::{Dictionaries, Packer};
use self::difference::apply;

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

    /// Raw bytes that it brought into memory: its own, or those of the base that was made of it.
    pub fn raw_bytes(&self) -> usize {
        match self {
            Body::Raw(bytes) => bytes.len(),
            Body::Packed { .. } | Body::Derived { .. } => 0,
        }
    }

    /// How long the longest text is that it takes to read it: its JSON, or the base that it differs from.
    pub fn longest_text(&self) -> usize {
        match self {
            Body::Derived { base, length, .. } => base.length().max(*length as usize),
            body => body.length(),
        }
    }

    /// The same JSON compressed, or `None` when that gains nothing.
    pub fn packed_with(&self, packer: &mut Packer) -> Option<Body> {
        if let Body::Derived { base, .. } = self {
            base.pack(packer);
            return None;
        }
        if packer.has_packed(self) {
            return None;
        }
        let packed = packer.pack(&self.expand());
        (packed.stored_bytes() < self.stored_bytes()).then_some(packed)
    }

    #[cfg(test)]
    pub fn is_raw(&self) -> bool {
        matches!(self, Body::Raw(_))
    }
}

/// Makes the bodies of one kind for one writer.
pub(super) struct BodyWriter {
    /// Without dictionaries bodies stay raw.
    dictionaries: Option<Arc<Dictionaries>>,
    bases: Bases,
    packer: Option<Packer>,
    version: u64,
}

impl BodyWriter {
    pub fn new(dictionaries: Option<Arc<Dictionaries>>) -> Self {
        BodyWriter { dictionaries, bases: Bases::new(), packer: None, version: 0 }
    }

    /// The body of an object. Objects of one workload have the same `group`.
    pub fn body(&mut self, json: &[u8], group: u64) -> Body {
        let Some(dictionaries) = &self.dictionaries else { return Body::Raw(json.into()) };
        if dictionaries.version() != self.version {
            self.version = dictionaries.version();
            self.packer = dictionaries.packer();
        }
        let derived = self.bases.derive(json, group, self.packer.as_mut(), dictionaries.base_bytes());
        derived.unwrap_or_else(|| match &mut self.packer {
            Some(packer) => packer.pack(json),
            None => Body::Raw(json.into()),
        })
    }

    /// Gives back what one object leaves to the next.
    pub fn rest(&mut self) {
        self.bases.rest();
    }
}
