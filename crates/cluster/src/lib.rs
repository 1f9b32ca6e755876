//! A Kubernetes cluster in one process: for tests, and for a laptop.

pub mod credentials;
pub mod kubeconfig;
