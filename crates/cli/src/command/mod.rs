//! One file a subcommand.

pub mod assets;
pub mod controllers;
mod demo;
mod nodes;
pub mod up;
pub mod viewer;
