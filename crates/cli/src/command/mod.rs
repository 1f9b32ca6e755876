//! One file a subcommand.

pub mod assets;
pub mod controllers;
pub mod up;
mod demo;
mod nodes;
pub mod viewer;
