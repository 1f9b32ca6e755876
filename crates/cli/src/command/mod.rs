//! One file a subcommand.

pub mod viewer;
