//! One file a subcommand.

mod demo;
pub mod up;
pub mod viewer;
