//! A kubelet's HTTP paths: logs, exec, attach, port-forward.

pub mod service;
pub mod ports;
pub mod port_forward;
pub mod tunnel;
pub mod channels;
pub mod upgrade;
pub mod session;
