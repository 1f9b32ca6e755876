//! `/openapi/v3` with its index, `/openapi/v2`.

use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use http::header::{ACCEPT, CACHE_CONTROL, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};
use setpoint_schema::builtin;
use setpoint_store::Snapshot;

use crate::body::Body;
use crate::header::{first, lossy};
use crate::key;
use crate::negotiate::{JSON, accept_clauses};
use crate::registry::{self, Resource};
use crate::request::RequestInfo;
use crate::respond;
use crate::server::Server;

/// The media type with which clients request gnostic's form.
const PROTOBUF: &str = "com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type of the answer in gnostic's form: `@` is not allowed in media types.
const PROTOBUF_ANSWER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The lifetime of a document whose address contains its hash, in seconds.
const YEAR: i64 = 365 * 24 * 60 * 60;

/// The served resources at one moment, by group and version.
struct View {
    snapshot: Snapshot,
    prose: Option<super::Prose>,
    resources: Vec<Arc<Resource>>,
}

impl View {
    fn of(server: &Server) -> View {
        let mut resources = server.0.registry.all();
        resources.sort_by(|a, b| (&a.group, &a.version, &a.plural).cmp(&(&b.group, &b.version, &b.plural)));
        View { snapshot: server.store().snapshot(), prose: server.options().prose, resources }
    }

    /// The spec of a custom resource's definition.
    fn definition(&self, resource: &Resource) -> Option<Value> {
        let name = format!("{}.{}", resource.plural, resource.group);
        let key = key::object("apiextensions.k8s.io", "customresourcedefinitions", "", &name);
        self.snapshot.get(&key).map(|entry| registry::value(&entry)["spec"].take())
    }

    /// The schema that the definition publishes for the resource's version.
    fn published(&self, resource: &Resource) -> Option<Value> {
        let mut spec = self.definition(resource)?;
        let versions = spec["versions"].as_array_mut()?;
        let version = versions.iter_mut().find(|version| version["name"] == *resource.version)?;
        Some(version["schema"]["openAPIV3Schema"].take()).filter(Value::is_object)
    }

    fn sources<'a>(&self, published: super::Published<'a>) -> super::Sources<'a> {
        super::Sources { published, prose: self.prose }
    }

    /// A hash that changes when, and only when, the served resources or the program change.
    fn hash(&self, resources: &[&Resource]) -> String {
        let mut context = ring::digest::Context::new(&ring::digest::SHA512);
        context.update(table_hash());
        context.update(&[u8::from(self.prose.is_some())]);
        for resource in resources {
            context
                .update(format!("{}/{}/{};", resource.group, resource.version, resource.plural).as_bytes());
            if resource.custom.is_some() {
                context.update(self.definition(resource).unwrap_or_default().to_string().as_bytes());
            }
        }
        hex(context.finish().as_ref())
    }

    fn group_version(&self, group: &str, version: &str) -> Vec<&Resource> {
        let all = self.resources.iter().map(|resource| &**resource);
        all.filter(|resource| resource.group == group && resource.version == version).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    bytes.iter().for_each(|byte| write!(text, "{byte:02X}").expect("writing to a string never fails"));
    text
}

/// The hash of the built-in table and of the program that makes documents of it.
fn table_hash() -> &'static [u8] {
    static HASH: OnceLock<Vec<u8>> = OnceLock::new();
    HASH.get_or_init(|| {
        let mut context = ring::digest::Context::new(&ring::digest::SHA512);
        context.update(builtin().bytes());
        context.update(env!("CARGO_PKG_VERSION").as_bytes());
        context.finish().as_ref().to_vec()
    })
}

/// Answers `/openapi/v3`: every document with its hash.
pub(crate) fn index(server: &Server) -> Response<Body> {
    let view = View::of(server);
    let mut paths = Map::new();
    let same = |a: &Arc<Resource>, b: &Arc<Resource>| a.group == b.group && a.version == b.version;
    for chunk in view.resources.chunk_by(same) {
        let (group, version) = (&chunk[0].group, &chunk[0].version);
        let name =
            if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let hash = view.hash(&chunk.iter().map(|resource| &**resource).collect::<Vec<_>>());
        let url = format!("/openapi/v3/{name}?hash={hash}");
        paths.insert(name, json!({"serverRelativeURL": url}));
    }
    let body = json!({"paths": paths}).to_string();
    respond::bytes(StatusCode::OK, "text/plain; charset=utf-8", body)
}

/// Answers `/openapi/v3/api/VERSION` and `/openapi/v3/apis/GROUP/VERSION`.
pub(crate) fn answer_v3(
    server: &Server,
    group: &str,
    version: &str,
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Response<Body> {
    let view = View::of(server);
    let resources = view.group_version(group, version);
    if resources.is_empty() {
        return empty(crate::respond::not_found().status());
    }
    if accepted(headers) != Some(Encoding::Json) {
        return vary(empty(StatusCode::NOT_ACCEPTABLE));
    }
    let hash = view.hash(&resources);
    let asked = info.query.get("hash").filter(|asked| !asked.is_empty());
    if asked.is_some_and(|asked| asked != hash) {
        let mut response = tagged(empty(StatusCode::MOVED_PERMANENTLY), &hash);
        if let Ok(url) = HeaderValue::from_str(&format!("{}?hash={hash}", info.path)) {
            response.headers_mut().insert(LOCATION, url);
        }
        return response;
    }
    let mut response = if matches(headers, &hash) {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        let document = super::v3(&resources, view.sources(&|resource| view.published(resource)));
        body(JSON, document.to_string().into_bytes(), headers)
    };
    if asked.is_some() {
        let forever = HeaderValue::from_static("public, immutable");
        response.headers_mut().insert(CACHE_CONTROL, forever);
        if let Some(until) = in_a_year(server) {
            response.headers_mut().insert(EXPIRES, until);
        }
    }
    tagged(response, &hash)
}

/// Answers `/openapi/v2`.
pub(crate) fn answer_v2(server: &Server, headers: &HeaderMap) -> Response<Body> {
    let view = View::of(server);
    let Some(form) = accepted(headers) else { return vary(empty(StatusCode::NOT_ACCEPTABLE)) };
    let resources: Vec<&Resource> = view.resources.iter().map(|resource| &**resource).collect();
    let hash = view.hash(&resources);
    if matches(headers, &hash) {
        return tagged(empty(StatusCode::NOT_MODIFIED), &hash);
    }
    let document = super::v2(&resources, view.sources(&|resource| view.published(resource)));
    let response = match form {
        Encoding::Json => body(JSON, document.to_string().into_bytes(), headers),
        Encoding::Protobuf => body(PROTOBUF_ANSWER, super::v2_protobuf(&document), headers),
    };
    tagged(response, &hash)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Json,
    Protobuf,
}

fn accepted(headers: &HeaderMap) -> Option<Encoding> {
    let accept = headers.get(ACCEPT).map_or("*/*".into(), lossy);
    accept_clauses(&accept).iter().find_map(|clause| match (clause.kind, clause.subtype) {
        ("*" | "application", "*") | ("application", "json") => Some(Encoding::Json),
        ("application", PROTOBUF | "com.github.proto-openapi.spec.v2.v1.0+protobuf") => {
            Some(Encoding::Protobuf)
        }
        _ => None,
    })
}

fn matches(headers: &HeaderMap, hash: &str) -> bool {
    let sent = first(headers, IF_NONE_MATCH);
    sent.split(',').any(|one| one.trim().trim_start_matches("W/").trim_matches('"') == hash)
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(respond::full(Vec::new()));
    *response.status_mut() = status;
    response
}

fn body(content_type: &str, bytes: Vec<u8>, headers: &HeaderMap) -> Response<Body> {
    respond::compressed(StatusCode::OK, content_type, bytes, respond::takes_gzip(headers))
}

fn vary(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
    response
}

fn tagged(response: Response<Body>, hash: &str) -> Response<Body> {
    let mut response = vary(response);
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{hash}\"")) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

fn in_a_year(server: &Server) -> Option<HeaderValue> {
    let until = server.options().clock.now().checked_add(jiff::SignedDuration::from_secs(YEAR)).ok()?;
    HeaderValue::from_str(&until.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()).ok()
}
