//! Nodes: they register, send heartbeats, and run the pods bound to them, either simulated or as processes of
//! this host.

pub mod address;
pub mod annotation;
mod events;
mod host;
pub mod kubelet;
pub mod log;
pub mod node;
mod options;
mod pods;
pub mod probe;
pub mod process;
mod register;
pub mod simulated;
pub mod spdy;
pub mod status;

pub use host::{NodePods, PodPorts};
pub use options::{Capacity, NodeOptions};
pub use pods::Pods;
pub use register::{register, register_serving};
