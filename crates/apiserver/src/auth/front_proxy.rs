//! Request-header authentication: a front proxy that authenticates its clients names them in headers.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::Result;
use crate::header::exact;
use crate::options::FrontProxy;
use crate::user::UserInfo;

/// The headers that aggregated API servers agree on. The server removes them from every request, trusted or not.
const STANDARD: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
const STANDARD_EXTRA: &str = "x-remote-extra-";

/// Reads the user that the headers of a verified proxy name; `None` if they name nobody.
///
/// # Errors
/// When a value is no UTF-8: leaving it out could leave out what narrows the user's rights.
pub(super) fn user(proxy: &FrontProxy, headers: &HeaderMap) -> Result<Option<UserInfo>> {
    let Some(name) = first(headers, &proxy.username_headers)? else { return Ok(None) };
    let groups = proxy.group_headers.iter().flat_map(|header| headers.get_all(header.as_str()));
    let groups = groups.filter(|value| !value.is_empty()).map(text).collect::<Result<_>>()?;
    let uid = first(headers, &proxy.uid_headers)?.unwrap_or_default();
    let extra = extra(headers, &proxy.extra_header_prefixes)?;
    Ok(Some(UserInfo { name, uid, groups, extra }.authenticated()))
}

/// The first value of the first header that has one.
fn first(headers: &HeaderMap, names: &[String]) -> Result<Option<String>> {
    let mut values = names.iter().filter_map(|name| headers.get(name.as_str()));
    values.find(|value| !value.is_empty()).map(text).transpose()
}

fn text(value: &HeaderValue) -> Result<String> {
    exact(value).map(str::to_owned)
}

fn extra(headers: &HeaderMap, prefixes: &[String]) -> Result<BTreeMap<String, Vec<String>>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for prefix in prefixes {
        for (name, value) in headers {
            if let Some(key) = after(name, prefix) {
                extra.entry(unescape(key)).or_default().push(text(value)?);
            }
        }
    }
    Ok(extra)
}

/// The rest of a header's name behind a prefix, whose case does not matter. Header names are in lower case already.
fn after<'a>(name: &'a HeaderName, prefix: &str) -> Option<&'a str> {
    let (start, key) = name.as_str().split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(key)
}

/// Decodes the percent-encoded bytes of a key. As in kube-apiserver, a malformed key stays as it is and a `+` a plus.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = after.first_chunk::<2>().filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let decoded = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(decoded) = decoded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            return key.to_owned();
        };
        bytes.push(decoded);
        rest = &after[2..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

/// Removes the headers that name a user. A backend which trusts this server would take a client's own for the proxy's.
pub(super) fn remove_headers(proxy: Option<&FrontProxy>, headers: &mut HeaderMap) {
    for name in STANDARD {
        headers.remove(name);
    }
    remove_prefix(headers, STANDARD_EXTRA);
    let Some(proxy) = proxy else { return };
    for name in [&proxy.username_headers, &proxy.uid_headers, &proxy.group_headers].into_iter().flatten() {
        headers.remove(name.as_str());
    }
    for prefix in &proxy.extra_header_prefixes {
        remove_prefix(headers, prefix);
    }
}

fn remove_prefix(headers: &mut HeaderMap, prefix: &str) {
    let named: Vec<_> = headers.keys().filter(|name| after(name, prefix).is_some()).cloned().collect();
    for name in named {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy() -> FrontProxy {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        FrontProxy {
            authority: String::new(),
            allowed_names: Vec::new(),
            username_headers: names(&["X-Login", "X-Remote-User"]),
            uid_headers: names(&["X-Remote-Uid"]),
            group_headers: names(&["X-Remote-Group", "X-Team"]),
            extra_header_prefixes: names(&["X-Remote-Extra-", "X-More-"]),
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn headers_name_the_user_as_kube_apiserver_reads_them() {
        let sent = headers(&[
            ("x-login", ""),
            ("x-remote-user", "alice"),
            ("x-remote-user", "second"),
            ("x-remote-uid", "7"),
            ("x-team", "ops"),
            ("x-remote-group", "dev"),
            ("x-remote-group", ""),
            ("x-remote-extra-example.com%2fscopes", "a"),
            ("x-remote-extra-example.com%2fscopes", ""),
            ("x-remote-extra-a+b%zz", "kept"),
            ("x-more-", "no key"),
        ]);
        let user = user(&proxy(), &sent).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("alice", "7"));
        assert_eq!(user.groups, ["dev", "ops", "system:authenticated"]);
        let owned = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect::<Vec<String>>();
        let expected = [
            ("", owned(&["no key"])),
            ("a+b%zz", owned(&["kept"])),
            ("example.com/scopes", owned(&["a", ""])),
        ];
        assert_eq!(user.extra, expected.map(|(key, values)| (key.to_owned(), values)).into());
    }

    #[test]
    fn nobody_is_named_without_a_name_and_an_anonymous_user_is_not_authenticated() {
        let user = |pairs| user(&proxy(), &headers(pairs)).unwrap();
        assert_eq!(user(&[("x-remote-group", "system:masters")]), None);
        let anonymous = user(&[("x-remote-user", "system:anonymous")]).unwrap();
        assert_eq!(anonymous.groups, Vec::<String>::new());
    }

    #[test]
    fn a_value_that_is_no_utf8_is_refused_and_not_left_out() {
        for name in ["x-remote-user", "x-remote-uid", "x-remote-group", "x-remote-extra-scopes"] {
            let mut sent = headers(&[("x-remote-user", "alice")]);
            sent.insert(name, HeaderValue::from_bytes(b"Jos\xe9").unwrap());
            assert!(user(&proxy(), &sent).is_err(), "{name}");
        }
    }

    #[test]
    fn every_header_that_names_a_user_is_removed() {
        let mut sent = headers(&[
            ("x-remote-user", "a"),
            ("x-remote-uid", "a"),
            ("x-remote-group", "a"),
            ("x-remote-extra-scopes", "a"),
            ("x-login", "a"),
            ("x-more-x", "a"),
            ("accept", "a"),
        ]);
        remove_headers(None, &mut sent);
        assert_eq!(sent, headers(&[("x-login", "a"), ("x-more-x", "a"), ("accept", "a")]));
        remove_headers(Some(&proxy()), &mut sent);
        assert_eq!(sent, headers(&[("accept", "a")]));
    }
}
