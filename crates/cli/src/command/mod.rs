//! One file a subcommand.

pub mod up;
pub mod viewer;
