//! Discovery: what is served, aggregated (with ETag) and in the older form of one document a group-version.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{ACCEPT, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use setpoint_schema::builtin;

use crate::body::Body;
use crate::error::Result;
use crate::header::first;
use crate::negotiate::{JSON, Offer, PROTOBUF, YAML, accept_clauses, negotiate};
use crate::registry::discovered::Cached;
use crate::registry::{CustomTable, Resource, version_order};
use crate::request::Query;
use crate::respond;
use crate::server::Server;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// One group: its versions, best first, each with its resources.
struct Group {
    name: String,
    versions: Vec<(String, Vec<Arc<Resource>>)>,
}

fn groups(server: &Server) -> Vec<Group> {
    groups_with(&server.0.registry.custom())
}

fn groups_with(custom: &CustomTable) -> Vec<Group> {
    let mut by_group: BTreeMap<String, BTreeMap<String, Vec<Arc<Resource>>>> = BTreeMap::new();
    for resource in custom.with_builtins() {
        let versions = by_group.entry(resource.group.clone()).or_default();
        versions.entry(resource.version.clone()).or_default().push(resource);
    }
    let mut names: Vec<String> = builtin().groups().iter().map(|group| group.name.to_owned()).collect();
    names.retain(|name| by_group.contains_key(name));
    let custom = by_group.keys().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>();
    names.extend(custom);
    let group = |name: String| {
        let mut versions: Vec<_> = by_group.get(&name).cloned().unwrap_or_default().into_iter().collect();
        versions.sort_by_key(|(name, _)| std::cmp::Reverse(version_order(name)));
        Group { name, versions }
    };
    names.into_iter().map(group).collect()
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = first(headers, ACCEPT);
    for clause in accept_clauses(&accept) {
        if clause.kind != "application" || !matches!(clause.subtype, "json" | "*") {
            continue;
        }
        return clause.parameter("g") == Some("apidiscovery.k8s.io")
            && clause.parameter("v") == Some("v2")
            && clause.parameter("as") == Some("APIGroupDiscoveryList");
    }
    false
}

/// Answers `/api`.
pub(crate) fn api(server: &Server, headers: &HeaderMap) -> Result<Response<Body>> {
    if wants_aggregated(headers) {
        return Ok(tagged(headers, &cached(server).core));
    }
    let address = server.advertised().map_or_else(|| "127.0.0.1:443".to_owned(), |a| a.to_string());
    let versions = json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]});
    answer(headers, &versions)
}

/// Answers `/apis`.
pub(crate) fn apis(server: &Server, headers: &HeaderMap) -> Result<Response<Body>> {
    if wants_aggregated(headers) {
        return Ok(tagged(headers, &cached(server).groups));
    }
    let groups: Vec<Value> =
        groups(server).iter().filter(|group| !group.name.is_empty()).map(group_value).collect();
    answer(headers, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

/// A document in the encoding that is asked for.
fn answer(headers: &HeaderMap, document: &Value) -> Result<Response<Body>> {
    let offer = Offer { protobuf: true, forms: false };
    let negotiated = negotiate(headers, &Query::default(), offer);
    let negotiated =
        negotiated.map_err(|_| crate::error::ApiError::not_acceptable(&[JSON, YAML, PROTOBUF]))?;
    respond::value(StatusCode::OK, &negotiated, document)
}

fn group_value(group: &Group) -> Value {
    let version =
        |version: &String| json!({"groupVersion": format!("{}/{version}", group.name), "version": version});
    let versions: Vec<Value> = group.versions.iter().map(|(name, _)| version(name)).collect();
    let preferred = versions.first().cloned().unwrap_or(Value::Null);
    json!({"name": group.name, "versions": versions, "preferredVersion": preferred})
}

/// Answers `/apis/GROUP`.
pub(crate) fn group(server: &Server, name: &str, headers: &HeaderMap) -> Result<Response<Body>> {
    let groups = groups(server);
    let Some(group) = groups.iter().find(|group| group.name == name && !name.is_empty()) else {
        return Ok(crate::respond::not_found());
    };
    let mut value = group_value(group);
    value["kind"] = json!("APIGroup");
    value["apiVersion"] = json!("v1");
    answer(headers, &value)
}

/// Answers `/api/VERSION` and `/apis/GROUP/VERSION`.
pub(crate) fn group_version(
    server: &Server,
    group: &str,
    version: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>> {
    let groups = groups(server);
    let found = groups.iter().find(|own| own.name == group);
    let served = server.0.registry.is_builtin_group(group);
    let Some((_, resources)) = found.and_then(|group| group.versions.iter().find(|(own, _)| own == version))
    else {
        return match served {
            true => Err(crate::error::ApiError::no_such_resource()),
            false => Ok(crate::respond::not_found()),
        };
    };
    let listed: Vec<Value> = resources.iter().flat_map(|resource| legacy_rows(resource)).collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut value = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": listed});
    if !group.is_empty() {
        value["apiVersion"] = json!("v1");
    }
    answer(headers, &value)
}

fn legacy_rows(resource: &Resource) -> Vec<Value> {
    let mut row = json!({"name": resource.plural, "singularName": resource.singular,
        "namespaced": resource.namespaced, "kind": resource.kind, "verbs": resource.verbs});
    if !resource.short_names.is_empty() {
        row["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        row["categories"] = json!(resource.categories);
    }
    if !resource.storage_version_hash.is_empty() {
        row["storageVersionHash"] = json!(resource.storage_version_hash);
    }
    let mut rows = vec![row];
    for sub in &resource.subresources {
        let mut row = json!({"name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
            "namespaced": resource.namespaced, "kind": sub.kind, "verbs": sub.verbs});
        if let Some((group, version)) = &sub.group_version {
            if !group.is_empty() {
                row["group"] = json!(group);
            }
            row["version"] = json!(version);
        }
        rows.push(row);
    }
    rows
}

fn cached(server: &Server) -> Cached {
    let custom = server.0.registry.custom();
    let revision = custom.revision;
    let mut slot = server.0.discovery.0.lock().expect("no holder of this lock panics");
    if let Some(cached) = slot.as_ref().filter(|cached| cached.revision == revision) {
        return cached.clone();
    }
    // Without custom kinds every server of the process says the same.
    static BUILT_IN: OnceLock<Cached> = OnceLock::new();
    let cached = if custom.resources.is_empty() {
        Cached { revision, ..BUILT_IN.get_or_init(|| described(&custom)).clone() }
    } else {
        described(&custom)
    };
    *slot = Some(cached.clone());
    cached
}

fn described(custom: &CustomTable) -> Cached {
    let groups = groups_with(custom);
    let (core, others): (Vec<&Group>, Vec<&Group>) = groups.iter().partition(|group| group.name.is_empty());
    Cached { revision: custom.revision, core: aggregated(&core), groups: aggregated(&others) }
}

fn aggregated(groups: &[&Group]) -> (Bytes, String) {
    let items: Vec<Value> = groups.iter().map(|group| aggregated_group(group)).collect();
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items});
    let mut body = crate::object::ordered(&list);
    body.push(b'\n');
    let digest = ring::digest::digest(&ring::digest::SHA512, &body);
    let tag: String = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    (body.into(), format!("\"{tag}\""))
}

fn aggregated_group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(name, resources)| {
            let resources: Vec<Value> = resources.iter().map(|resource| aggregated_row(resource)).collect();
            json!({"version": name, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_row(resource: &Resource) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    // Empty means the group and version that the list stands under.
    let mut row = json!({"resource": resource.plural,
        "responseKind": kind("", "", &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": resource.verbs});
    if !resource.short_names.is_empty() {
        row["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        row["categories"] = json!(resource.categories);
    }
    let subresources = resource.subresources.iter().map(|sub| {
        let (group, version) = sub.group_version.clone().unwrap_or_default();
        json!({"subresource": sub.name, "responseKind": kind(&group, &version, &sub.kind), "verbs": sub.verbs})
    });
    let subresources: Vec<Value> = subresources.collect();
    if !subresources.is_empty() {
        row["subresources"] = json!(subresources);
    }
    row
}

fn tagged(headers: &HeaderMap, (body, tag): &(Bytes, String)) -> Response<Body> {
    let sent = first(headers, IF_NONE_MATCH);
    let same = sent.split(',').any(|one| one.trim().trim_start_matches("W/") == tag);
    let mut response = if same {
        let mut response = Response::new(respond::full(Bytes::new()));
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        respond::bytes(StatusCode::OK, AGGREGATED, body.clone())
    };
    let answer = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(tag) {
        answer.insert(ETAG, tag);
    }
    answer.insert(VARY, HeaderValue::from_static("Accept"));
    answer.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

/// Answers `/`: the paths that are served.
pub(crate) fn index(server: &Server) -> Response<Body> {
    let mut paths: Vec<String> = [
        "/.well-known/openid-configuration",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/openid/v1/jwks",
        "/readyz",
        "/statusz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for group in groups(server).iter().filter(|group| !group.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|(version, _)| format!("/apis/{}/{version}", group.name)));
    }
    paths.sort();
    let compact = serde_json::to_vec(&json!({"paths": paths})).expect("a value is always JSON");
    respond::bytes(StatusCode::OK, JSON, crate::object::indented(&compact))
}
