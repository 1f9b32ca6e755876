//! The way of a write: every verb and subresource that changes an object goes through `pipeline::STAGES`, inside one
//! transaction ([`transaction`]).

pub(crate) mod answer;
pub(crate) mod transaction;
pub(crate) mod pipeline;
mod read;
mod merge;
mod precondition;
mod identify;
mod default;
mod track_fields;
mod mutating_admission;
mod allocate;
mod authorize;
pub(crate) mod prepare;
pub(crate) mod unchanged;
mod validate;
mod warn;
mod validating_admission;
mod quota;
mod encode;
mod store;
pub(crate) mod patch;
mod terminate;
pub(crate) mod change;
pub(crate) mod metadata;
pub(crate) mod decode;
pub(crate) mod decoder;
pub(crate) mod strategy;
pub(crate) mod delete_options;

pub(crate) use change::{Change, Kind, Live, Merge, Outcome, State, Write};
