//! Values and pure functions that a Kubernetes API server and its clients share: kinds, selectors, schema
//! facts, field sets, patches, tables.
//!
//! Nothing here does I/O, knows HTTP, or reads a clock: time and randomness arrive as handles
//! ([`Clock`], [`Random`]).

pub mod clock;
pub mod random;
pub mod schema;

pub use clock::Clock;
pub use random::Random;
