//! How the server reaches nodes inside the process.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// A two-way stream of bytes.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// What a connection attempt comes to.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Io>>> + Send>>;

/// Connects to the kubelet of a node, and to what runs there.
pub trait Nodes: Send + Sync {
    /// A stream on which the node of that name speaks HTTP/1.1; none if it is not one of these nodes.
    fn dial(&self, node: &str) -> Option<Dialing>;

    /// A stream to a port of a pod, whose address need not lead anywhere; none if it does not run on these nodes.
    fn dial_pod(&self, namespace: &str, pod: &str, port: u16) -> Option<Dialing> {
        let _ = (namespace, pod, port);
        None
    }
}

/// The nodes inside the process, shared.
pub type NodesHandle = Arc<dyn Nodes>;
