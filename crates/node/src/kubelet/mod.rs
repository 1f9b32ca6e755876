//! A kubelet's HTTP paths: logs, exec, attach, port-forward.

pub mod server;
pub mod client_certificate;
pub mod service;
pub mod ports;
pub mod port_forward;
mod strangers;
pub mod tunnel;
pub mod channels;
pub mod upgrade;
pub mod attach;
pub mod exec;
pub mod session;
