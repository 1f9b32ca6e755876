//! The cache of one kind: objects as bytes with decoded metadata, indexes, snapshots, typed reads.

mod ingest;
mod lister;
mod metadata;
mod training;
mod store;
#[cfg(test)]
mod store_tests;
mod decode;
mod delta;
mod event;
mod snapshot;
mod index;
mod field_owners;
mod object;
mod body;
mod intern;
mod scan;
mod brackets;
mod selector;
mod labels;

pub use decode::DEFAULT_DECODED_BYTES;
pub use delta::Delta;
pub use event::Event;
pub use field_owners::{FieldOwners, MAX_OWNERS};
pub use index::{Index, IndexConflict, IndexFn, UnknownIndex};
pub use ingest::{ObjectOptions, Transform, remove_paths};
pub use labels::Labels;
pub use lister::{ListError, Lister};
pub use object::{DecodeError, ManagedFields, Object, ObjectError, Uid};
pub use selector::{LabelMatcher, SelectorError};
pub use snapshot::{Progress, Scope, Snapshot};
pub use store::{Store, Waited};

pub(crate) use field_owners::ManagedFieldsJson;
pub(crate) use ingest::{Ingest, IngestOptions};
pub(crate) use metadata::Metadata;
pub(crate) use scan::{Cursor, Malformed, Text};
pub(crate) use training::Training;
