//! The real thing: etcd and kube-apiserver as children on loopback ports, and a connection to it.

use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use setpoint_peers::{ControlPlane, Options};
use tokio::net::TcpStream;

use crate::setting::Setting;
use crate::tls::client_config;

/// A running kube-apiserver with its etcd; both end with this handle.
pub struct Peer {
    /// `127.0.0.1:PORT`.
    pub address: String,
    tls: Arc<ClientConfig>,
    _plane: ControlPlane,
    _folder: tempfile::TempDir,
}

impl Peer {
    /// Starts it and waits until it is ready.
    pub fn start(setting: Setting) -> Result<Peer> {
        let folder = tempfile::tempdir()?;
        let apiserver_flags = setting.flags().iter().map(|flag| (*flag).to_owned()).collect();
        let plane = ControlPlane::start(folder.path(), &Options { apiserver_flags, ..Options::default() })?;
        let tls = client_config(&std::fs::read(plane.authority())?, None, &[b"h2"])?;
        Ok(Peer { address: plane.address(), tls, _plane: plane, _folder: folder })
    }
}

/// One HTTP/2 connection, as client-go keeps one.
pub struct Connection {
    send: SendRequest<Full<Bytes>>,
    _driver: tokio::task::JoinSet<()>,
}

impl Connection {
    pub async fn open(peer: &Peer) -> Result<Connection> {
        Connection::to(&peer.address, peer.tls.clone()).await
    }

    /// Opens a connection to `HOST:PORT`.
    pub async fn to(address: &str, tls: Arc<ClientConfig>) -> Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = tokio_rustls::TlsConnector::from(tls).connect(name, stream).await?;
        let (send, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        let mut driver = tokio::task::JoinSet::new();
        driver.spawn(async move {
            let _ = connection.await;
        });
        Ok(Connection { send, _driver: driver })
    }

    pub fn is_closed(&self) -> bool {
        self.send.is_closed()
    }

    /// Sends a request and gives the future of its answer, so that further requests need not wait for it.
    pub async fn begin(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<impl Future<Output = hyper::Result<Response<Incoming>>> + use<>> {
        self.send.ready().await?;
        Ok(self.send.send_request(request))
    }

    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        self.send.ready().await?;
        Ok(self.send.send_request(request).await?)
    }
}
