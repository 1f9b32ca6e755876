//! Example.
pub mod types;
