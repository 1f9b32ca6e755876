//! Subresources: the paths below an object.

mod eviction;
mod proxy;
mod scale;
mod stream;
pub mod node;
mod token;
pub(crate) mod binding;

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

use crate::admission::webhook::{self, Reviews};
use crate::admission::{Attributes, Operation};
use crate::auth::authn::WEBSOCKET_TOKEN;
use crate::body;
use crate::body::Body;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::header::lossy;
use crate::object;
use crate::request::Verb;
use crate::respond;
use crate::verb;
use crate::writer::Writer;

/// Answers a request for a subresource.
pub(crate) async fn route(ctx: RequestContext, request: Request<Body>) -> Result<Response<Body>> {
    let Some(sub) = ctx.resource.subresource(&ctx.info.subresource) else {
        return Err(match ctx.resource.custom {
            Some(_) => ApiError::not_found(&ctx.resource, &ctx.info.name),
            None => ApiError::no_such_resource(),
        });
    };
    if ctx.info.subresource == "proxy" {
        // Boxed because the call is rare and its future large: every request would carry its size.
        return Box::pin(proxy::route(&ctx, request)).await;
    }
    if !sub.verbs.iter().any(|own| own == ctx.info.verb.as_str()) {
        return Err(ApiError::method_not_allowed());
    }
    match ctx.info.subresource.as_str() {
        "status" | "finalize" | "approval" | "ephemeralcontainers" | "resize" => whole(ctx, request).await,
        "scale" | "binding" | "eviction" | "token" => part(ctx, request).await,
        "log" | "exec" | "attach" | "portforward" => Box::pin(stream::route(&ctx, request)).await,
        other => Err(ApiError::unavailable(format!("the subresource {other} has no backend"))),
    }
}

/// Runs admission for a connection to an object. Returns the warnings.
async fn connect(ctx: &RequestContext, kind: &str, options: Value) -> Result<Vec<String>> {
    let Some(reviews) = Reviews::begin(ctx) else { return Ok(Vec::new()) };
    let snapshot = ctx.server.store().snapshot();
    let attributes = Attributes::of(ctx, &snapshot, Operation::Connect).with(options, None);
    drop(snapshot);
    let admitted = webhook::admit(ctx, &reviews, attributes.about("", "v1", kind)).await;
    admitted.map_err(|error| error.with_warnings(&reviews.warnings()))?;
    Ok(reviews.warnings())
}

/// Removes the credentials: the client is authenticated here, and servers behind this one must not see them.
fn remove_credentials(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    let own: Vec<_> =
        headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
    for name in own {
        headers.remove(name);
    }
    remove_token_protocol(headers);
}

/// Removes the subprotocol of a WebSocket that carries the client's token.
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

/// Copies bytes between a client that asked for another protocol and the server that agreed to it.
fn bridge(ctx: &RequestContext, client: OnUpgrade, mut agreed: Response<Incoming>) -> Response<Body> {
    let served = hyper::upgrade::on(&mut agreed);
    ctx.server.own(async move {
        let (Ok(client), Ok(served)) = (client.await, served.await) else { return };
        let (mut client, mut served) = (TokioIo::new(client), TokioIo::new(served));
        // Either side may break off, which ends the session.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut served).await;
    });
    let mut response = Response::new(respond::full(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = agreed.headers().clone();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response
}

/// Refuses a body that names another object than the path.
fn same_object(ctx: &RequestContext, sent: &Value, kind: &str) -> Result<()> {
    let namespace = object::meta_text(sent, "namespace");
    if !namespace.is_empty() && namespace != ctx.info.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    match object::name(sent) == ctx.info.name {
        true => Ok(()),
        false => Err(ApiError::bad_request(format!("name in URL does not match name in {kind} object"))),
    }
}

/// The object after the webhooks, for an object that is created below another.
async fn admit(writer: &Writer<'_>, mut sent: Value, kind: Kind) -> Result<Value> {
    let ctx = writer.ctx;
    let Some(reviews) = &writer.reviews else { return Ok(sent) };
    object::set_meta_text(&mut sent, "namespace", &ctx.info.namespace);
    own(writer, kind, &mut sent);
    let snapshot = ctx.server.store().snapshot();
    let attributes =
        Attributes::of_write(ctx, &writer.options, &snapshot, Operation::Create).with(sent.clone(), None);
    drop(snapshot);
    let (group, version, kind) = kind;
    let admitted = webhook::admit(ctx, reviews, attributes.about(group, version, kind)).await;
    let admitted = admitted.map_err(|error| error.with_warnings(&reviews.warnings()))?;
    Ok(admitted.unwrap_or(sent))
}

/// Group, version and kind.
type Kind = (&'static str, &'static str, &'static str);

/// Records the field manager, although the object itself is not stored.
fn own(writer: &Writer<'_>, kind: Kind, sent: &mut Value) {
    let Some(schema) = builtin().schema(kind.0, kind.1, kind.2) else { return };
    let (group, version, kind) = kind;
    let kind = GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() };
    let context = WriteContext {
        schema: &schema,
        kind: &kind,
        manager: &writer.manager,
        subresource: &writer.ctx.info.subresource,
        now: writer.now,
        reset_fields: &ResetFields::None,
        versions: &OneVersion,
    };
    apply::track_update(None, sent, &context);
}

/// Serves subresources with an object of their own.
async fn part(ctx: RequestContext, request: Request<Body>) -> Result<Response<Body>> {
    let bytes = body::read(request.into_body()).await?;
    let sent = bytes.len();
    let answer = |ctx: RequestContext| async move {
        match ctx.info.subresource.as_str() {
            "scale" => scale::route(&ctx, &bytes).await,
            "binding" => binding::route(&ctx, &bytes).await,
            "eviction" => eviction::route(&ctx, &bytes).await,
            _ => token::route(&ctx, &bytes).await,
        }
    };
    crate::heavy::work(ctx, sent, answer).await
}

/// Serves subresources whose requests and answers are the whole object.
async fn whole(ctx: RequestContext, request: Request<Body>) -> Result<Response<Body>> {
    if ctx.info.verb == Verb::Get {
        return verb::get::get(&ctx).await;
    }
    let bytes = body::read(request.into_body()).await?;
    let sent = bytes.len();
    let write = |ctx: RequestContext| async move {
        match ctx.info.verb {
            Verb::Update => verb::update::update(&ctx, &bytes).await,
            Verb::Patch => verb::patch::patch(&ctx, &bytes).await,
            _ => Err(ApiError::method_not_allowed()),
        }
    };
    crate::heavy::work(ctx, sent, write).await
}
