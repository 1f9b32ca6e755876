//! Authentication: the front proxy's headers, client certificates, static tokens, service-account tokens, anonymous.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use setpoint_store::Snapshot;

use super::Caller;
use super::certificate::Proof;
use super::{front_proxy, legacy};
use crate::error::{ApiError, Result};
use crate::header::{first, lossy};
use crate::jwt;
use crate::options::Options;
use crate::review_webhook::ReviewError;
use crate::user::UserInfo;

/// Prefix of the WebSocket subprotocol that carries a token: base64 follows.
pub(crate) const WEBSOCKET_TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// The authenticated user of a request.
pub(crate) struct Identity {
    pub(crate) user: UserInfo,
    /// The key of the Secret whose token the client presented.
    pub(crate) secret: Option<Vec<u8>>,
}

impl From<UserInfo> for Identity {
    fn from(user: UserInfo) -> Self {
        Identity { user, secret: None }
    }
}

/// Authenticates the sender of a request.
pub(crate) async fn authenticate(
    options: &Options,
    snapshot: &Snapshot,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Identity> {
    if let Caller::Trusted(user) = caller {
        return Ok(user.clone().into());
    }
    // The order of kube-apiserver: the front proxy's headers, the certificate, the token.
    let mut refused = false;
    if let Caller::Connection(Some(certificate)) = caller {
        let found = certificate.found(options);
        match (&found.front_proxy, &options.front_proxy) {
            (Proof::Proven(()), Some(proxy)) => {
                if let Some(user) = front_proxy::user(proxy, headers)? {
                    return Ok(user.into());
                }
            }
            (Proof::Refused, _) => refused = true,
            _ => {}
        }
        match &found.user {
            Proof::Proven(user) => return Ok(user.clone().into()),
            Proof::Refused => refused = true,
            Proof::NoOpinion => {}
        }
    }
    match bearer_token(headers)? {
        Some(token) => match bearer(options, snapshot, &token, &[]).await {
            Ok(verified) => Ok(Identity { user: verified.user, secret: verified.secret }),
            Err(why) => {
                tracing::debug!(%why, "a bearer token is refused");
                Err(ApiError::unauthorized())
            }
        },
        None if options.admits_anonymous() && !refused => Ok(UserInfo::anonymous().into()),
        None => Err(ApiError::unauthorized()),
    }
}

/// Removes the credentials after authentication, so that no backend of the server sees them.
pub(crate) fn remove_credentials(options: &Options, headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    front_proxy::remove_headers(options.front_proxy.as_ref(), headers);
}

/// The bearer token of a request, from a header or from the subprotocols of a WebSocket.
fn bearer_token(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>> {
    let Some(value) = headers.get(AUTHORIZATION) else { return websocket_token(headers) };
    // Bytes outside UTF-8 are in no token, so the token is wrong, not absent.
    let value = std::str::from_utf8(value.as_bytes()).map_err(|_| ApiError::unauthorized())?;
    let mut parts = value.trim().split(' ');
    let scheme = parts.next().unwrap_or("");
    match parts.next().filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()) {
        Some(token) => Ok(Some(token.into())),
        None => websocket_token(headers),
    }
}

/// Reads the token from the subprotocols that a WebSocket offers: browsers cannot set a header on a WebSocket.
fn websocket_token(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>> {
    if !first(headers, UPGRADE).eq_ignore_ascii_case("websocket") {
        return Ok(None);
    }
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().map(lossy).collect::<Vec<_>>().join(",");
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        offered.split(',').map(str::trim).partition(|offer| offer.starts_with(WEBSOCKET_TOKEN));
    let [token] = tokens.as_slice() else {
        return if tokens.is_empty() { Ok(None) } else { Err(ApiError::unauthorized()) };
    };
    let decoded = URL_SAFE_NO_PAD.decode(&token[WEBSOCKET_TOKEN.len()..]).ok();
    let decoded =
        decoded.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(ApiError::unauthorized)?;
    match decoded.as_str() {
        "" => Ok(None),
        // The token is not handed on, so the client must offer another protocol to agree on.
        _ if others.is_empty() => Err(ApiError::unauthorized()),
        _ => Ok(Some(decoded.into())),
    }
}

/// The user of a token, and the audiences that the token is valid for.
#[derive(Clone, Debug)]
pub(crate) struct Verified {
    /// The user that the token stands for.
    pub(crate) user: UserInfo,
    /// The requested audiences for which the token was made.
    pub(crate) audiences: Vec<String>,
    /// The key of the Secret that holds the token.
    pub(crate) secret: Option<Vec<u8>>,
}

/// A token that stands for nobody, in the words of a TokenReview.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("invalid bearer token")]
    Unknown,
    /// The server does not know the token, and the webhook failed.
    #[error("[invalid bearer token, {0}]")]
    Webhook(#[from] ReviewError),
}

/// The user that a bearer token stands for: a token that the server knows, else one that the webhook knows. Without
/// `audiences`, the token must be for the server's own.
///
/// # Errors
/// Nobody knows the token, or the webhook failed.
pub(crate) async fn bearer(
    options: &Options,
    snapshot: &Snapshot,
    token: &str,
    audiences: &[String],
) -> std::result::Result<Verified, TokenError> {
    if let Some(verified) = token_user(options, snapshot, token, audiences) {
        return Ok(verified);
    }
    let Some(webhook) = &options.token_webhook else { return Err(TokenError::Unknown) };
    let own = std::slice::from_ref(&options.service_accounts.issuer);
    let audiences = if audiences.is_empty() { own } else { audiences };
    match webhook.user(token, audiences, own).await {
        Ok(Some((user, audiences))) => Ok(Verified { user: user.authenticated(), audiences, secret: None }),
        Ok(None) => Err(TokenError::Unknown),
        Err(error) => Err(error.into()),
    }
}

/// The user of a token that the server itself knows. Without `audiences`, the token must be for the server's own.
fn token_user(options: &Options, snapshot: &Snapshot, token: &str, audiences: &[String]) -> Option<Verified> {
    let own = std::slice::from_ref(&options.service_accounts.issuer);
    for known in &options.tokens {
        if legacy::same_secret(&known.token, token) {
            let audiences = if audiences.is_empty() { own } else { audiences };
            let user = known.user.clone().authenticated();
            return Some(Verified { user, audiences: audiences.to_vec(), secret: None });
        }
    }
    let payload = jwt::payload(&options.service_accounts, token)?;
    let wanted = if audiences.is_empty() { own } else { audiences };
    let shared = |meant: &[String]| -> Option<Vec<String>> {
        let shared: Vec<String> = meant.iter().filter(|aud| wanted.contains(aud)).cloned().collect();
        (!shared.is_empty()).then_some(shared)
    };
    if let Some(claims) = legacy::Claims::read(&payload) {
        // These tokens name no audience: they are for the server itself.
        let audiences = shared(own)?;
        let (user, secret) = claims.bearer(snapshot, token)?;
        return Some(Verified { user, audiences, secret: Some(secret) });
    }
    let now = options.clock.now();
    let claims = jwt::valid(&options.service_accounts, &payload, now)?;
    let audiences = shared(&claims.aud)?;
    let user = claims.still_bound(snapshot, now).then(|| service_account_user(&claims))?;
    Some(Verified { user, audiences, secret: None })
}

fn service_account_user(claims: &jwt::Claims) -> UserInfo {
    let bound = &claims.kubernetes;
    let mut user = UserInfo::service_account(&bound.namespace, &bound.serviceaccount.name);
    user.uid.clone_from(&bound.serviceaccount.uid);
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut put = |key: &str, value: &str| {
        if !value.is_empty() {
            extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        }
    };
    if !claims.jti.is_empty() {
        put("credential-id", &format!("JTI={}", claims.jti));
    }
    if let Some(pod) = &bound.pod {
        put("pod-name", &pod.name);
        put("pod-uid", &pod.uid);
    }
    if let Some(node) = &bound.node {
        put("node-name", &node.name);
        put("node-uid", &node.uid);
    }
    user.extra = extra;
    user
}
