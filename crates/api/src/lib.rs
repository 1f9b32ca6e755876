//! Values and pure functions that a Kubernetes API server and its clients share: kinds, selectors, schema
//! facts, field sets, patches, tables.
//!
//! Nothing here does I/O, knows HTTP, or reads a clock: time and randomness arrive as handles
//! ([`Clock`], [`Random`]).

mod access;
pub mod allocate;
pub mod apply;
pub mod cause;
pub mod clock;
pub mod cron;
pub mod defaults;
pub mod facts;
pub mod fields;
pub mod fieldset;
pub mod gostyle;
pub mod jsonpath;
pub mod kind;
pub mod limits;
pub mod name;
pub mod patch;
pub mod prepare;
pub mod protobuf;
pub mod quantity;
pub mod quota;
pub mod random;
pub mod resources;
pub mod schema;
pub mod selector;
mod shown;
pub mod spelling;
pub mod status;
pub mod strategic;
pub mod structural;
pub mod table;
pub mod validate;
pub mod warnings;

pub use cause::{Cause, CauseType, Path};
pub use clock::Clock;
pub use kind::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use random::Random;
pub use status::Status;
