//! `proxy` of pods, services and nodes: forwards HTTP to the server that listens there.

mod location;
mod rewrite;
mod tls;

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::{DeflateDecoder, GzDecoder};
use flate2::write::{DeflateEncoder, GzEncoder};
use http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, LOCATION,
    UPGRADE,
};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use rustls_pki_types::{InvalidDnsNameError, ServerName};
use serde_json::json;

use self::location::{Wanted, unreachable};
use self::rewrite::{Links, join};
use super::node;
use crate::body::{Body, BoxError};
use crate::context::RequestContext;
use crate::dial::{DialError, Endpoint, dial};
use crate::error::{ApiError, Result};
use crate::header::{first, lossy};
use crate::nodes::Io;
use crate::registry;
use crate::respond;

/// The time limit for a connection to be made.
const CONNECT: Duration = Duration::from_secs(30);
/// The longest page whose links are rewritten.
const MAX_PAGE: usize = 64 * 1024 * 1024;

/// The target of a proxied request.
enum Place {
    At {
        endpoint: Endpoint,
        tls: bool,
    },
    /// The kubelet of a node.
    Kubelet(String),
}

/// Forwards a request, and its answer back.
pub(super) async fn route(ctx: &RequestContext, request: Request<Body>) -> Result<Response<Body>> {
    let path = requested_path(ctx);
    let kind = match ctx.resource.plural.as_str() {
        "pods" => "PodProxyOptions",
        "services" => "ServiceProxyOptions",
        _ => "NodeProxyOptions",
    };
    let warnings = super::connect(ctx, kind, json!({ "path": path })).await?;
    respond::warned(pass_on(ctx, request, &path).await, &warnings)
}

async fn pass_on(ctx: &RequestContext, request: Request<Body>, path: &str) -> Result<Response<Body>> {
    let place = place(ctx)?;
    let upgrades = is_upgrade(request.headers());
    if path.is_empty() && !upgrades && matches!(*request.method(), Method::GET | Method::HEAD) {
        return redirect(&request);
    }
    let host = request_host(&request);
    let upstream = place.host();
    let prefix = ctx.info.path.strip_suffix(path).unwrap_or(&ctx.info.path).to_owned();
    let links = Links { prefix, hosts: [upstream, host.clone()] };
    if upgrades {
        upgrade(ctx, &place, request, path, &links, &host).await
    } else {
        let (parts, body) = request.into_parts();
        let sent = forwarded(&parts, body, path, &links, &host)?;
        let answer = exchange(ctx, &place, sent).await?;
        answered(answer, &links).await
    }
}

/// The path after `proxy`. It begins with a slash, and ends with one if the request's path does.
fn requested_path(ctx: &RequestContext) -> String {
    let mut path = if ctx.info.rest.is_empty() { String::new() } else { join("", &ctx.info.rest) };
    if ctx.info.path.ends_with('/') && !path.ends_with('/') {
        path.push('/');
    }
    path
}

fn place(ctx: &RequestContext) -> Result<Place> {
    let snapshot = ctx.server.store().snapshot();
    let (namespace, id) = (&ctx.info.namespace, &ctx.info.name);
    match ctx.resource.plural.as_str() {
        "pods" => {
            let wanted = Wanted::read(id, "pod")?;
            let found = snapshot.get(&ctx.resource.key(namespace, wanted.name));
            let pod =
                registry::value(&*found.ok_or_else(|| ApiError::not_found(&ctx.resource, wanted.name))?);
            Ok(Place::At { endpoint: location::of_pod(&pod, namespace, &wanted)?, tls: wanted.tls })
        }
        "services" => {
            let wanted = Wanted::read(id, "service")?;
            let endpoint = location::of_service(
                &snapshot,
                &ctx.resource,
                namespace,
                &wanted,
                &ctx.server.options().random,
            )?;
            Ok(Place::At { endpoint, tls: wanted.tls })
        }
        _ => {
            let wanted = Wanted::read(id, "node")?;
            if snapshot.get(&ctx.resource.key("", wanted.name)).is_none() {
                return Err(ApiError::not_found(&ctx.resource, wanted.name));
            }
            let kubelet = node::endpoint(&ctx.server, wanted.name);
            if wanted.port.is_empty()
                || kubelet.as_ref().is_some_and(|(_, port)| wanted.port == port.to_string())
            {
                return Ok(Place::Kubelet(wanted.name.to_owned()));
            }
            let address = kubelet.map(|(address, _)| address).unwrap_or_default();
            Ok(Place::At { endpoint: location::of_node(&address, &wanted)?, tls: wanted.tls })
        }
    }
}

/// A connection to the target of a proxy that could not be made.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Name(#[from] InvalidDnsNameError),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

impl Place {
    fn host(&self) -> String {
        match self {
            Place::Kubelet(node) => node.clone(),
            Place::At { endpoint, .. } => format!("{}:{}", endpoint.host, endpoint.port),
        }
    }

    async fn connect(&self, ctx: &RequestContext) -> Result<Box<dyn Io>, ConnectError> {
        let (endpoint, tls) = match self {
            Place::Kubelet(node) => return Ok(node::dial(ctx, node).await?),
            Place::At { endpoint, tls } => (endpoint, *tls),
        };
        let stream = dial(&ctx.server, endpoint).await?;
        if !tls {
            return Ok(stream);
        }
        let name = ServerName::try_from(endpoint.host.clone())?;
        let config = tls::client_config()?;
        let stream = tokio_rustls::TlsConnector::from(config).connect(name, stream).await;
        Ok(Box::new(stream?))
    }
}

async fn exchange(ctx: &RequestContext, place: &Place, request: Request<Body>) -> Result<Response<Incoming>> {
    let connecting = tokio::time::timeout(CONNECT, place.connect(ctx)).await;
    let io = connecting.map_err(|_| unreachable(&format!("dial tcp {}: i/o timeout", place.host())))?;
    let io = io.map_err(|error| unreachable(&error.to_string()))?;
    node::over(&ctx.server, io, request).await.map_err(|error| unreachable(&error.to_string()))
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    let upgrades =
        |value: Cow<'_, str>| value.split(',').any(|one| one.trim().eq_ignore_ascii_case("upgrade"));
    headers.get_all(CONNECTION).iter().map(lossy).any(upgrades)
}

/// Redirects to the path with a slash. Without it, relative links of a page would lead elsewhere.
fn redirect(request: &Request<Body>) -> Result<Response<Body>> {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = HeaderValue::try_from(format!("{}/{query}", request.uri().path()));
    let mut response = Response::new(respond::full(Bytes::new()));
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(LOCATION, location.map_err(ApiError::internal)?);
    Ok(response)
}

/// The host that the client requested. HTTP/2 has it in the address.
fn request_host(request: &Request<Body>) -> String {
    let named = request.headers().get(HOST).map(lossy);
    let authority = || request.uri().authority().map(|authority| authority.as_str().into());
    named.or_else(authority).unwrap_or_default().into_owned()
}

/// Headers that are for the next hop only.
const HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Removes headers for the next hop: those that HTTP names, and those that `Connection` names.
fn remove_hop_headers(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<String> =
        named.flat_map(|value| value.split(',')).map(|one| one.trim().to_owned()).collect();
    for name in named.iter().map(String::as_str).chain(HOP.iter().copied()) {
        headers.remove(name);
    }
}

/// Makes the request that is passed on.
fn forwarded<B>(
    parts: &http::request::Parts,
    body: B,
    path: &str,
    links: &Links,
    host: &str,
) -> Result<Request<B>> {
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let escaped = escape(if path.is_empty() { "/" } else { path });
    let mut sent = Request::new(body);
    *sent.method_mut() = parts.method.clone();
    *sent.uri_mut() = format!("{escaped}{query}").parse().map_err(ApiError::internal)?;
    *sent.version_mut() = Version::HTTP_11;
    let mut headers = parts.headers.clone();
    remove_hop_headers(&mut headers);
    super::remove_credentials(&mut headers);
    let header = |text: &str| HeaderValue::from_str(text).map_err(ApiError::internal);
    headers.insert("x-forwarded-uri", header(&join(&links.prefix, &escaped))?);
    headers.insert(HOST, header(host)?);
    *sent.headers_mut() = headers;
    Ok(sent)
}

/// A path as it is sent, with the characters escaped that a path may not contain.
fn escape(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~$&+,:;=@!'()*".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The answer as the client gets it.
async fn answered(answer: Response<Incoming>, links: &Links) -> Result<Response<Body>> {
    let (mut parts, body) = answer.into_parts();
    remove_hop_headers(&mut parts.headers);
    // The server sets CORS headers itself, so those of the answer are dropped.
    let cross: Vec<_> =
        parts.headers.keys().filter(|name| name.as_str().starts_with("access-control-")).cloned().collect();
    for name in cross {
        parts.headers.remove(name);
    }
    if let Some(location) = parts.headers.get(LOCATION) {
        // A location outside UTF-8 stays as it is: it cannot be one of ours.
        let led = std::str::from_utf8(location.as_bytes()).ok().and_then(|location| links.through(location));
        if let Some(led) = led.and_then(|led| HeaderValue::try_from(led).ok()) {
            parts.headers.insert(LOCATION, led);
        }
    } else if let Some(encoding) = page_encoding(&parts.headers) {
        let page = Limited::new(body, MAX_PAGE).collect().await;
        let page = page.map_err(|error| unreachable(&error.to_string()))?.to_bytes();
        let page = encoding.rewritten(&page, links).unwrap_or(page);
        parts.headers.remove(CONTENT_LENGTH);
        return Ok(Response::from_parts(parts, respond::full(page)));
    }
    parts.version = Version::default();
    Ok(Response::from_parts(parts, body.map_err(BoxError::from).boxed_unsync()))
}

/// The compression of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Plain,
    Gzip,
    Deflate,
}

/// The compression of an HTML page. `None` for other content, and for a compression that the server does not know.
fn page_encoding(headers: &HeaderMap) -> Option<Encoding> {
    let text = |name: http::HeaderName| first(headers, name);
    if text(CONTENT_TYPE).split(';').next().map(str::trim) != Some("text/html") {
        return None;
    }
    match &*text(CONTENT_ENCODING) {
        "" => Some(Encoding::Plain),
        "gzip" => Some(Encoding::Gzip),
        "deflate" => Some(Encoding::Deflate),
        _ => None,
    }
}

impl Encoding {
    /// The page with rewritten links, or `None` if it cannot be decompressed.
    fn rewritten(self, page: &Bytes, links: &Links) -> Option<Bytes> {
        let mut text = Vec::new();
        let most = MAX_PAGE as u64 + 1;
        match self {
            Encoding::Plain => text.extend_from_slice(page),
            Encoding::Gzip => drop(GzDecoder::new(&page[..]).take(most).read_to_end(&mut text).ok()?),
            Encoding::Deflate => drop(DeflateDecoder::new(&page[..]).take(most).read_to_end(&mut text).ok()?),
        }
        let text = String::from_utf8(text).ok().filter(|text| text.len() <= MAX_PAGE)?;
        let page = rewrite::html(&text, links).into_bytes();
        let packed = match self {
            Encoding::Plain => page,
            Encoding::Gzip => {
                let mut out = GzEncoder::new(Vec::new(), Compression::fast());
                out.write_all(&page).ok()?;
                out.finish().ok()?
            }
            Encoding::Deflate => {
                let mut out = DeflateEncoder::new(Vec::new(), Compression::fast());
                out.write_all(&page).ok()?;
                out.finish().ok()?
            }
        };
        Some(packed.into())
    }
}

/// A WebSocket or another protocol: copies bytes both ways if the target agrees.
async fn upgrade(
    ctx: &RequestContext,
    place: &Place,
    mut request: Request<Body>,
    path: &str,
    links: &Links,
    host: &str,
) -> Result<Response<Body>> {
    let client = hyper::upgrade::on(&mut request);
    let (parts, body) = request.into_parts();
    let mut sent = forwarded(&parts, body, path, links, host)?;
    sent.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if let Some(protocol) = parts.headers.get(UPGRADE) {
        sent.headers_mut().insert(UPGRADE, protocol.clone());
    }
    let answer = exchange(ctx, place, sent).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return answered(answer, links).await;
    }
    Ok(super::bridge(ctx, client, answer))
}
