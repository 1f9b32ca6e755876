//! The way of a write: every verb and subresource that changes an object goes through `pipeline::STAGES`, inside one
//! transaction ([`transaction`]).

pub(crate) mod answer;
pub(crate) mod transaction;
pub(crate) mod pipeline;
mod precondition;
mod identify;
mod mutating_admission;
pub(crate) mod prepare;
pub(crate) mod validate;
mod validating_admission;
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
