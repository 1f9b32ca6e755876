//! The cache of one kind: objects as bytes with decoded metadata, indexes, snapshots, typed reads.

mod bases;
mod brackets;
mod compress;
mod decode;
mod difference;
mod index;
mod ingest;
mod intern;
mod labels;
mod lister;
mod metadata;
mod object;
mod scan;
mod selector;
mod snapshot;
mod store;
#[cfg(test)]
mod store_tests;
mod training;

pub use decode::DEFAULT_DECODED_BYTES;
pub use index::{Index, IndexConflict, IndexFn, UnknownIndex};
pub use ingest::{FieldOwners, MAX_OWNERS, ObjectOptions, Transform, remove_paths};
pub use labels::Labels;
pub use lister::{ListError, Lister};
pub use object::{DecodeError, ManagedFields, Object, ObjectError, Uid};
pub use selector::{LabelMatcher, SelectorError};
pub use snapshot::{Progress, Scope, Snapshot};
pub use store::{Store, Waited};

pub(crate) use ingest::{Ingest, IngestOptions, ManagedFieldsJson};
pub(crate) use metadata::Metadata;
pub(crate) use scan::{Cursor, Malformed, Text};
pub(crate) use training::Training;
