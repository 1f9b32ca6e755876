//! HTTPS client for admission and conversion webhooks.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use rustls::ClientConfig;
use serde_json::Value;
use tokio::sync::Semaphore;

pub(crate) mod answer;
pub(crate) mod trust;

use answer::Room;
pub(crate) use answer::server_room;
use trust::TrustError;

/// The most concurrent calls to one webhook. Further calls wait within their own time limit. The number is below the
/// limit of writes in flight, so that a webhook that hangs, or calls itself through this API, leaves room for other
/// requests.
const MAX_CALLS: usize = 100;

/// The time limit of one call, from dialling to the last byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) time: Duration,
    /// The error text of a call over the limit.
    pub(crate) exceeded: &'static str,
}

/// The address of a webhook, from `clientConfig`.
#[derive(Debug)]
pub(crate) enum Place {
    Url(Uri),
    Service { namespace: String, name: String, port: u16, path: String },
}

/// One webhook, and the connections to it.
pub(crate) struct Webhook {
    pub(crate) place: Option<Place>,
    pub(crate) authority: Vec<u8>,
    pub(crate) tls: OnceLock<Result<Arc<ClientConfig>, TrustError>>,
    pub(crate) idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    pub(crate) calls: Semaphore,
    pub(crate) room: Room,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("place", &self.place).finish_non_exhaustive()
    }
}

/// A webhook whose configuration names no URL.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("the webhook has no address")]
    Missing,
    #[error("{0} is no URL")]
    Malformed(String),
}

impl Webhook {
    /// Reads a `clientConfig`.
    pub(crate) fn read(config: &Value) -> Self {
        let text = |pointer: &str| config.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
        let place = match config.get("url").and_then(Value::as_str) {
            Some(url) => url.parse().ok().map(Place::Url),
            None => config.get("service").map(|service| Place::Service {
                namespace: text("/service/namespace"),
                name: text("/service/name"),
                port: service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
                path: text("/service/path"),
            }),
        };
        let authority = STANDARD.decode(text("/caBundle")).unwrap_or_default();
        let blank = authority.iter().all(u8::is_ascii_whitespace);
        let authority = if blank { Vec::new() } else { authority };
        Webhook {
            place,
            authority,
            tls: OnceLock::new(),
            idle: Mutex::default(),
            calls: Semaphore::new(MAX_CALLS),
            room: answer::room(),
        }
    }

    /// The address of a call. It includes the caller's time limit.
    pub(crate) fn url(&self, patience: Duration) -> Result<Uri, AddressError> {
        let timeout = format!("timeout={}s", patience.as_secs());
        let text = match &self.place {
            None => return Err(AddressError::Missing),
            Some(Place::Service { namespace, name, port, path }) => {
                format!("https://{name}.{namespace}.svc:{port}{}?{timeout}", clean(path))
            }
            Some(Place::Url(url)) => {
                let authority = url.authority().map_or("", |authority| authority.as_str());
                format!("https://{authority}{}?{timeout}", clean(url.path()))
            }
        };
        text.parse().map_err(|_| AddressError::Malformed(text))
    }
}

/// A path as Go's client sends it. Other servers redirect paths with empty or dot segments.
fn clean(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    format!("/{}", steps.join("/"))
}

#[cfg(test)]
mod tests {
    use super::clean;

    /// envtest names `https://127.0.0.1:PORT//path`.
    #[test]
    fn paths_are_sent_as_go_sends_them() {
        for (path, expected) in [("//label", "/label"), ("", "/"), ("a/./b/../c/", "/a/c"), ("/..", "/")] {
            assert_eq!(clean(path), expected);
        }
    }
}
