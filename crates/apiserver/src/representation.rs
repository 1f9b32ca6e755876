//! The representation of an answer: whole objects, tables, or metadata only; one or a list.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use setpoint_schema::protobuf;
use setpoint_store::Entry;

use crate::body::Body;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::negotiate::{Format, JSON, Representation};
use crate::protobuf_cache::Message;
use crate::protobuf_fill::Messages;
use crate::registry::Resource;
use crate::versions::present;
use crate::{object, respond, table};

/// A page of a collection.
pub(crate) struct Listed {
    pub(crate) revision: u64,
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) next: String,
    pub(crate) remaining: Option<usize>,
}

impl Listed {
    /// Lists of custom resources always carry the field.
    fn metadata(&self, always_continue: bool) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if !self.next.is_empty() || always_continue {
            metadata["continue"] = json!(self.next);
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        metadata
    }
}

/// Lists longer than this are streamed in pieces instead of being built whole.
const STREAM_FROM: usize = 256 * 1024;
/// The size of such a piece.
const PIECE: usize = 128 * 1024;
/// So many messages are made before other requests have their turn.
const TURN: usize = 256;

/// Answers with one stored object.
pub(crate) fn one_entry(ctx: &RequestContext, status: StatusCode, entry: &Entry) -> Result<Response<Body>> {
    if ctx.negotiated.representation == Representation::Whole && ctx.negotiated.format == Format::Protobuf {
        let body = crate::protobuf_fill::stored(&ctx.server, &ctx.resource, entry)?;
        return Ok(respond::bytes(status, Format::Protobuf.media_type(), body));
    }
    let bytes = present::bytes(&ctx.resource, &entry.value);
    match ctx.negotiated.representation {
        Representation::Whole => respond::stored(status, &ctx.negotiated, &bytes),
        _ => {
            let value = serde_json::from_slice(&bytes).map_err(ApiError::internal)?;
            formed(ctx, status, value)
        }
    }
}

/// Answers with one object that is at hand, in stored form.
pub(crate) fn one_value(ctx: &RequestContext, status: StatusCode, value: Value) -> Result<Response<Body>> {
    formed(ctx, status, present::value(&ctx.resource, value))
}

fn formed(ctx: &RequestContext, status: StatusCode, value: Value) -> Result<Response<Body>> {
    match ctx.negotiated.representation {
        Representation::Whole => respond::value(status, &ctx.negotiated, &value),
        Representation::Metadata(version) => {
            respond::value(status, &ctx.negotiated, &present::partial(&value, version, true))
        }
        Representation::MetadataList(_) => {
            Err(ApiError::wrong_representation("PartialObjectMetadataList", false, &ctx.resource))
        }
        Representation::Table(version) => {
            let metadata = json!({"resourceVersion": object::meta_text(&value, "resourceVersion")});
            let table = table::table(ctx, version, metadata, &[value], true);
            respond::value(status, &ctx.negotiated, &table)
        }
    }
}

/// Answers with a page.
pub(crate) async fn list(ctx: &RequestContext, listed: Listed) -> Result<Response<Body>> {
    let plain = ctx.negotiated.format == Format::Json && !ctx.negotiated.pretty;
    let value = match ctx.negotiated.representation {
        Representation::Whole if plain => return Ok(whole_list(ctx, listed)),
        Representation::Whole if ctx.negotiated.format == Format::Protobuf => {
            return protobuf_list(ctx, &listed).await;
        }
        Representation::Whole => whole_value(ctx, &listed)?,
        Representation::Metadata(_) => {
            return Err(ApiError::wrong_representation("PartialObjectMetadata", true, &ctx.resource));
        }
        Representation::MetadataList(version) => {
            let items: Vec<Value> =
                values(ctx, &listed)?.iter().map(|value| present::partial(value, version, true)).collect();
            // Go's slice is nil if nothing is appended.
            let items = if items.is_empty() { Value::Null } else { Value::Array(items) };
            json!({"kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": listed.metadata(false), "items": items})
        }
        Representation::Table(version) => {
            table::table(ctx, version, listed.metadata(false), &values(ctx, &listed)?, true)
        }
    };
    respond::value_compressed(StatusCode::OK, &ctx.negotiated, &value, respond::takes_gzip(&ctx.headers))
}

/// A protobuf list is its head, the messages of its items, and its tail. The head has the length of all, so that none is
/// sent before the last is there.
async fn protobuf_list(ctx: &RequestContext, listed: &Listed) -> Result<Response<Body>> {
    let messages = Messages::new(&ctx.server, &ctx.resource);
    let mut items: Vec<Arc<Message>> = Vec::with_capacity(listed.entries.len());
    for (at, entry) in listed.entries.iter().enumerate() {
        if at % TURN == TURN - 1 {
            tokio::task::yield_now().await;
        }
        items.push(messages.of(entry)?);
    }
    let (version, kind) = (ctx.resource.api_version(), &ctx.resource.list_kind);
    let total = items.iter().map(|item| protobuf::item_length(item)).sum();
    let metadata = listed.metadata(false);
    let head = protobuf::open_list(&version, kind, &metadata, total).map_err(ApiError::internal)?;
    let gzip = respond::takes_gzip(&ctx.headers);
    let media_type = Format::Protobuf.media_type();
    if total <= STREAM_FROM || gzip {
        let mut body = head;
        body.reserve_exact(total + protobuf::LIST_END.len());
        items.iter().for_each(|item| protobuf::push_item(&mut body, item));
        body.extend_from_slice(&protobuf::LIST_END);
        return Ok(respond::compressed(StatusCode::OK, media_type, body, gzip));
    }
    let mut response = Response::new(pieces(head, items.len(), &protobuf::LIST_END, move |piece, at| {
        protobuf::push_item(piece, &items[at]);
    }));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    Ok(response)
}

fn values(ctx: &RequestContext, listed: &Listed) -> Result<Vec<Value>> {
    let decoded = listed.entries.iter().map(|entry| {
        ctx.work.check_interrupt()?;
        Ok(present::value(&ctx.resource, crate::registry::value(entry)))
    });
    decoded.collect()
}

fn whole_value(ctx: &RequestContext, listed: &Listed) -> Result<Value> {
    let mut items = values(ctx, listed)?;
    if ctx.resource.custom.is_none() {
        for item in &mut items {
            if let Some(fields) = item.as_object_mut() {
                fields.remove("kind");
                fields.remove("apiVersion");
            }
        }
    }
    Ok(json!({"kind": ctx.resource.list_kind, "apiVersion": ctx.resource.api_version(),
        "metadata": listed.metadata(ctx.resource.custom.is_some()), "items": items}))
}

/// A JSON list is its head, the stored bytes of its items, and its tail: nothing is decoded.
fn whole_list(ctx: &RequestContext, listed: Listed) -> Response<Body> {
    let head = list_head(&ctx.resource, &listed.metadata(ctx.resource.custom.is_some()));
    let total: usize = listed.entries.iter().map(|entry| entry.value.len() + 1).sum();
    let gzip = respond::takes_gzip(&ctx.headers);
    if total <= STREAM_FROM || gzip {
        let mut body = Vec::with_capacity(head.len() + total + 4);
        body.extend_from_slice(&head);
        items_into(&mut body, &ctx.resource, &listed.entries, true);
        body.extend_from_slice(b"]}\n");
        return respond::compressed(StatusCode::OK, JSON, body, gzip);
    }
    let mut response = Response::new(streamed(ctx.resource.clone(), head, listed.entries));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

fn list_head(resource: &Resource, metadata: &Value) -> Vec<u8> {
    let (kind, version) = (&resource.list_kind, resource.api_version());
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":[")
        .into_bytes()
}

fn items_into(body: &mut Vec<u8>, resource: &Resource, entries: &[Arc<Entry>], first: bool) {
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 || !first {
            body.push(b',');
        }
        body.extend_from_slice(&list_item(resource, &entry.value));
    }
}

/// Items of built-in lists do not repeat their kind; those of custom ones do.
fn list_item(resource: &Resource, stored: &Bytes) -> Vec<u8> {
    if resource.custom.is_some() {
        return object::trimmed(&present::bytes(resource, stored)).to_vec();
    }
    let shown = present::bytes(resource, stored);
    let end = shown.len() - usize::from(shown.last() == Some(&b'\n'));
    let version = resource.api_version();
    let prefix = "{\"kind\":\"\",\"apiVersion\":\"\",".len() + resource.kind.len() + version.len();
    if shown.get(prefix..).is_some_and(|rest| rest.starts_with(b"\"metadata\"")) {
        let mut item = Vec::with_capacity(end - prefix + 1);
        item.push(b'{');
        item.extend_from_slice(&shown[prefix..end]);
        return item;
    }
    shown[..end].to_vec()
}

fn streamed(resource: Arc<Resource>, head: Vec<u8>, entries: Vec<Arc<Entry>>) -> Body {
    pieces(head, entries.len(), b"]}\n", move |piece, at| {
        items_into(piece, &resource, &entries[at..=at], at == 0);
    })
}

/// A long list, sent as it is written: the head, so many items, the end.
fn pieces(
    head: Vec<u8>,
    count: usize,
    end: &'static [u8],
    item: impl Fn(&mut Vec<u8>, usize) + Send + Sync + 'static,
) -> Body {
    let item = Arc::new(item);
    let pieces = stream::unfold((Some(head), 0), move |(head, mut at)| {
        let mut piece = head.unwrap_or_default();
        let done = at > count;
        while at < count && piece.len() < PIECE {
            item(&mut piece, at);
            at += 1;
        }
        if at == count && !done {
            piece.extend_from_slice(end);
            at += 1;
        }
        let next = (!done).then(|| (Ok(Frame::data(Bytes::from(piece))), (None, at)));
        futures::future::ready(next)
    });
    StreamBody::new(pieces).boxed_unsync()
}
