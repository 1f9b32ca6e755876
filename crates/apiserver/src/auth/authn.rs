//! Authentication: client certificates, static tokens, service-account tokens, anonymous.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use setpoint_store::Snapshot;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::jwt;
use super::{AUTHENTICATED, Caller, UserInfo};
use crate::error::{ApiError, Result};
use crate::options::Options;

/// Finds out who is asking.
pub fn authenticate(
    options: &Options,
    snapshot: &Snapshot,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<UserInfo> {
    if let Caller::Trusted(user) = caller {
        return Ok(user.clone());
    }
    if let Caller::Connection { client_certificate: Some(certificate) } = caller
        && let Some(user) = certificate_user(certificate)
    {
        return Ok(user);
    }
    match bearer_token(headers) {
        Some(token) => token_user(options, snapshot, token, &[])
            .map(|verified| verified.user)
            .ok_or_else(ApiError::unauthorized),
        None if options.anonymous && !matches!(caller, Caller::Stranger) => Ok(UserInfo::anonymous()),
        None => Err(ApiError::unauthorized()),
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}

/// CN is the name, every O a group.
pub(crate) fn certificate_user(der: &[u8]) -> Option<UserInfo> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    if name.is_empty() {
        return None;
    }
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
    let mut user = UserInfo::new(name, groups);
    let fingerprint = ring::digest::digest(&ring::digest::SHA256, der);
    user.extra.insert(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![format!("X509SHA256={}", hex(fingerprint.as_ref()))],
    );
    Some(user)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A token's bearer and the audiences that it is good for.
#[derive(Clone, Debug)]
pub struct Verified {
    /// Whom it stands for.
    pub user: UserInfo,
    /// For whom it was made, of those asked for.
    pub audiences: Vec<String>,
}

/// Whom a bearer token stands for. Without `audiences`, the server's own is meant.
pub fn token_user(
    options: &Options,
    snapshot: &Snapshot,
    token: &str,
    audiences: &[String],
) -> Option<Verified> {
    let own = std::slice::from_ref(&options.service_accounts.issuer);
    for known in &options.tokens {
        if same_secret(&known.token, token) {
            let mut user = known.user.clone();
            if !user.is_in(AUTHENTICATED) {
                user.groups.push(AUTHENTICATED.to_owned());
            }
            let audiences = if audiences.is_empty() { own } else { audiences };
            return Some(Verified { user, audiences: audiences.to_vec() });
        }
    }
    let claims = jwt::verify(&options.service_accounts, token, options.clock.now())?;
    let wanted = if audiences.is_empty() { own } else { audiences };
    let shared: Vec<String> = claims.aud.iter().filter(|aud| wanted.contains(aud)).cloned().collect();
    if shared.is_empty() || !claims.still_bound(snapshot) {
        return None;
    }
    Some(Verified { user: service_account_user(&claims), audiences: shared })
}

fn service_account_user(claims: &jwt::Claims) -> UserInfo {
    let bound = &claims.kubernetes;
    let mut user = UserInfo::service_account(&bound.namespace, &bound.serviceaccount.name);
    user.uid.clone_from(&bound.serviceaccount.uid);
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut put = |key: &str, value: &str| {
        extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
    };
    put("credential-id", &format!("JTI={}", claims.jti));
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

/// Compares digests, so that the time tells nothing about where two secrets begin to differ.
fn same_secret(one: &str, other: &str) -> bool {
    let digest = |text: &str| ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest(one).as_ref() == digest(other).as_ref()
}
