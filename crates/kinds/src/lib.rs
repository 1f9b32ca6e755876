//! The rules of the built-in kinds: defaults, validation, strategies, printed columns, quotas, and the warnings and
//! allocations of the API server.
//!
//! Every function is pure: it takes an object as a JSON value. Time and randomness arrive as handles.

pub mod admission;
pub mod allocate;
pub mod fields;
pub mod quota;
pub mod table;
pub mod jsonpath;
pub mod validate;
pub mod cron;
pub mod limits;
pub mod strategy;
pub mod defaults;
pub mod facts;
pub mod resources;
mod go_struct;
pub mod warnings;
mod access;
