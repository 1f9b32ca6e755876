//! A kubelet's HTTP paths: logs, exec, attach, port-forward.

pub mod port_forward;
