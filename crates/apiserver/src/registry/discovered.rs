//! Discovery's documents, kept until another definition is served.

use std::sync::Mutex;

use bytes::Bytes;

/// Aggregated answers, made once per change of what is served.
#[derive(Default)]
pub(crate) struct Cache(pub(crate) Mutex<Option<Cached>>);

#[derive(Clone)]
pub(crate) struct Cached {
    pub(crate) revision: u64,
    pub(crate) core: (Bytes, String),
    pub(crate) groups: (Bytes, String),
}
