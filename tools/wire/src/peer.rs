//! The real thing: etcd and kube-apiserver as children on loopback ports, and a connection to it.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;

/// A running kube-apiserver with its etcd; both end with this handle.
pub struct Peer {
    /// `127.0.0.1:PORT`.
    pub address: String,
    tls: Arc<ClientConfig>,
    children: Vec<Child>,
    folder: tempfile::TempDir,
}

impl Drop for Peer {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Peer {
    /// Starts the programs of that folder and waits until they are ready.
    pub async fn start(programs: &Path) -> Result<Peer> {
        let folder = tempfile::tempdir()?;
        let (client, member, port) = (free_port()?, free_port()?, free_port()?);
        let at = |port: u16| format!("http://127.0.0.1:{port}");
        let mut etcd = Command::new(programs.join("etcd"));
        etcd.arg("--data-dir").arg(folder.path().join("etcd")).arg("--unsafe-no-fsync");
        etcd.args(["--listen-client-urls", &at(client), "--advertise-client-urls", &at(client)]);
        etcd.args(["--listen-peer-urls", &at(member), "--initial-advertise-peer-urls", &at(member)]);
        etcd.args(["--initial-cluster", &format!("default={}", at(member)), "--log-level", "error"]);
        let tokens = "token-of-admin,admin,admin,system:masters\ntoken-of-alice,alice,alice,dev\n";
        std::fs::write(folder.path().join("tokens.csv"), tokens)?;
        let key = rcgen::KeyPair::generate()?;
        std::fs::write(folder.path().join("sa.key"), key.serialize_pem())?;
        std::fs::write(folder.path().join("sa.pub"), key.public_key_pem())?;
        let mut apiserver = Command::new(programs.join("kube-apiserver"));
        apiserver
            .current_dir(folder.path())
            .args(["--etcd-servers", &at(client), "--secure-port", &port.to_string()])
            .args(["--bind-address", "127.0.0.1", "--cert-dir", "certs"])
            .args(["--service-account-issuer", "https://kubernetes.default.svc"])
            .args(["--service-account-key-file", "sa.pub", "--service-account-signing-key-file", "sa.key"])
            .args(["--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "RBAC"])
            .args(["--token-auth-file", "tokens.csv", "--disable-admission-plugins", "ServiceAccount"])
            .arg("--allow-privileged");
        let log = |name: &str| std::fs::File::create(folder.path().join(name));
        let children = vec![
            etcd.stdout(Stdio::null()).stderr(log("etcd.log")?).spawn().context("etcd")?,
            apiserver.stdout(Stdio::null()).stderr(log("log")?).spawn().context("kube-apiserver")?,
        ];
        let address = format!("127.0.0.1:{port}");
        let peer = Peer { address, tls: any_server()?, children, folder };
        peer.ready().await?;
        Ok(peer)
    }

    async fn ready(&self) -> Result<()> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while tokio::time::Instant::now() < deadline {
            if let Ok(mut connection) = Connection::open(self).await {
                let request = Request::get(format!("https://{}/readyz", self.address))
                    .header("authorization", "Bearer token-of-admin")
                    .body(Full::default())?;
                if connection.send(request).await.is_ok_and(|response| response.status().is_success()) {
                    return Ok(());
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(5).collect();
        bail!("kube-apiserver is not ready after a minute: {last:?}")
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
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

fn any_server() -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// The peer makes its own certificate at every start; this tool started it on a loopback port itself.
#[derive(Debug)]
struct AnyServer(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
