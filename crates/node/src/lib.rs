//! Nodes: they register, send heartbeats, and run the pods bound to them, either simulated or as processes of
//! this host.

mod register;
mod serving;
mod host;
mod kubelet;
mod spdy;
mod pods;
mod node;
pub mod process;
mod probe;
mod log;
mod simulated;
mod events;
mod status;
mod options;
mod image;
mod node_name;
mod annotation;
mod address;
pub mod plain_file;

pub use address::{Listen, PodPorts};
pub use host::NodePods;
pub use image::{Image, ImageTable, Trust};
pub use kubelet::port_forward::Dial;
pub use kubelet::service::Service as KubeletService;
pub use options::{Capacity, NodeOptions};
pub use pods::Pods;
pub use register::{register, register_serving};
pub use serving::{API_SERVER, Serving, ServingOptions};
