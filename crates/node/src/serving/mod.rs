//! Serves the kubelet's paths at an address of this host, over TLS, for the API server alone.

mod client_certificate;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair, SanType};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use setpoint::Error;
use setpoint_api::Clock;
use setpoint_serving::{AnyClient, Seat, Unauthenticated};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::client_certificate::ClientAuthority;
use crate::host::NodePods;
use crate::kubelet::service::{Body, Host, Service, text};
use crate::node_name;
use crate::options::NodeOptions;
use crate::pods::Pods;

/// Maximum number of connections to one node. Further ones wait to be accepted.
const CONNECTIONS: usize = 1024;
/// Maximum number of connections to all nodes of this process that are not admitted yet.
const MAX_UNAUTHENTICATED: usize = 64;
/// Time that a client has for the handshake. A client that is not admitted has the same time for its request and the
/// refusal.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time that an admitted connection may wait for the next request's head.
const IDLE: Duration = Duration::from_secs(90);

/// Default common name of the API server's client certificate: that of kubeadm, and of our own API server.
pub const API_SERVER: &str = "kube-apiserver-kubelet-client";

/// Options for serving the kubelet's paths.
#[derive(Clone, Debug)]
pub struct ServingOptions {
    /// The first node's port; the others follow. 0 takes free ports.
    pub port: u16,
    /// PEM of the authority that signed the API server's client certificate.
    pub client_authority: String,
    /// Accepted common names of the API server's certificate. Other certificates of that authority are refused.
    pub client_names: Vec<String>,
    /// Certificate and key (PEM). Default: a self-signed certificate, as in a kubelet.
    pub identity: Option<(String, String)>,
}

impl ServingOptions {
    /// Free ports, for an API server whose certificate this authority signed.
    pub fn new(client_authority: impl Into<String>) -> Self {
        let client_names = vec![API_SERVER.to_owned()];
        ServingOptions { port: 0, client_authority: client_authority.into(), client_names, identity: None }
    }
}

/// The reason why the paths cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// An address could not be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// A certificate could not be created.
    #[error("serving certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A file is not PEM.
    #[error("PEM: {0}")]
    Pem(#[from] rustls_pki_types::pem::Error),
    /// TLS rejects the certificate or key.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Bound addresses of all nodes, not served yet.
pub struct Serving {
    listeners: Vec<std::net::TcpListener>,
    tls: Arc<ServerConfig>,
    client_check: ClientCheck,
}

impl Serving {
    /// Binds the addresses.
    ///
    /// # Errors
    /// When an address is taken, or a certificate is invalid.
    pub fn bind(nodes: &NodeOptions, options: &ServingOptions) -> Result<Serving, ServingError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = CertificateDer::pem_slice_iter(options.client_authority.as_bytes())
            .collect::<Result<Vec<_>, _>>()?;
        let authority = ClientAuthority::new(roots, provider.clone())?;
        let (certificate, key) = match &options.identity {
            Some(identity) => identity.clone(),
            None => self_signed(nodes)?,
        };
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(Arc::new(AnyClient(authority.0.clone())))
            .with_single_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?;
        // Upgrades exist only in HTTP/1.1.
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut listeners = Vec::new();
        for (at, _) in (0u16..).zip(nodes.indices()) {
            let port = if options.port == 0 { 0 } else { options.port.saturating_add(at) };
            listeners.push(listen(SocketAddr::new(nodes.address, port))?);
        }
        let names = options.client_names.as_slice().into();
        Ok(Serving { listeners, tls: Arc::new(tls), client_check: ClientCheck { authority, names } })
    }

    /// The port of each node.
    pub fn ports(&self) -> Vec<u16> {
        let port =
            |listener: &std::net::TcpListener| listener.local_addr().map_or(0, |address| address.port());
        self.listeners.iter().map(port).collect()
    }

    /// Serves until `stop` is cancelled.
    pub(crate) async fn run(self, pods: Pods, clock: Clock, stop: CancellationToken) -> Result<(), Error> {
        let mut nodes = JoinSet::new();
        let unauthenticated = Unauthenticated::new(MAX_UNAUTHENTICATED);
        for (index, listener) in pods.options().indices().zip(self.listeners) {
            let name = node_name::name(index);
            let Some(service) = NodePods::kubelet(&pods, &name) else { continue };
            let one = OneNode { service, client_check: self.client_check.clone(), clock: clock.clone() };
            let listener = TcpListener::from_std(listener)?;
            nodes.spawn(one.accept(listener, TlsAcceptor::from(self.tls.clone()), unauthenticated.clone()));
        }
        stop.cancelled().await;
        Ok(())
    }
}

fn listen(address: SocketAddr) -> Result<std::net::TcpListener, ServingError> {
    let bound = std::net::TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    bound.map_err(|source| ServingError::Listen { address, source })
}

/// Creates a self-signed certificate for the nodes' names and address.
fn self_signed(nodes: &NodeOptions) -> Result<(String, String), rcgen::Error> {
    let names: Vec<String> = nodes.indices().map(node_name::name).chain(["localhost".to_owned()]).collect();
    let mut params = CertificateParams::new(names)?;
    let addresses = [nodes.address, IpAddr::from([127, 0, 0, 1])];
    params.subject_alt_names.extend(addresses.map(SanType::IpAddress));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// The check of a client: only the API server may use the paths.
#[derive(Clone)]
struct ClientCheck {
    authority: ClientAuthority,
    names: Arc<[String]>,
}

/// The reason for which a client is turned away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    /// The client shows no certificate of the authority.
    #[error("Unauthorized")]
    Unknown,
    /// The client has a certificate of the authority, but is not the API server.
    #[error("Forbidden (user={0}): this node answers its API server only")]
    Other(String),
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Refusal::Unknown => StatusCode::UNAUTHORIZED,
            Refusal::Other(_) => StatusCode::FORBIDDEN,
        }
    }
}

impl ClientCheck {
    fn admit(&self, chain: Option<&[CertificateDer<'_>]>, since_epoch: Duration) -> Result<(), Refusal> {
        let name = chain.and_then(|chain| self.authority.common_name(chain, since_epoch));
        let name = name.ok_or(Refusal::Unknown)?;
        if self.names.contains(&name) { Ok(()) } else { Err(Refusal::Other(name)) }
    }
}

/// One node's server.
#[derive(Clone)]
struct OneNode<H> {
    service: Service<H>,
    client_check: ClientCheck,
    clock: Clock,
}

impl<H: Host> OneNode<H> {
    async fn accept(self, listener: TcpListener, acceptor: TlsAcceptor, unauthenticated: Unauthenticated) {
        let mut connections = JoinSet::new();
        let mut next = Box::pin(unauthenticated.accept(&listener));
        loop {
            tokio::select! {
                biased;
                Some(_) = connections.join_next() => {}
                (socket, seat, leave) = next.as_mut(), if connections.len() < CONNECTIONS => {
                    let (node, acceptor) = (self.clone(), acceptor.clone());
                    connections.spawn(async move {
                        tokio::select! {
                            biased;
                            () = leave.cancelled() => {}
                            () = node.connection(socket, seat, acceptor) => {}
                        }
                    });
                    next.set(unauthenticated.accept(&listener));
                }
            }
        }
    }

    async fn connection(self, socket: TcpStream, seat: Seat, acceptor: TlsAcceptor) {
        let _ = socket.set_nodelay(true);
        let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(socket)).await else { return };
        let (_, session) = stream.get_ref();
        let since_epoch = Duration::try_from(self.clock.now().as_duration()).unwrap_or_default();
        let admitted = self.client_check.admit(session.peer_certificates(), since_epoch);
        let answer = hyper::service::service_fn(|request| {
            let answer = self.answer(&admitted, request);
            async move { Ok::<_, Infallible>(answer) }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(IDLE).keep_alive(admitted.is_ok());
        let connection = builder.serve_connection(TokioIo::new(stream), answer).with_upgrades();
        // A connection error of an admitted client needs no report.
        if admitted.is_ok() {
            drop(seat);
            let _ = connection.await;
        } else {
            let _ = tokio::time::timeout(HANDSHAKE, connection).await;
        }
    }

    fn answer(&self, admitted: &Result<(), Refusal>, request: Request<Incoming>) -> Response<Body> {
        match admitted {
            Ok(()) => self.service.handle(request),
            Err(refusal) => text(refusal.status(), &refusal.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
