//! The subcommands, one file each.

pub mod new;
pub mod status;
pub mod down;
pub mod kubeconfig;
pub mod load;
pub mod snapshot;
pub mod assets;
pub mod controllers;
pub mod up;
mod demo;
mod nodes;
pub mod prove;
pub mod viewer;
