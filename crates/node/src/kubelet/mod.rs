//! A kubelet's HTTP paths: logs, exec, attach, port-forward.

pub mod exec;
pub mod port_forward;
pub mod tunnel;
