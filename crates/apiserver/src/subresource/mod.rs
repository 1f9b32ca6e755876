//! Paths below an object.

pub(crate) mod binding;
mod eviction;
pub mod node;
mod proxy;
mod scale;
mod stream;
mod token;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use setpoint_api::kind::GroupVersionKind;
use setpoint_machinery::apply::{self, OneVersion, ResetFields, WriteContext};
use setpoint_schema::builtin;

use crate::admission::webhook::{self, Attributes, Operation};
use crate::auth::authn::WEBSOCKET_TOKEN;
use crate::body;
use crate::error::{ApiError, Result};
use crate::header::lossy;
use crate::object;
use crate::respond;
use crate::server::{Ask, Body};
use crate::verb;
use crate::write::Writer;

/// Answers a request for a subresource.
pub(crate) async fn route(ask: Ask, request: Request<Body>) -> Result<Response<Body>> {
    let Some(sub) = ask.resource.subresource(&ask.info.subresource) else {
        return Err(match ask.resource.custom {
            Some(_) => ApiError::not_found(&ask.resource, &ask.info.name),
            None => ApiError::no_such_resource(),
        });
    };
    if ask.info.subresource == "proxy" {
        // Rare, and large: every request would carry its room.
        return Box::pin(proxy::route(&ask, request)).await;
    }
    if !sub.verbs.contains(&ask.info.verb) {
        return Err(ApiError::method_not_allowed());
    }
    match ask.info.subresource.as_str() {
        "status" | "finalize" | "approval" | "ephemeralcontainers" | "resize" => whole(&ask, request).await,
        "scale" => scale::route(&ask, &body::read(request.into_body()).await?).await,
        "binding" => binding::route(&ask, &body::read(request.into_body()).await?).await,
        "eviction" => eviction::route(&ask, &body::read(request.into_body()).await?).await,
        "token" => token::route(&ask, &body::read(request.into_body()).await?).await,
        "log" | "exec" | "attach" | "portforward" => Box::pin(stream::route(&ask, request)).await,
        other => Err(ApiError::unavailable(format!("the subresource {other} has no backend"))),
    }
}

/// Lets webhooks judge a connection to an object.
async fn connect(ask: &Ask, kind: &str, options: Value) -> Result<()> {
    if ask.reviews.is_none() {
        return Ok(());
    }
    let snapshot = ask.server.store().snapshot();
    let attributes = Attributes::of(ask, &snapshot, Operation::Connect).with(options, None);
    drop(snapshot);
    webhook::admit(ask, attributes.about("", "v1", kind)).await.map(|_| ())
}

/// Who asks is known here, and is nobody's business behind the server.
fn remove_credentials(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    let own: Vec<_> =
        headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
    for name in own {
        headers.remove(name);
    }
    remove_token_protocol(headers);
}

/// Leaves out the protocol of a WebSocket that is the client's token.
fn remove_token_protocol(headers: &mut HeaderMap) {
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().map(lossy).collect::<Vec<_>>().join(",");
    let offers = offered.split(',').map(str::trim);
    let (tokens, kept): (Vec<&str>, Vec<&str>) = offers.partition(|offer| offer.starts_with(WEBSOCKET_TOKEN));
    if tokens.is_empty() {
        return;
    }
    match HeaderValue::from_str(&kept.join(",")) {
        Ok(kept) if !kept.is_empty() => drop(headers.insert(SEC_WEBSOCKET_PROTOCOL, kept)),
        _ => drop(headers.remove(SEC_WEBSOCKET_PROTOCOL)),
    }
}

/// Joins a client that has asked for another protocol with who has agreed to it.
fn bridge(ask: &Ask, client: OnUpgrade, mut agreed: Response<Incoming>) -> Response<Body> {
    let served = hyper::upgrade::on(&mut agreed);
    ask.server.own(async move {
        let (Ok(client), Ok(served)) = (client.await, served.await) else { return };
        let (mut client, mut served) = (TokioIo::new(client), TokioIo::new(served));
        // Either side may break off; that ends the session.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut served).await;
    });
    let mut response = Response::new(respond::full(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = agreed.headers().clone();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response
}

/// What webhooks make of something that is created below an object.
async fn admit(writer: &Writer<'_>, mut sent: Value, kind: Kind) -> Result<Value> {
    let ask = writer.ask;
    if ask.reviews.is_none() {
        return Ok(sent);
    }
    object::set_meta_text(&mut sent, "namespace", &ask.info.namespace);
    own(writer, kind, &mut sent);
    let snapshot = ask.server.store().snapshot();
    let attributes = Attributes::of(ask, &snapshot, Operation::Create).with(sent.clone(), None);
    drop(snapshot);
    let (group, version, kind) = kind;
    let admitted = webhook::admit(ask, attributes.about(group, version, kind)).await?;
    Ok(admitted.unwrap_or(sent))
}

/// Group, version and kind.
type Kind = (&'static str, &'static str, &'static str);

/// Nothing is stored, and yet it is noted who asked.
fn own(writer: &Writer<'_>, kind: Kind, sent: &mut Value) {
    let Some(schema) = builtin().schema(kind.0, kind.1, kind.2) else { return };
    let (group, version, kind) = kind;
    let kind = GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() };
    let context = WriteContext {
        schema: &schema,
        kind: &kind,
        manager: &writer.manager,
        subresource: &writer.ask.info.subresource,
        now: writer.now,
        reset_fields: &ResetFields::None,
        versions: &OneVersion,
    };
    apply::track_update(None, sent, &context);
}

/// Subresources that take and give the whole object.
async fn whole(ask: &Ask, request: Request<Body>) -> Result<Response<Body>> {
    if ask.info.verb == "get" {
        return verb::get::get(ask).await;
    }
    let bytes = body::read(request.into_body()).await?;
    let write = async {
        match ask.info.verb.as_str() {
            "update" => verb::update::update(ask, &bytes).await,
            "patch" => verb::patch::patch(ask, &bytes).await,
            _ => Err(ApiError::method_not_allowed()),
        }
    };
    crate::request_limits::work(ask, bytes.len(), Box::pin(write)).await
}
