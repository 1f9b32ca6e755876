//! Completes a token Secret.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use serde_json::{Value, json};

/// The type of these Secrets.
pub const TYPE: &str = "kubernetes.io/service-account-token";
/// The annotation that names the account.
pub const ACCOUNT: &str = "kubernetes.io/service-account.name";
/// The annotation that says which account of that name is meant.
pub const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

fn annotation<'a>(secret: &'a Secret, name: &str) -> &'a str {
    let annotations = secret.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(name)).map_or("", String::as_str)
}

/// The account that a Secret names.
pub fn account_of(secret: &Secret) -> &str {
    annotation(secret, ACCOUNT)
}

/// Whether an account is the one that a Secret is for: one of the same name may have come after it.
pub fn is_for(secret: &Secret, account: &ServiceAccount) -> bool {
    let uid = annotation(secret, ACCOUNT_UID);
    account.metadata.name.as_deref() == Some(account_of(secret))
        && (uid.is_empty() || account.metadata.uid.as_deref() == Some(uid))
}

/// Returns the completed Secret, or `None` if it is complete or no token can be made.
pub fn filled(
    secret: &Secret,
    account: &ServiceAccount,
    root_ca: Option<&str>,
    sign: impl FnOnce(&Value) -> Option<String>,
) -> Option<Secret> {
    let namespace = secret.metadata.namespace.clone().unwrap_or_default();
    let mut data: BTreeMap<String, ByteString> = secret.data.clone().unwrap_or_default();
    let mut changed = false;
    let mut put = |key: &str, text: String| {
        data.insert(key.to_owned(), ByteString(text.into_bytes()));
        changed = true;
    };
    let present = |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| &*bytes.0);
    if let Some(bundle) = root_ca.filter(|bundle| present("ca.crt") != Some(bundle.as_bytes())) {
        put("ca.crt", bundle.to_owned());
    }
    if present("namespace").is_none_or(<[u8]>::is_empty) {
        put("namespace", namespace);
    }
    if present("token").is_none_or(<[u8]>::is_empty) {
        put("token", sign(&claims(secret, account))?);
    }
    if !changed {
        return None;
    }
    let mut filled = Secret { data: Some(data), ..secret.clone() };
    let annotations = filled.metadata.annotations.get_or_insert_default();
    annotations.insert(ACCOUNT.to_owned(), account.metadata.name.clone().unwrap_or_default());
    annotations.insert(ACCOUNT_UID.to_owned(), account.metadata.uid.clone().unwrap_or_default());
    Some(filled)
}

/// Returns the token's claims. They have no expiry, because the token is valid as long as its Secret exists.
fn claims(secret: &Secret, account: &ServiceAccount) -> Value {
    let namespace = account.metadata.namespace.as_deref().unwrap_or_default();
    let name = account.metadata.name.as_deref().unwrap_or_default();
    json!({
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": secret.metadata.name,
        "kubernetes.io/serviceaccount/service-account.name": name,
        "kubernetes.io/serviceaccount/service-account.uid": account.metadata.uid,
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(uid: &str) -> ServiceAccount {
        let account = json!({ "metadata": { "name": "builder", "namespace": "ns", "uid": uid } });
        serde_json::from_value(account).unwrap()
    }

    fn secret(annotations: Value) -> Secret {
        let secret = json!({ "metadata": { "name": "tok", "namespace": "ns", "annotations": annotations },
            "type": TYPE });
        serde_json::from_value(secret).unwrap()
    }

    fn text(secret: &Secret, key: &str) -> String {
        String::from_utf8(secret.data.as_ref().unwrap()[key].0.clone()).unwrap()
    }

    fn shown(claims: &Value) -> Option<String> {
        Some(claims.to_string())
    }

    /// The claims are those that kube-controller-manager 1.37 signs.
    #[test]
    fn an_empty_secret_gets_all_three_and_the_accounts_uid() {
        let filled =
            filled(&secret(json!({ ACCOUNT: "builder" })), &account("u"), Some("ca"), shown).unwrap();
        assert_eq!((text(&filled, "ca.crt"), text(&filled, "namespace")), ("ca".into(), "ns".into()));
        let claims = r#"{"iss":"kubernetes/serviceaccount","kubernetes.io/serviceaccount/namespace":"ns","kubernetes.io/serviceaccount/secret.name":"tok","kubernetes.io/serviceaccount/service-account.name":"builder","kubernetes.io/serviceaccount/service-account.uid":"u","sub":"system:serviceaccount:ns:builder"}"#;
        assert_eq!(text(&filled, "token"), claims);
        assert_eq!(filled.metadata.annotations.as_ref().unwrap()[ACCOUNT_UID], "u");
        assert_eq!(super::filled(&filled, &account("u"), Some("ca"), shown), None);
    }

    #[test]
    fn a_token_stays_while_the_authority_changes() {
        let first = filled(&secret(json!({ ACCOUNT: "builder" })), &account("u"), Some("ca"), shown).unwrap();
        let second = filled(&first, &account("u"), Some("another"), |_| unreachable!()).unwrap();
        assert_eq!(text(&second, "token"), text(&first, "token"));
        assert_eq!(text(&second, "ca.crt"), "another");
        assert_eq!(filled(&first, &account("u"), None, shown), None);
        assert_eq!(filled(&secret(json!({ ACCOUNT: "builder" })), &account("u"), None, |_| None), None);
    }

    #[test]
    fn an_account_that_came_after_is_another() {
        let meant = |annotations: Value| is_for(&secret(annotations), &account("new"));
        assert!(meant(json!({ ACCOUNT: "builder" })));
        assert!(meant(json!({ ACCOUNT: "builder", ACCOUNT_UID: "new" })));
        assert!(!meant(json!({ ACCOUNT: "builder", ACCOUNT_UID: "old" })));
        assert!(!meant(json!({ ACCOUNT: "other" })));
    }
}
