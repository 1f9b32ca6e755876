//! Connections to nodes inside the process.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// A two-way stream of bytes.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// The future of a connection attempt.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Io>>> + Send>>;

/// Connects to the kubelet of a node, and to the pods on the node.
pub trait Nodes: Send + Sync {
    /// A stream on which the node speaks HTTP/1.1. `None` if the node is not one of these.
    fn dial(&self, node: &str) -> Option<Dialing>;

    /// A stream to a port of a pod, whose address need not lead anywhere. `None` if the pod does not run on these
    /// nodes.
    fn dial_pod(&self, namespace: &str, pod: &str, port: u16) -> Option<Dialing> {
        let _ = (namespace, pod, port);
        None
    }
}

/// The nodes inside the process, shared.
pub type NodesHandle = Arc<dyn Nodes>;
