//! What this program is when it is started as `kube-apiserver` or `etcd`: what envtest needs of them.

pub mod apiserver;
pub mod etcd;
