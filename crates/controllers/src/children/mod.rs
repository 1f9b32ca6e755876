//! The children of an owner: which it claims, how it adopts and releases them, which changes concern it, and the writes
//! to its pods.

pub mod adopt;
pub mod claim;
pub mod trigger;
pub mod write;
