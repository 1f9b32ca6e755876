//! A caller of webhooks over TLS, as strict as the API server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore};
use setpoint::clock::Clock;
use setpoint_apiserver::pki::Identity;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Connects to the webhooks, trusting these authorities (PEM), and showing a certificate.
pub async fn connect(
    address: SocketAddr,
    authorities: &str,
    identity: Option<&Identity>,
    clock: &Clock,
) -> std::io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let builder = ClientConfig::builder_with_details(provider, Arc::new(Now(clock.clone())));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).map(Result::unwrap);
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain.collect(), key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = format!("{}.{}.svc", super::SERVICE, super::NAMESPACE);
    let socket = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(name).unwrap(), socket).await
}

/// Certificates are judged by the clock of the cluster.
struct Now(Clock);

impl std::fmt::Debug for Now {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Now")
    }
}

impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).unwrap();
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// An HTTP/2 connection.
pub struct Caller(SendRequest<Full<Bytes>>);

impl Caller {
    pub async fn on(stream: TlsStream<TcpStream>) -> Self {
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.unwrap();
        #[allow(clippy::disallowed_methods)] // It ends with the test's runtime.
        tokio::spawn(connection);
        Caller(sender)
    }

    pub async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> hyper::Result<Response<Bytes>> {
        let request =
            Request::post(format!("https://webhooks{path}")).header("content-type", "application/json");
        let (parts, body) =
            self.0.send_request(request.body(Full::new(body.into())).unwrap()).await?.into_parts();
        Ok(Response::from_parts(parts, body.collect().await?.to_bytes()))
    }
}
