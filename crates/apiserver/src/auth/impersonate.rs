//! `Impersonate-*` headers: a request on behalf of somebody else.

mod mode;

use http::HeaderMap;
use setpoint_api::go_format::quote;
use setpoint_store::Snapshot;

use super::access::Access;
use super::authz::Attributes;
use crate::error::{ApiError, Result};
use crate::header::exact;
use crate::request::{RequestInfo, is_escaped_well, percent_decode};
use crate::user::UserInfo;

/// Returns the user that the request is made for: the impersonated one, if the real one may impersonate it.
pub(crate) async fn impersonate(
    access: Access<'_>,
    snapshot: &Snapshot,
    user: UserInfo,
    headers: &HeaderMap,
    info: &RequestInfo,
) -> Result<UserInfo> {
    let Some(wanted) = wanted(headers)? else { return Ok(user) };
    loop {
        let decided = mode::impersonated(access, snapshot, &user, &Attributes::of(info), &wanted);
        if !access.fetch().await {
            return decided;
        }
    }
}

/// The identity that the headers spell, with nothing added; `None` without a user name.
fn wanted(headers: &HeaderMap) -> Result<Option<UserInfo>> {
    let first = |name: &str| headers.get(name).map_or(Ok(""), exact).map(str::to_owned);
    let mut wanted =
        UserInfo { name: first("impersonate-user")?, uid: first("impersonate-uid")?, ..UserInfo::default() };
    for group in headers.get_all("impersonate-group") {
        wanted.groups.push(exact(group)?.to_owned());
    }
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix("impersonate-extra-") {
            wanted.extra.entry(unescape(key)?).or_default().push(exact(value)?.to_owned());
        }
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == UserInfo::default() { Ok(None) } else { Err(nameless(&wanted)) }
}

/// kube-apiserver prints the identity as Go's `%#v` does.
fn nameless(wanted: &UserInfo) -> ApiError {
    let list = |items: &[String]| {
        let quoted: Vec<String> = items.iter().map(|item| quote(item)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if wanted.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&wanted.groups) };
    let extra: Vec<String> =
        wanted.extra.iter().map(|(key, values)| format!("{}:{}", quote(key), list(values))).collect();
    let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", extra.join(", ")) };
    ApiError::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{}, Groups:{groups}, \
         Extra:map[string][]string{extra}}} without impersonating a user name",
        quote(&wanted.uid),
    ))
}

/// Header names carry other bytes percent-encoded. A name with a stray `%` counts as it stands.
fn unescape(key: &str) -> Result<String> {
    if !is_escaped_well(key) {
        return Ok(key.to_owned());
    }
    let decoded = percent_decode(key, false);
    // Two keys of other bytes would become one.
    if decoded.contains('\u{fffd}') {
        return Err(ApiError::bad_request("the name of an Impersonate-Extra header is not valid UTF-8"));
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(headers: &[(&'static str, &[u8])]) -> Result<Option<UserInfo>> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        wanted(&map)
    }

    #[test]
    fn every_byte_of_every_header_counts() {
        let read_whole = read(&[
            ("impersonate-user", "José".as_bytes()),
            ("impersonate-user", b"second"),
            ("impersonate-uid", "ü".as_bytes()),
            ("impersonate-group", "gruppe-ä".as_bytes()),
            ("impersonate-group", b"dev"),
            ("impersonate-extra-acme.com%2fa&b", "ß".as_bytes()),
            ("impersonate-extra-acme.com%2fa+b", b"plus"),
            ("impersonate-extra-%zz", b"stray"),
        ]);
        let user = read_whole.unwrap().unwrap();
        assert_eq!((&*user.name, &*user.uid), ("José", "ü"));
        assert_eq!(user.groups, ["gruppe-ä", "dev"]);
        let extra: Vec<_> = user.extra.iter().map(|(key, values)| (&**key, &*values[0])).collect();
        assert_eq!(extra, [("%zz", "stray"), ("acme.com/a&b", "ß"), ("acme.com/a+b", "plus")]);
        assert_eq!(read(&[("accept", b"x")]).unwrap(), None);
    }

    #[test]
    fn bytes_that_are_not_text_are_refused() {
        for name in ["impersonate-user", "impersonate-uid", "impersonate-group", "impersonate-extra-a"] {
            let refused = read(&[("impersonate-user", b"bob"), (name, b"Jos\xe9")]);
            // A second user name is not read.
            assert_eq!(refused.is_err(), name != "impersonate-user", "{name}");
        }
        assert_eq!(read(&[("impersonate-user", b"Jos\xe9")]).unwrap_err().code(), 400);
        let name = read(&[("impersonate-user", b"bob"), ("impersonate-extra-%ff", b"a")]).unwrap_err();
        assert_eq!(name.status().message, "the name of an Impersonate-Extra header is not valid UTF-8");
    }

    /// As kube-apiserver's `processImpersonationHeaders` says it.
    #[test]
    fn an_identity_needs_a_name() {
        let message = |headers: &[(&'static str, &[u8])]| read(headers).unwrap_err().status().message.clone();
        assert_eq!(
            message(&[("impersonate-uid", b"7")]),
            "requested &user.DefaultInfo{Name:\"\", UID:\"7\", Groups:[]string(nil), \
             Extra:map[string][]string(nil)} without impersonating a user name"
        );
        assert_eq!(
            message(&[
                ("impersonate-group", b"a"),
                ("impersonate-extra-k", b"v"),
                ("impersonate-extra-k", b"w")
            ]),
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"a\"}, \
             Extra:map[string][]string{\"k\":[]string{\"v\", \"w\"}}} without impersonating a user name"
        );
    }
}
