//! The rules of the built-in kinds: defaults, validation, strategies, printed columns, quotas, and the warnings and
//! allocations of the API server.
//!
//! Every function is pure: it takes an object as a JSON value. Time and randomness arrive as handles.

mod access;
pub mod allocate;
pub mod cron;
pub mod defaults;
pub mod facts;
pub mod fields;
pub mod jsonpath;
pub mod limits;
pub mod prepare;
pub mod quota;
pub mod resources;
mod shown;
pub mod table;
pub mod validate;
pub mod warnings;
