//! One HTTP/2 connection over TLS, as client-go keeps one.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;

/// One request.
#[derive(Clone)]
pub struct Call {
    pub method: Method,
    pub path: String,
    pub content_type: Option<&'static str>,
    pub accept: &'static str,
    pub body: Bytes,
}

impl Call {
    /// A read in JSON.
    pub fn get(path: impl Into<String>) -> Call {
        let accept = "application/json";
        Call { method: Method::GET, path: path.into(), content_type: None, accept, body: Bytes::new() }
    }
}

/// The address of a server, and the credentials for it.
#[derive(Clone)]
pub struct Target {
    /// `127.0.0.1:PORT`.
    pub address: String,
    /// The client's TLS configuration.
    pub tls: Arc<ClientConfig>,
    /// A bearer token, where the server knows the client by one.
    pub token: Option<String>,
}

impl Target {
    /// A request as this server takes it.
    pub fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("https://{}{}", self.address, call.path))
            .header("accept", call.accept);
        if let Some(kind) = call.content_type {
            request = request.header("content-type", kind);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        Ok(request.body(Full::new(call.body.clone()))?)
    }
}

/// A connection that sends one request at a time.
pub struct Connection {
    send: SendRequest<Full<Bytes>>,
    target: Target,
    _driver: tokio::task::JoinSet<()>,
}

impl Connection {
    pub async fn open(target: &Target) -> Result<Connection> {
        let stream = TcpStream::connect(&target.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = tokio_rustls::TlsConnector::from(target.tls.clone()).connect(name, stream).await?;
        let (send, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        let mut driver = tokio::task::JoinSet::new();
        driver.spawn(async move {
            let _ = connection.await;
        });
        Ok(Connection { send, target: target.clone(), _driver: driver })
    }

    /// Sends a request and gives the answer's head with its body still to be read.
    pub async fn start(&mut self, call: &Call) -> Result<Response<Incoming>> {
        let request = self.target.request(call)?;
        self.send.ready().await?;
        Ok(self.send.send_request(request).await?)
    }

    /// Sends a request, drains the answer, and fails unless it is a success.
    pub async fn call(&mut self, call: &Call) -> Result<usize> {
        self.exchange(self.target.request(call)?).await
    }

    /// The same for a request that is made already.
    pub async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<usize> {
        let mut body = self.succeed(request).await?;
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(length)
    }

    /// Sends a request and gives the whole answer; fails unless it is a success.
    pub async fn read(&mut self, call: &Call) -> Result<Bytes> {
        let request = self.target.request(call)?;
        Ok(self.succeed(request).await?.collect().await?.to_bytes())
    }

    async fn succeed(&mut self, request: Request<Full<Bytes>>) -> Result<Incoming> {
        let uri = request.uri().clone();
        self.send.ready().await?;
        let response = self.send.send_request(request).await?;
        let status = response.status();
        if !status.is_success() {
            let text = response.into_body().collect().await?.to_bytes();
            anyhow::bail!("{uri}: {status}: {}", String::from_utf8_lossy(&text));
        }
        Ok(response.into_body())
    }
}

/// A client that trusts `authority` and shows a certificate when given one.
pub fn client_config(authority: &[u8], identity: Option<(&[u8], &[u8])>) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        roots.add(certificate?)?;
    }
    ensure!(!roots.is_empty(), "no certificate in the authority");
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match identity {
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>()?;
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key).context("client key")?)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
