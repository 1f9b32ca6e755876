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

/// Connects to an endpoint. The error is that of Go's dialer. Addresses of pods inside this process carry no traffic,
/// so their nodes make the connection.
pub(crate) async fn dial(server: &Server, endpoint: &Endpoint) -> Result<Box<dyn Io>, String> {
    let connected = connect(server, endpoint).await;
    let address =
        if endpoint.host.contains(':') { format!("[{}]", endpoint.host) } else { endpoint.host.clone() };
    connected.map_err(|error| format!("dial tcp {address}:{}: {}", endpoint.port, text(&error)))
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
