//! A kubelet's HTTP paths: logs, exec, attach, port-forward.

pub mod attach;
pub mod channels;
pub mod client_certificate;
pub mod exec;
pub mod port_forward;
pub mod ports;
pub mod server;
pub mod service;
pub mod session;
mod strangers;
pub mod tunnel;
pub mod upgrade;
