//! The subcommands, one file each.

pub mod new;
pub mod assets;
pub mod controllers;
pub mod up;
mod demo;
mod nodes;
pub mod prove;
pub mod viewer;
