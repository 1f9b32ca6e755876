//! The request's verb, resource, namespace, name and options, read from its method and URL.

use std::num::{IntErrorKind, ParseIntError};

use http::{Method, Uri};
use setpoint_api::selector::FieldSelector;

use crate::error::{ApiError, Result};

/// The verb of a request, as authorization and metrics name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    /// One object, or a path that names no resource.
    Get,
    /// A collection.
    List,
    /// The changes of a collection.
    Watch,
    /// `POST` to a resource.
    Create,
    /// `PUT` of an object.
    Update,
    /// `PATCH`.
    Patch,
    /// `DELETE` of one object.
    Delete,
    /// `DELETE` of a collection.
    DeleteCollection,
    /// A path that begins with `proxy`.
    Proxy,
    /// Another method on a path that names no resource, in lower case.
    Method(String),
    /// A method that resources do not have.
    #[default]
    None,
}

impl Verb {
    /// The word in a role.
    pub fn as_str(&self) -> &str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Proxy => "proxy",
            Verb::Method(method) => method,
            Verb::None => "",
        }
    }

    fn of_path(method: &Method) -> Self {
        match *method {
            Method::GET => Verb::Get,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ => Verb::Method(method.as_str().to_ascii_lowercase()),
        }
    }
}

/// A request as its method and URL describe it, before the server knows whether the resource exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Kubernetes' verb for resources (`get`, `list`, …), the lower-case HTTP method elsewhere.
    pub verb: Verb,
    /// The path, unescaped.
    pub path: String,
    /// Whether the path names a resource.
    pub is_resource: bool,
    /// API group; empty is core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural resource name.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Object name, or empty.
    pub name: String,
    /// The path after the subresource (`proxy` paths).
    pub rest: String,
    /// Whether the path names the verb (`watch/…`, `proxy/…`), whatever the method is.
    pub verb_in_path: bool,
    /// Decoded query parameters, in order.
    pub query: Query,
}

/// Decoded query parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `a=b&c=d`.
    pub fn parse(text: &str) -> Self {
        // Go's reader drops pairs that are not well escaped.
        let readable = |pair: &&str| !pair.is_empty() && !pair.contains(';') && is_escaped_well(pair);
        let pairs = text.split('&').filter(readable).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decode(key, true), percent_decode(value, true))
        });
        Query(pairs.collect())
    }

    /// The first value of `key`; empty values count as absent.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    /// Whether `key` is there at all.
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }

    /// All values of `key`.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// A boolean as Go's API machinery reads it: present and neither `false` nor `0`.
    pub fn flag(&self, key: &str) -> bool {
        self.optional_flag(key).unwrap_or(false)
    }

    /// Like [`Query::flag`], but `None` if `key` is absent.
    pub fn optional_flag(&self, key: &str) -> Option<bool> {
        let value = self.0.iter().find(|(k, _)| k == key)?.1.to_ascii_lowercase();
        Some(value != "false" && value != "0")
    }

    /// A whole number.
    pub fn number(&self, key: &str) -> Result<Option<i64>> {
        let Some(text) = self.get(key) else { return Ok(None) };
        text.parse().map(Some).map_err(|error: ParseIntError| {
            let what = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            ApiError::bad_request(format!("strconv.ParseInt: parsing \"{text}\": {what}"))
        })
    }
}

/// Whether two digits follow each `%`.
pub(crate) fn is_escaped_well(text: &str) -> bool {
    let hex = |rest: &str| rest.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    text.split('%').skip(1).all(hex)
}

/// Undoes `%41` and, in queries, `+`.
pub(crate) fn percent_decode(text: &str, plus_is_space: bool) -> String {
    let encoded = text.contains('%') || (plus_is_space && text.contains('+'));
    if !encoded {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|two| std::str::from_utf8(two).ok());
        match (bytes[at], hex.and_then(|two| u8::from_str_radix(two, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
            }
            (b'+', _) if plus_is_space => {
                decoded.push(b' ');
                at += 1;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Subresources of Namespace itself. Any other segment after a namespace's name is a resource inside it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// Reads method and URL.
    pub fn parse(method: &Method, uri: &Uri) -> Self {
        let query = Query::parse(uri.query().unwrap_or(""));
        // An escaped slash is a slash: no name has one.
        let path = percent_decode(uri.path(), false);
        // An empty segment in the middle stays: such a path leads nowhere.
        let parts: Vec<String> = path.trim_matches('/').split('/').map(str::to_owned).collect();
        let mut info = RequestInfo { verb: Verb::of_path(method), path, query, ..RequestInfo::default() };
        let rest: &[String] = match parts.first().map(String::as_str) {
            Some("api") if parts.len() >= 3 => {
                info.version.clone_from(&parts[1]);
                &parts[2..]
            }
            Some("apis") if parts.len() >= 4 => {
                info.group.clone_from(&parts[1]);
                info.version.clone_from(&parts[2]);
                &parts[3..]
            }
            _ => return info,
        };
        info.is_resource = true;
        info.resource_path(method, rest);
        info
    }

    fn resource_path(&mut self, method: &Method, mut rest: &[String]) {
        if matches!(rest[0].as_str(), "watch" | "proxy") && rest.len() > 1 {
            self.verb_in_path = true;
            self.verb = if rest[0] == "watch" { Verb::Watch } else { Verb::Proxy };
            rest = &rest[1..];
        }
        if rest[0] == "namespaces" && rest.len() > 1 {
            self.namespace.clone_from(&rest[1]);
            if rest.len() > 2 && !NAMESPACE_SUBRESOURCES.contains(&rest[2].as_str()) {
                rest = &rest[2..];
            }
        }
        self.resource.clone_from(&rest[0]);
        if let Some(name) = rest.get(1) {
            self.name.clone_from(name);
        }
        if let Some(subresource) = rest.get(2).filter(|_| self.verb != Verb::Proxy) {
            self.subresource.clone_from(subresource);
        }
        if rest.len() > 3 {
            self.rest = rest[3..].join("/");
        }
        if self.verb_in_path {
            return;
        }
        self.verb = self.resource_verb(method);
        if self.name.is_empty()
            && matches!(self.verb, Verb::List | Verb::Watch)
            && let Some(name) = self.query.get("fieldSelector").and_then(selected_name)
        {
            self.name = name;
        }
    }

    fn resource_verb(&self, method: &Method) -> Verb {
        match *method {
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if self.name.is_empty() => Verb::DeleteCollection,
            Method::DELETE => Verb::Delete,
            // Resources have no HEAD: authorization sees a get, and the route refuses.
            Method::GET | Method::HEAD if !self.name.is_empty() => Verb::Get,
            Method::GET | Method::HEAD if self.query.flag("watch") => Verb::Watch,
            Method::GET | Method::HEAD => Verb::List,
            _ => Verb::None,
        }
    }

    /// Whether the request changes anything.
    pub fn mutates(&self) -> bool {
        matches!(self.verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection)
    }
}

/// The name in the field selector `metadata.name=X`. Authorization treats such a list like a get of X. The list reads
/// the selector with the same parser, so that both mean the same object.
fn selected_name(selector: &str) -> Option<String> {
    let selector = FieldSelector::parse(selector).ok()?;
    let name = selector.exact("metadata.name")?;
    let is_segment = !matches!(name, "" | "." | "..") && !name.contains(['/', '%']);
    is_segment.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: Method, uri: &str) -> RequestInfo {
        RequestInfo::parse(&method, &uri.parse().unwrap())
    }

    #[test]
    fn namespaces_are_resources_and_places() {
        let info = parse(Method::GET, "/api/v1/namespaces/blue");
        assert_eq!((&*info.resource, &*info.namespace, &*info.name), ("namespaces", "blue", "blue"));
        let info = parse(Method::PUT, "/api/v1/namespaces/blue/finalize");
        assert_eq!((&*info.resource, &*info.name, &*info.subresource), ("namespaces", "blue", "finalize"));
        let info = parse(Method::GET, "/api/v1/namespaces/blue/pods/x/log");
        assert_eq!((&*info.resource, &*info.name, &*info.subresource), ("pods", "x", "log"));
    }

    #[test]
    fn verbs_follow_method_and_watch() {
        assert_eq!(parse(Method::GET, "/apis/apps/v1/deployments").verb.as_str(), "list");
        assert_eq!(parse(Method::GET, "/apis/apps/v1/deployments?watch=true").verb.as_str(), "watch");
        assert_eq!(parse(Method::GET, "/apis/apps/v1/deployments?watch=false").verb.as_str(), "list");
        assert_eq!(
            parse(Method::DELETE, "/apis/apps/v1/namespaces/a/deployments").verb.as_str(),
            "deletecollection"
        );
        assert_eq!(parse(Method::GET, "/healthz").verb.as_str(), "get");
        assert!(!parse(Method::GET, "/apis/apps/v1").is_resource);
    }

    #[test]
    fn a_selected_name_is_known_to_authorization() {
        let info = parse(Method::GET, "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx&watch=1");
        assert_eq!((&*info.name, info.verb.as_str()), ("x", "watch"));
        let selected = |selector: &str| selected_name(selector);
        assert_eq!(selected("metadata.name==x,spec.nodeName=n").as_deref(), Some("x"));
        // A comma inside a value begins no requirement.
        assert_eq!(selected(r"type!=a\,metadata.name\=x,metadata.name=y").as_deref(), Some("y"));
        for none in ["metadata.name!=x", "metadata.name=", "metadata.name=..", "metadata.name=a/b", "x"] {
            assert_eq!(selected(none), None, "{none}");
        }
        let info = parse(Method::DELETE, "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx");
        assert_eq!((&*info.name, info.verb.as_str()), ("", "deletecollection"));
    }

    #[test]
    fn a_verb_in_the_path_counts_whatever_the_method() {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let info = parse(method, "/api/v1/watch/namespaces/a/pods/x?fieldSelector=metadata.name=y");
            assert_eq!((info.verb.as_str(), &*info.resource, &*info.name), ("watch", "pods", "x"));
            assert!(info.verb_in_path);
        }
        let info = parse(Method::GET, "/api/v1/watch/pods?fieldSelector=metadata.name=y");
        assert_eq!((info.verb.as_str(), &*info.resource, &*info.name), ("watch", "pods", ""));
        let info = parse(Method::POST, "/api/v1/proxy/namespaces/a/pods/x/log/y");
        assert_eq!((info.verb.as_str(), &*info.resource, &*info.name), ("proxy", "pods", "x"));
        assert_eq!((&*info.namespace, &*info.subresource), ("a", ""));
    }

    #[test]
    fn a_head_is_authorized_as_a_get() {
        let verb = |uri: &str| parse(Method::HEAD, uri).verb.as_str().to_owned();
        assert_eq!(verb("/api/v1/namespaces/a/pods/x"), "get");
        assert_eq!(verb("/api/v1/pods"), "list");
        assert_eq!(verb("/api/v1/pods?watch=1"), "watch");
    }

    #[test]
    fn an_escaped_slash_is_a_slash() {
        let info = parse(Method::GET, "/api/v1/namespaces/a/pods/x%2Flog");
        assert_eq!((&*info.name, &*info.subresource), ("x", "log"));
        assert!(is_escaped_well("/a%20b") && !is_escaped_well("/%zz") && !is_escaped_well("/a%2"));
        let query = Query::parse("labelSelector=%zz&limit=1&a;b=2");
        assert_eq!(
            (query.get("labelSelector"), query.get("limit"), query.has("a;b")),
            (None, Some("1"), false)
        );
    }

    #[test]
    fn an_empty_segment_is_a_segment() {
        let read = |uri: &str| {
            let info = parse(Method::GET, uri);
            [info.namespace, info.resource, info.name, info.subresource]
        };
        assert_eq!(read("/api/v1/namespaces/a/pods/x/"), ["a", "pods", "x", ""]);
        assert_eq!(read("/api/v1/namespaces/a/pods//log"), ["a", "pods", "", "log"]);
        assert_eq!(read("/api/v1/namespaces/a//pods/x"), ["a", "", "pods", "x"]);
        assert_eq!(read("/api/v1//namespaces/a/pods"), ["", "", "namespaces", "a"]);
    }

    #[test]
    fn queries_decode() {
        let query = Query::parse("labelSelector=a%20in+(b,c)&limit=5&watch");
        assert_eq!(query.get("labelSelector"), Some("a in (b,c)"));
        assert_eq!(query.number("limit").unwrap(), Some(5));
        for (text, what) in [("x", "invalid syntax"), ("99999999999999999999", "value out of range")] {
            let error = Query::parse(&format!("limit={text}")).number("limit").unwrap_err();
            assert_eq!(error.status().message, format!("strconv.ParseInt: parsing \"{text}\": {what}"));
        }
        assert!(query.flag("watch"));
    }
}
