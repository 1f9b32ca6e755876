//! Nodes: they register, send heartbeats, and run the pods bound to them, either simulated or as processes of
//! this host.

mod register;
mod pods;
mod host;
pub mod kubelet;
pub mod node;
mod options;
pub mod process;
pub mod log;
mod events;
pub mod probe;
pub mod address;
pub mod simulated;
pub mod annotation;
pub mod spdy;
pub mod status;

pub use host::{NodePods, PodPorts};
pub use options::{Capacity, NodeOptions};
pub use pods::Pods;
pub use register::{register, register_serving};
