//! Tokens in Secrets. They never expire: they are valid as long as their Secret and their account exist.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{Timestamp, ToSpan};
use serde::Deserialize;
use serde_json::{Value, json};
use setpoint_store::{Snapshot, Txn};

use crate::key;
use crate::managed;
use crate::object::{self, Encoded};
use crate::registry::{self, meta};
use crate::server::Server;
use crate::user::UserInfo;

/// The issuer of tokens in Secrets, whatever the issuer of other tokens is.
pub(super) const ISSUER: &str = "kubernetes/serviceaccount";
/// A label of a Secret whose token was marked as unused. The server refuses the token.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// A label of a Secret: the last day on which its token was used.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// The claims of such a token.
#[derive(Deserialize)]
pub(super) struct Claims {
    iss: String,
    sub: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    uid: String,
}

impl Claims {
    /// Reads a payload. `None` if the payload is no token of a Secret.
    pub(super) fn read(payload: &[u8]) -> Option<Claims> {
        let claims: Claims = serde_json::from_slice(payload).ok()?;
        (claims.iss == ISSUER).then_some(claims)
    }

    /// The user, and the key of the Secret. `None` if the Secret or the account is gone or was replaced.
    pub(super) fn bearer(&self, snapshot: &Snapshot, token: &str) -> Option<(UserInfo, Vec<u8>)> {
        let Claims { namespace, secret, account, uid, .. } = self;
        let mut user = UserInfo::service_account(namespace, account);
        if user.name != self.sub || uid.is_empty() {
            return None;
        }
        let secret = key::object("", "secrets", namespace, secret);
        let stored = snapshot.get(&secret).filter(|entry| meta(entry).deletion_timestamp.is_none())?;
        let data = registry::value(&stored);
        let own = STANDARD.decode(data.pointer("/data/token")?.as_str()?).ok()?;
        if !same_secret(std::str::from_utf8(&own).ok()?, token) {
            return None;
        }
        let account = snapshot.get(&key::object("", "serviceaccounts", namespace, account))?;
        if meta(&account).deletion_timestamp.is_some() || meta(&account).uid != *uid {
            return None;
        }
        if meta(&stored).labels.get(INVALID_SINCE).is_some_and(|since| !since.is_empty()) {
            return None;
        }
        user.uid.clone_from(uid);
        Some((user, secret))
    }
}

/// Notes on a Secret that its token was used today. No request fails because the note cannot be written.
pub(crate) async fn note_use(server: &Server, secret: &[u8]) {
    let options = server.options();
    let now = options.clock.now();
    if options.store.snapshot().get(secret).is_none_or(|entry| is_noted(&meta(&entry).labels, now)) {
        return;
    }
    let decide = |snapshot: &Snapshot, txn: &mut Txn| -> Result<(), std::convert::Infallible> {
        let Some(entry) = snapshot.get(secret).filter(|entry| !is_noted(&meta(entry).labels, now)) else {
            return Ok(());
        };
        let stored = registry::value(&entry);
        let mut new = stored.clone();
        let labels = object::metadata_mut(&mut new).entry("labels").or_insert_with(|| json!({}));
        if let Value::Object(labels) = labels {
            labels.insert(LAST_USED.to_owned(), json!(day(now)));
        }
        managed::by_server(
            &managed::builtin_kind("", "Secret"),
            ("secrets", ""),
            now,
            Some(&stored),
            &mut new,
        );
        let encoded = Encoded::new(&new);
        txn.put_with(secret.to_vec(), move |revision| encoded.at(revision));
        Ok(())
    };
    if let Err(error) = options.store.transact(decide).await {
        tracing::warn!(%error, "could not record the use of a token on its Secret");
    }
}

/// The UTC day of a moment, as the label has it.
pub(crate) fn day(now: Timestamp) -> String {
    now.to_zoned(jiff::tz::TimeZone::UTC).date().to_string()
}

/// Whether today's use is noted already. A server whose clock is ahead may have noted tomorrow's date.
fn is_noted(labels: &std::collections::BTreeMap<String, String>, now: Timestamp) -> bool {
    labels.get(LAST_USED).is_some_and(|noted| *noted == day(now) || *noted == day(now + 24.hours()))
}

/// Compares digests, so that the time of the comparison does not tell where two secrets begin to differ.
pub(super) fn same_secret(one: &str, other: &str) -> bool {
    let digest = |text: &str| ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest(one).as_ref() == digest(other).as_ref()
}
