//! The HTTP/1.1 upgrades that clients of exec, attach and port-forward ask for: SPDY/3.1 and websocket.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The header with which SPDY clients offer, and the server selects, the protocol inside.
const STREAM_PROTOCOL: &str = "x-stream-protocol-version";

/// The negotiated upgrade, and the protocol inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// SPDY/3.1 with this stream protocol.
    Spdy(String),
    /// A websocket with this subprotocol.
    WebSocket {
        /// The subprotocol.
        protocol: String,
        /// The answer to the client's key.
        accept: String,
    },
}

/// A request that cannot be upgraded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeError {
    /// Not an upgrade at all.
    #[error("unable to upgrade: missing upgrade headers in request")]
    Missing,
    /// The client offers no known protocol.
    #[error(
        "unable to upgrade: unable to negotiate protocol: client supports {offered:?}, server supports {known:?}"
    )]
    Protocol {
        /// The client's protocols.
        offered: Vec<String>,
        /// Our protocols for that upgrade.
        known: Vec<String>,
    },
}

impl Upgrade {
    /// Negotiates an upgrade: the first of the client's protocols that we know.
    pub fn negotiate(
        headers: &HeaderMap,
        spdy: &[&str],
        websocket: &[&str],
    ) -> Result<Upgrade, UpgradeError> {
        let wanted = headers.get(header::UPGRADE).map_or("".into(), text);
        if wanted.eq_ignore_ascii_case("websocket") {
            let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or(UpgradeError::Missing)?;
            let protocol = choose(&offers(headers, header::SEC_WEBSOCKET_PROTOCOL.as_str()), websocket)?;
            return Ok(Upgrade::WebSocket { protocol, accept: derive_accept_key(key.as_bytes()) });
        }
        if wanted.eq_ignore_ascii_case("SPDY/3.1") {
            return Ok(Upgrade::Spdy(choose(&offers(headers, STREAM_PROTOCOL), spdy)?));
        }
        Err(UpgradeError::Missing)
    }

    /// The 101 answer.
    pub fn response<B: Default>(&self) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        let mut set = |name: header::HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        match self {
            Upgrade::Spdy(protocol) => {
                set(header::UPGRADE, "SPDY/3.1");
                set(header::HeaderName::from_static(STREAM_PROTOCOL), protocol);
            }
            Upgrade::WebSocket { protocol, accept } => {
                set(header::UPGRADE, "websocket");
                set(header::SEC_WEBSOCKET_ACCEPT, accept);
                set(header::SEC_WEBSOCKET_PROTOCOL, protocol);
            }
        }
        response
    }
}

/// Returns the client's offers, from repeated headers and comma-separated lists.
fn offers(headers: &HeaderMap, name: &str) -> Vec<String> {
    let mut offers = Vec::new();
    for value in headers.get_all(name).iter().map(text) {
        offers.extend(value.split(',').map(|offer| offer.trim().to_owned()));
    }
    offers
}

/// A value with non-ASCII bytes is not absent: it names no protocol that we know, and the refusal quotes it.
fn text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

fn choose(offered: &[String], known: &[&str]) -> Result<String, UpgradeError> {
    let chosen = offered.iter().find(|offer| known.contains(&offer.as_str()));
    chosen.cloned().ok_or_else(|| UpgradeError::Protocol {
        offered: offered.to_vec(),
        known: known.iter().map(|name| (*name).to_owned()).collect(),
    })
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

    #[test]
    fn the_first_known_offer_wins() {
        let asked = headers(&[
            ("upgrade", "websocket"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "v5.channel.k8s.io, v4.channel.k8s.io"),
        ]);
        let settled = Upgrade::negotiate(&asked, &[], &["v4.channel.k8s.io", "v5.channel.k8s.io"]).unwrap();
        let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned();
        assert_eq!(settled, Upgrade::WebSocket { protocol: "v5.channel.k8s.io".into(), accept });
    }

    #[test]
    fn no_common_protocol_is_told_with_both_lists() {
        let asked = headers(&[("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", "v9")]);
        let error = Upgrade::negotiate(&asked, &["portforward.k8s.io"], &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unable to upgrade: unable to negotiate protocol: client supports [\"v9\"], server supports [\"portforward.k8s.io\"]"
        );
        assert_eq!(Upgrade::negotiate(&HeaderMap::new(), &[], &[]), Err(UpgradeError::Missing));
    }
}
