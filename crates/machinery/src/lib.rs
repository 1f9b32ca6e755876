//! The API machinery that works on objects of every kind: server-side apply, field sets, the three patch types, and the
//! structural schemas of custom resources.
//!
//! Every function is pure: it takes objects as JSON values and a [`Schema`](setpoint_schema::Schema).

pub mod apply;
pub mod patch;
pub mod strategic;
pub mod structural;
pub mod fieldset;
mod interrupt;

pub use interrupt::Interrupt;
