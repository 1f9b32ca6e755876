//! Connections to endpoints inside the cluster.

use std::io;

use tokio::net::TcpStream;

use crate::nodes::Io;
use crate::server::Server;

/// The address of a listener, and its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The pod behind the address.
    pub(crate) pod: Option<Pod>,
}

/// A pod by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A connection that could not be made, in the words of Go's dialer.
#[derive(Debug, thiserror::Error)]
#[error("dial tcp {address}: {}", text(.error))]
pub(crate) struct DialError {
    address: String,
    error: io::Error,
}

/// Connects to an endpoint. Addresses of pods inside this process carry no traffic,
/// so their nodes make the connection.
pub(crate) async fn dial(server: &Server, endpoint: &Endpoint) -> Result<Box<dyn Io>, DialError> {
    let Endpoint { host, port, .. } = endpoint;
    connect(server, endpoint).await.map_err(|error| {
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        DialError { address, error }
    })
}

async fn connect(server: &Server, endpoint: &Endpoint) -> io::Result<Box<dyn Io>> {
    if let (Some(nodes), Some(pod)) = (&server.options().nodes, &endpoint.pod)
        && let Some(dialing) = nodes.dial_pod(&pod.namespace, &pod.name, endpoint.port)
    {
        return dialing.await;
    }
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
    // Requests are small and a caller waits for the answer.
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

fn text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        _ => error.to_string(),
    }
}
