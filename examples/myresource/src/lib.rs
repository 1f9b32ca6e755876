//! Example.

pub mod types;
