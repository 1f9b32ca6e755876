//! Connects the API server with the nodes of its own process: a pipe instead of a socket.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use setpoint_apiserver::{Dialing, Io, Nodes};
use setpoint_node::{Dial, KubeletService, NodePods, Pods};
use tokio::task::JoinSet;

/// Bytes in flight in one direction before the writer waits.
const PIPE: usize = 64 * 1024;

/// The nodes of this process, once they are registered. Clones share them.
#[derive(Clone, Default)]
pub struct LocalNodes(Arc<Shared>);

#[derive(Default)]
struct Shared {
    pods: OnceLock<Pods>,
    kubelets: Mutex<BTreeMap<String, KubeletService<NodePods>>>,
    connections: Mutex<JoinSet<()>>,
}

impl LocalNodes {
    /// Makes the nodes' pods reachable.
    pub fn serve(&self, pods: Pods) {
        // A cluster has one set of nodes, created once.
        let _ = self.0.pods.set(pods);
    }

    /// Returns the service of a node, created at the first request: its sessions have to outlive one connection.
    fn kubelet(&self, node: &str) -> Option<KubeletService<NodePods>> {
        let mut kubelets = self.0.kubelets.lock().expect("no holder of this lock panics");
        if let Some(known) = kubelets.get(node) {
            return Some(known.clone());
        }
        let kubelet = NodePods::kubelet(self.0.pods.get()?, node)?;
        kubelets.insert(node.to_owned(), kubelet.clone());
        Some(kubelet)
    }
}

impl Nodes for LocalNodes {
    fn dial(&self, node: &str) -> Option<Dialing> {
        // Other nodes are in other processes, reached over TLS.
        let kubelet = self.kubelet(node)?;
        let shared = self.0.clone();
        Some(Box::pin(async move {
            let (near, far) = tokio::io::duplex(PIPE);
            let mut connections = shared.connections.lock().expect("no holder of this lock panics");
            while connections.try_join_next().is_some() {}
            connections.spawn(async move { kubelet.serve(far).await });
            Ok(Box::new(near) as Box<dyn Io>)
        }))
    }

    fn dial_pod(&self, namespace: &str, pod: &str, port: u16) -> Option<Dialing> {
        let ports = self.0.pods.get()?.ports(namespace, pod)?;
        Some(Box::pin(async move { Ok(Box::new(ports.dial(port).await?) as Box<dyn Io>) }))
    }
}
