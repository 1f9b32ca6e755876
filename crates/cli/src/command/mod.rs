//! One file a subcommand.

pub mod assets;
pub mod controllers;
mod demo;
pub mod up;
pub mod viewer;
