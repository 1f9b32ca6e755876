//! HTTP probes, over TLS if requested.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::HttpGet;
use super::connection::{ProbeFailure, connect};

/// Maximum number of redirects, as in a kubelet.
const REDIRECTS: usize = 10;

/// One page and its address.
struct Page {
    tls: bool,
    address: SocketAddr,
    path: String,
}

/// Requests the page, and follows redirects on the same host.
pub(super) async fn get(address: SocketAddr, wanted: &HttpGet) -> Result<(), ProbeFailure> {
    let mut page = Page { tls: wanted.tls, address, path: wanted.path.clone() };
    for _ in 0..=REDIRECTS {
        let answer = page.ask(&wanted.headers).await?;
        let status = answer.status().as_u16();
        if !(200..400).contains(&status) {
            return Err(ProbeFailure(format!("HTTP probe failed with statuscode: {status}")));
        }
        let to = answer.headers().get(header::LOCATION).filter(|_| (300..400).contains(&status));
        match to.and_then(|to| page.redirected(to.to_str().ok()?)) {
            Some(next) => page = next,
            // The health of another host is not the pod's: the probe succeeds, as in a kubelet.
            None => return Ok(()),
        }
    }
    Err(ProbeFailure(format!("stopped after {REDIRECTS} redirects")))
}

impl Page {
    async fn ask(&self, headers: &[(String, String)]) -> Result<Response<Incoming>, ProbeFailure> {
        let stream = connect(self.address).await.map_err(ProbeFailure::new)?;
        if !self.tls {
            return self.exchange(stream, headers).await;
        }
        let config = setpoint_serving::any_server().map_err(ProbeFailure::new)?.with_no_client_auth();
        let name = ServerName::from(self.address.ip());
        let stream =
            TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(ProbeFailure::new)?;
        self.exchange(stream, headers).await
    }

    async fn exchange<S>(
        &self,
        stream: S,
        headers: &[(String, String)],
    ) -> Result<Response<Incoming>, ProbeFailure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut send, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(ProbeFailure::new)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        send.send_request(self.request(headers)?).await.map_err(ProbeFailure::new)
    }

    /// Builds the request. The probe's own headers replace the default headers of a probe.
    fn request(&self, headers: &[(String, String)]) -> Result<Request<Empty<Bytes>>, ProbeFailure> {
        let mut request = Request::get(&self.path);
        let host = self.address.to_string();
        let given = [("host", host.as_str()), ("user-agent", "kube-probe/1.37"), ("accept", "*/*")];
        for (name, value) in given {
            if !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
                request = request.header(name, value);
            }
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body(Empty::new()).map_err(ProbeFailure::new)
    }

    /// Returns the page that `to` leads to, or `None` if it is on another host.
    fn redirected(&self, to: &str) -> Option<Page> {
        let uri: Uri = to.parse().ok()?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let Some(host) = uri.host() else {
            return Some(Page { tls: self.tls, address: self.address, path }).filter(|_| to.starts_with('/'));
        };
        if host.trim_matches(['[', ']']) != self.address.ip().to_string() {
            return None;
        }
        let tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Some(Page { tls, address: SocketAddr::new(self.address.ip(), port), path })
    }
}
