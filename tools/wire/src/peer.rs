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
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use setpoint_peers::{ControlPlane, Options};
use tokio::net::TcpStream;

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
    pub fn start() -> Result<Peer> {
        let folder = tempfile::tempdir()?;
        // Scenarios make pods in namespaces that no controller gave a service account.
        let apiserver_flags = vec!["--disable-admission-plugins=ServiceAccount".to_owned()];
        let plane = ControlPlane::start(folder.path(), &Options { apiserver_flags, ..Options::default() })?;
        let tls = client_config(&std::fs::read(plane.authority())?)?;
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
        let stream = TcpStream::connect(&peer.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = tokio_rustls::TlsConnector::from(peer.tls.clone()).connect(name, stream).await?;
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

    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        self.send.ready().await?;
        Ok(self.send.send_request(request).await?)
    }
}

fn client_config(authority: &[u8]) -> Result<Arc<ClientConfig>> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
