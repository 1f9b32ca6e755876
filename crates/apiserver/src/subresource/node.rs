//! The way to a node's kubelet: a pipe inside the process, or TLS to the address in its Node status.

use std::io;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::body::BoxError;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::key;
use crate::nodes::Io;
use crate::registry;
use crate::server::Server;

/// How long a connection to a node may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Sends a request to the kubelet of a node.
pub(super) async fn send(
    ctx: &RequestContext,
    node: &str,
    request: Request<Empty<bytes::Bytes>>,
) -> Result<Response<Incoming>> {
    let unreachable = |error: &dyn std::fmt::Display| {
        let uri = request.uri().path();
        ApiError::internal_plain(format!("Get \"https://{node}{uri}\": {error}"))
    };
    let io = tokio::time::timeout(CONNECT, dial(ctx, node)).await;
    let io = io.map_err(|_| unreachable(&"dial timed out"))?.map_err(|error| unreachable(&error))?;
    let failed = format!("Get \"https://{node}{}\"", request.uri().path());
    let answered = over(&ctx.server, io, request).await;
    answered.map_err(|error| ApiError::internal_plain(format!("{failed}: {error}")))
}

/// Sends a request over a connection of its own.
pub(super) async fn over<B>(
    server: &Server,
    io: Box<dyn Io>,
    request: Request<B>,
) -> hyper::Result<Response<Incoming>>
where
    B: hyper::body::Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await?;
    server.own(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection into the cluster ended");
        }
    });
    sender.send_request(request).await
}

pub(super) async fn dial(ctx: &RequestContext, node: &str) -> io::Result<Box<dyn Io>> {
    if let Some(dialing) = ctx.server.options().nodes.as_ref().and_then(|nodes| nodes.dial(node)) {
        return dialing.await;
    }
    let (address, port) =
        endpoint(&ctx.server, node).ok_or_else(|| io::Error::other(format!("no such host: {node}")))?;
    let Some(tls) = &ctx.server.options().kubelet_tls else {
        return Err(io::Error::other("this server has no client certificate for nodes"));
    };
    let tls = (***tls).as_ref().map_err(|error| io::Error::other(error.to_string()))?.clone();
    let socket = TcpStream::connect((address.as_str(), port)).await?;
    let name = ServerName::try_from(address).map_err(io::Error::other)?;
    let stream = tokio_rustls::TlsConnector::from(tls).connect(name, socket).await?;
    Ok(Box::new(stream))
}

/// Address and port of a kubelet, as its Node status tells them.
pub(super) fn endpoint(server: &Server, node: &str) -> Option<(String, u16)> {
    let entry = server.store().snapshot().get(&key::object("", "nodes", "", node))?;
    let node = registry::value(&entry);
    let addresses = node.pointer("/status/addresses")?.as_array()?;
    let preferred = ["InternalIP", "Hostname", "InternalDNS", "ExternalDNS", "ExternalIP"];
    let address = preferred.iter().find_map(|kind| {
        let found = addresses.iter().find(|address| address["type"] == *kind)?;
        found["address"].as_str().map(str::to_owned)
    })?;
    let port = node.pointer("/status/daemonEndpoints/kubeletEndpoint/Port").and_then(Value::as_u64)?;
    Some((address, u16::try_from(port).ok()?))
}
