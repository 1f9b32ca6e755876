//! This program under the names `kube-apiserver` and `etcd`, as far as envtest needs them.

pub mod apiserver;
pub mod etcd;
