//! One attempt of a probe over the network.

use std::net::SocketAddr;
use std::time::Duration;

use super::connection::{ProbeFailure, connect};
use super::{Check, grpc, http_get};
use crate::address::PodPorts;

/// Makes one attempt. The owner of an exec probe runs it instead.
pub async fn attempt(check: &Check, ports: &PodPorts, timeout: Duration) -> Result<(), ProbeFailure> {
    let made = async {
        match check {
            Check::Http(get) => http_get::get(place(get.host.as_deref(), get.port, ports).await?, get).await,
            Check::Tcp { host, port } => connect(place(host.as_deref(), *port, ports).await?)
                .await
                .map(drop)
                .map_err(ProbeFailure::new),
            Check::Grpc { port, service } => grpc::check(place(None, *port, ports).await?, service).await,
            Check::Exec { .. } => Err(ProbeFailure::new("exec probes run beside the container")),
            Check::Impossible(why) => Err(ProbeFailure::new(why)),
        }
    };
    tokio::time::timeout(timeout, made).await.unwrap_or_else(|_| Err(ProbeFailure::new("timed out")))
}

/// Returns the real address of a port of the pod, or of the host that the probe names instead.
async fn place(host: Option<&str>, port: u16, ports: &PodPorts) -> Result<SocketAddr, ProbeFailure> {
    let Some(host) = host else { return ports.place(port).map_err(ProbeFailure::new) };
    let mut found = tokio::net::lookup_host((host, port)).await.map_err(ProbeFailure::new)?;
    found.next().ok_or_else(|| ProbeFailure(format!("no address for {host}")))
}

#[cfg(test)]
mod tests;
