//! A watch over a WebSocket, as browsers and fabric8's informers ask for it: each event is one message.

use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::{SinkExt, StreamExt};
use http::header::{
    CONNECTION, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::auth::authn::WEBSOCKET_TOKEN;
use crate::body::Body;
use crate::context::RequestContext;
use crate::error::{BadHandshake, Result};
use crate::header::{first, lossy};
use crate::negotiate::Format;
use crate::respond;

/// The longest message of a client. Nothing that a client of a watch says counts.
const MAX_MESSAGE: usize = 64 * 1024;
/// The time that a client has for its half of the end.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Whether a request asks for a WebSocket.
pub(crate) fn is_wanted(method: &Method, headers: &HeaderMap) -> bool {
    let connection = headers.get_all(CONNECTION).iter().map(lossy).collect::<Vec<_>>().join(",");
    *method == Method::GET
        && first(headers, UPGRADE).eq_ignore_ascii_case("websocket")
        && connection.to_ascii_lowercase().contains("upgrade")
}

/// Answers a watch over a WebSocket. A watch that cannot begin is refused before the upgrade.
pub(crate) async fn watch(ctx: &RequestContext, upgrade: OnUpgrade) -> Result<Response<Body>> {
    let answer = super::watch(ctx).await?;
    let switching = match handshake(&ctx.headers) {
        Ok(switching) => switching,
        Err(refusal) => {
            let mut refused = Response::new(respond::full(Bytes::new()));
            *refused.status_mut() = refusal.code();
            return Ok(refused);
        }
    };
    let form = ctx.negotiated.format;
    ctx.server.own(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let mut config = WebSocketConfig::default();
        (config.max_message_size, config.max_frame_size) = (Some(MAX_MESSAGE), Some(MAX_MESSAGE));
        let io = TokioIo::new(upgraded);
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        relay(socket, answer.into_body(), form).await;
    });
    Ok(switching)
}

/// The answer to the client's half of the handshake, or the refusal. As in kube-apiserver, a client names its
/// origin and at most one protocol.
fn handshake(headers: &HeaderMap) -> std::result::Result<Response<Body>, BadHandshake> {
    let key = first(headers, SEC_WEBSOCKET_KEY);
    if key.is_empty() || first(headers, SEC_WEBSOCKET_VERSION) != "13" {
        return Err(BadHandshake::Malformed);
    }
    if first(headers, ORIGIN).is_empty() {
        return Err(BadHandshake::NoOrigin);
    }
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().map(lossy).collect::<Vec<_>>().join(",");
    let offers = offered.split(',').map(str::trim);
    let mut protocols = offers.filter(|offer| !offer.is_empty() && !offer.starts_with(WEBSOCKET_TOKEN));
    let protocol = protocols.next().unwrap_or("");
    if protocols.next().is_some() {
        return Err(BadHandshake::Malformed);
    }
    let mut response = Response::new(respond::full(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answered = response.headers_mut();
    answered.insert(UPGRADE, HeaderValue::from_static("websocket"));
    answered.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    for (name, value) in [
        (SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes())),
        (SEC_WEBSOCKET_PROTOCOL, protocol.to_owned()),
    ] {
        if let Some(value) = HeaderValue::from_str(&value).ok().filter(|value| !value.is_empty()) {
            answered.insert(name, value);
        }
    }
    Ok(response)
}

/// Sends the events until the watch or the client ends. A client that does not read delays its own events only: the
/// watch is a cursor into the history.
async fn relay(socket: WebSocketStream<TokioIo<Upgraded>>, mut events: Body, form: Format) {
    let (mut writer, mut reader) = socket.split();
    let sending = async {
        while let Some(Ok(frame)) = events.frame().await {
            let Ok(mut data) = frame.into_data() else { continue };
            while let Some(message) = next_message(&mut data, form) {
                writer.send(message).await?;
            }
        }
        let (code, reason) = (CloseCode::Normal, Utf8Bytes::default());
        writer.send(Message::Close(Some(CloseFrame { code, reason }))).await
    };
    // Reading also answers pings.
    let receiving = async { while let Some(Ok(_)) = reader.next().await {} };
    tokio::select! {
        biased;
        () = receiving => return,
        sent = sending => if sent.is_err() { return },
    }
    let _ =
        tokio::time::timeout(CLOSE_WITHIN, async { while let Some(Ok(_)) = reader.next().await {} }).await;
}

/// Takes the next event off the bytes: a line of JSON as text, or a message of protobuf without its length.
fn next_message(data: &mut Bytes, form: Format) -> Option<Message> {
    if data.is_empty() {
        return None;
    }
    if form == Format::Protobuf {
        let length = data.try_get_u32().ok().and_then(|length| usize::try_from(length).ok())?;
        return Some(Message::Binary(data.split_to(length.min(data.len()))));
    }
    let end = memchr::memchr(b'\n', data).map_or(data.len(), |at| at + 1);
    Utf8Bytes::try_from(data.split_to(end)).ok().map(Message::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    const KEY: (&str, &str) = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    const VERSION: (&str, &str) = ("sec-websocket-version", "13");
    const FROM: (&str, &str) = ("origin", "https://x");

    /// As kube-apiserver 1.37 answered.
    #[test]
    fn a_handshake_has_a_key_a_version_an_origin_and_at_most_one_protocol() {
        let agreed = handshake(&headers(&[KEY, VERSION, FROM])).unwrap();
        assert_eq!(agreed.status(), 101);
        assert_eq!(agreed.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let refused = |pairs: &[(&'static str, &'static str)]| handshake(&headers(pairs)).err();
        assert_eq!(refused(&[KEY, VERSION]), Some(BadHandshake::NoOrigin));
        assert_eq!(refused(&[VERSION, FROM]), Some(BadHandshake::Malformed));
        let two = ("sec-websocket-protocol", "a, b");
        assert_eq!(refused(&[KEY, VERSION, FROM, two]), Some(BadHandshake::Malformed));
        let one = handshake(&headers(&[KEY, VERSION, FROM, ("sec-websocket-protocol", "a")])).unwrap();
        assert_eq!(one.headers()["sec-websocket-protocol"], "a");
    }

    #[test]
    fn each_event_is_a_message() {
        let mut lines = Bytes::from_static(b"{\"a\":1}\n{\"b\":2}\n");
        let first = next_message(&mut lines, Format::Json);
        assert_eq!(first, Some(Message::Text("{\"a\":1}\n".into())));
        assert_eq!(next_message(&mut lines, Format::Json), Some(Message::Text("{\"b\":2}\n".into())));
        assert_eq!(next_message(&mut lines, Format::Json), None);
        let mut frames = Bytes::from_static(b"\0\0\0\x02ab\0\0\0\x01c");
        assert_eq!(next_message(&mut frames, Format::Protobuf), Some(Message::Binary("ab".into())));
        assert_eq!(next_message(&mut frames, Format::Protobuf), Some(Message::Binary("c".into())));
        assert_eq!(next_message(&mut frames, Format::Protobuf), None);
    }
}
