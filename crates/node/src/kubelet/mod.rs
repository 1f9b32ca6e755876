//! A kubelet's HTTP paths: logs, exec, attach, port-forward.

pub mod channels;
pub mod exec;
pub mod port_forward;
pub mod ports;
pub mod service;
pub mod tunnel;
pub mod upgrade;
