//! A small API server as a tower service: objects, revisions, watches, merge patches and a simple apply. Tests hold
//! its watches back, make it refuse calls, and read what was asked of it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::unanswered::Lost;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;
type Refuse = Arc<dyn Fn(&Method, &str) -> Option<(u16, &'static str)> + Send + Sync>;

#[derive(Clone)]
pub struct Fake(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    revision: u64,
    objects: BTreeMap<(String, String, String), Value>,
    history: Vec<(u64, String, String, &'static str, Value)>,
    held: bool,
    /// Up to here watches go on also while they are held.
    passed: u64,
    calls: Vec<String>,
    bodies: Vec<Value>,
    refuse: Option<Refuse>,
    headers: Vec<Option<String>>,
    /// Every request as `METHOD path?query`, and who says that it sent it.
    agents: Vec<(String, Option<String>)>,
    /// A watch ends when it moves.
    restored: u64,
    lost: Option<Lost>,
}

struct Place {
    collection: String,
    namespace: String,
    name: Option<String>,
    subresource: Option<String>,
}

fn place(path: &str) -> Place {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (root, rest) = parts.split_at(if parts[0] == "api" { 2 } else { 3 });
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    Place {
        collection: format!("{}/{}", root.join("/"), rest[0]),
        namespace: namespace.to_owned(),
        name: rest.get(1).map(|name| (*name).to_owned()),
        subresource: rest.get(2).map(|name| (*name).to_owned()),
    }
}

/// As kube-apiserver: of a deletion the body alone counts, if there is one.
fn is_dry(method: &Method, query: &str, json: &[u8]) -> bool {
    if *method != Method::DELETE || json.is_empty() {
        return query.contains("dryRun=All");
    }
    let options: Value = serde_json::from_slice(json).unwrap();
    options["dryRun"].as_array().is_some_and(|dry| dry.iter().any(|value| value == "All"))
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let fields = target.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Every value that is no object is a leaf.
fn field_set(value: &Value) -> Value {
    match value {
        Value::Object(fields) if !fields.is_empty() => Value::Object(
            fields.iter().map(|(name, value)| (format!("f:{name}"), field_set(value))).collect(),
        ),
        _ => json!({}),
    }
}

impl Fake {
    pub fn new() -> Self {
        let state = State { revision: 100, ..State::default() };
        Fake(Arc::new(Inner { state: Mutex::new(state), changed: Notify::new() }))
    }

    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    /// Holds all watches back, or lets them go on.
    pub fn hold_watches(&self, held: bool) {
        self.lock().held = held;
        self.0.changed.notify_waiters();
    }

    /// Lets watches that are held go on up to an object's revision.
    pub fn pass(&self, object: &Value) {
        self.lock().passed = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        self.0.changed.notify_waiters();
    }

    pub fn refuse(
        &self,
        refuse: impl Fn(&Method, &str) -> Option<(u16, &'static str)> + Send + Sync + 'static,
    ) {
        self.lock().refuse = Some(Arc::new(refuse));
    }

    /// Loses the answers to writes from now on; with `None`, no more.
    pub fn lose_answers(&self, lost: Option<Lost>) {
        self.lock().lost = lost;
    }

    /// Writes so far, as `METHOD path`; lists and watches are left out.
    pub fn writes(&self) -> Vec<String> {
        self.lock().calls.iter().filter(|call| !call.starts_with("GET")).cloned().collect()
    }

    /// Reads so far of paths that end so.
    pub fn reads(&self, path: &str) -> Vec<String> {
        let is_read = |call: &&String| call.starts_with("GET") && call.ends_with(path);
        self.lock().calls.iter().filter(is_read).cloned().collect()
    }

    pub fn bodies(&self) -> Vec<Value> {
        self.lock().bodies.clone()
    }

    pub fn agents(&self) -> Vec<(String, Option<String>)> {
        self.lock().agents.clone()
    }

    pub fn reconcile_ids(&self) -> Vec<Option<String>> {
        self.lock().headers.clone()
    }

    pub fn get(&self, collection: &str, namespace: &str, name: &str) -> Option<Value> {
        self.lock().objects.get(&(collection.to_owned(), namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Puts an object as somebody else would.
    pub fn put(&self, collection: &str, object: Value) -> Value {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = (collection.to_owned(), text("namespace"), text("name"));
        let stored = self.lock().store(key, object);
        self.0.changed.notify_waiters();
        stored
    }

    pub fn remove(&self, collection: &str, namespace: &str, name: &str) {
        self.lock().remove(&(collection.to_owned(), namespace.to_owned(), name.to_owned()));
        self.0.changed.notify_waiters();
    }

    /// As after restoring a backup: an older revision, no history, all watches ended.
    pub fn restore(&self, revision: u64) {
        self.rewind(revision);
        self.end_watches();
    }

    /// As [`Fake::restore`], behind something that keeps the watches open.
    pub fn rewind(&self, revision: u64) {
        let mut state = self.lock();
        state.revision = revision;
        state.history.clear();
        for object in state.objects.values_mut() {
            object["metadata"]["resourceVersion"] = revision.to_string().into();
        }
    }

    /// Ends all watches, cleanly.
    pub fn end_watches(&self) {
        self.lock().restored += 1;
        self.0.changed.notify_waiters();
    }

    async fn handle(self, request: Request<Body>) -> Answer {
        let (parts, body) = request.into_parts();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let path = parts.uri.path().to_owned();
        let json = body.collect().await.unwrap().to_bytes();
        let refused = {
            let mut state = self.lock();
            state.calls.push(format!("{} {}", parts.method, path));
            let agent = parts.headers.get("user-agent").map(|agent| agent.to_str().unwrap().to_owned());
            state.agents.push((format!("{} {}", parts.method, parts.uri), agent));
            if parts.method != Method::GET {
                state.bodies.push(serde_json::from_slice(&json).unwrap_or(Value::Null));
                let id = parts.headers.get("x-reconcile-id");
                state.headers.push(id.map(|id| id.to_str().unwrap().to_owned()));
            }
            state.refuse.clone().and_then(|refuse| refuse(&parts.method, &path))
        };
        if let Some((code, reason)) = refused {
            return failure(code, reason);
        }
        let place = place(&path);
        if parts.method == Method::GET && query.contains("watch=true") {
            return self.watch(place, &query);
        }
        let content = parts.headers.get("content-type").map(|value| value.to_str().unwrap().to_owned());
        let manager = query.split('&').find_map(|pair| pair.strip_prefix("fieldManager=")).unwrap_or("");
        let (answer, lost) = {
            let mut state = self.lock();
            let before = (state.revision, state.objects.clone(), state.history.len());
            let answer = state.write(&parts.method, place, &json, content.as_deref().unwrap_or(""), manager);
            if is_dry(&parts.method, &query, &json) {
                // It is answered as if it had happened.
                let (revision, objects, told) = before;
                (state.revision, state.objects) = (revision, objects);
                state.history.truncate(told);
            }
            (answer, state.lost.filter(|_| parts.method != Method::GET))
        };
        self.0.changed.notify_waiters();
        match lost {
            None => answer,
            Some(Lost::Silence) => std::future::pending().await,
            Some(Lost::Status(code, reason)) => failure(code, reason),
        }
    }

    fn watch(&self, place: Place, query: &str) -> Answer {
        let initial = query.contains("sendInitialEvents=true");
        let from = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let mut lines = Vec::new();
        let mut seen: u64 = from.and_then(|version| version.parse().ok()).unwrap_or(0);
        if initial {
            let state = self.lock();
            let newest = state.revision;
            for object in state.list(&place) {
                lines.push(json!({"type": "ADDED", "object": object}));
            }
            lines.push(json!({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "X", "metadata": {
                "resourceVersion": newest.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}}}}));
            seen = newest;
        }
        if seen > self.lock().revision {
            let status = json!({"kind": "Status", "code": 504, "reason": "Timeout",
                "message": "Timeout: Too large resource version"});
            lines = vec![json!({"type": "ERROR", "object": status})];
        }
        let fake = self.clone();
        let restored = self.lock().restored;
        let live = stream::unfold((fake, place, seen), move |(fake, place, mut seen)| async move {
            loop {
                let changed = fake.0.changed.notified();
                let line = {
                    let state = fake.lock();
                    if state.restored != restored {
                        return None;
                    }
                    let mut newer = state.history.iter().filter(|(revision, collection, namespace, ..)| {
                        *revision > seen
                            && *collection == place.collection
                            && (place.namespace.is_empty() || *namespace == place.namespace)
                    });
                    let goes_on = |revision: u64| !state.held || revision <= state.passed;
                    newer.next().filter(|(revision, ..)| goes_on(*revision)).map(
                        |(revision, _, _, kind, object)| {
                            (*revision, format!("{}\n", json!({"type": kind, "object": object})))
                        },
                    )
                };
                if let Some((revision, line)) = line {
                    drop(changed);
                    seen = revision;
                    return Some((Bytes::from(line), (fake, place, seen)));
                }
                changed.await;
            }
        });
        let first = stream::iter(lines.into_iter().map(|line| Bytes::from(format!("{line}\n"))));
        let frames = first.chain(live).map(|bytes| Ok::<_, Infallible>(http_body::Frame::data(bytes)));
        Response::new(BodyExt::boxed_unsync(StreamBody::new(frames)))
    }
}

impl State {
    fn list<'a>(&'a self, place: &'a Place) -> impl Iterator<Item = &'a Value> {
        let wanted = |(collection, namespace, _): &(String, String, String)| {
            *collection == place.collection && (place.namespace.is_empty() || *namespace == place.namespace)
        };
        self.objects.iter().filter(move |(key, _)| wanted(key)).map(|(_, object)| object)
    }

    /// Stores an object as the next revision; one that is unchanged keeps its own.
    fn store(&mut self, key: (String, String, String), mut object: Value) -> Value {
        let known = self.objects.get(&key).cloned();
        if let Some(known) = &known {
            object["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"].clone();
            object["metadata"]["uid"] = known["metadata"]["uid"].clone();
            if object == *known {
                return object;
            }
        }
        self.revision += 1;
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.insert("resourceVersion".into(), self.revision.to_string().into());
        metadata.insert("name".into(), key.2.clone().into());
        if !key.1.is_empty() {
            metadata.insert("namespace".into(), key.1.clone().into());
        }
        if known.is_none() {
            metadata.insert("uid".into(), format!("00000000-0000-4000-8000-{:012x}", self.revision).into());
        }
        let kind = if known.is_some() { "MODIFIED" } else { "ADDED" };
        self.history.push((self.revision, key.0.clone(), key.1.clone(), kind, object.clone()));
        self.objects.insert(key, object.clone());
        object
    }

    fn remove(&mut self, key: &(String, String, String)) -> Option<Value> {
        let mut object = self.objects.remove(key)?;
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.history.push((self.revision, key.0.clone(), key.1.clone(), "DELETED", object.clone()));
        Some(object)
    }

    /// Deletes an object, or marks it if finalizers hold it back.
    fn delete(&mut self, key: (String, String, String), mut object: Value) -> Value {
        if object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty()) {
            object["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:00Z".into();
            return self.store(key, object);
        }
        self.remove(&key);
        let details = json!({"name": key.2, "uid": object["metadata"]["uid"]});
        json!({"kind": "Status", "status": "Success", "details": details})
    }

    fn write(&mut self, method: &Method, place: Place, json: &[u8], content: &str, manager: &str) -> Answer {
        let mut body: Value = serde_json::from_slice(json).unwrap_or(Value::Null);
        let Some(name) = place.name.clone() else {
            if method == Method::POST {
                if let Some(prefix) = body["metadata"]["generateName"].as_str() {
                    body["metadata"]["name"] = format!("{prefix}{}", self.revision).into();
                }
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let key = (place.collection, place.namespace, name);
                if self.objects.contains_key(&key) {
                    return failure(409, "AlreadyExists");
                }
                return answer(StatusCode::CREATED, &self.store(key, body));
            }
            let items: Vec<Value> = self.list(&place).cloned().collect();
            if method == Method::DELETE {
                for item in &items {
                    let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
                    self.delete((place.collection.clone(), text("namespace"), text("name")), item.clone());
                }
            }
            let metadata = json!({"resourceVersion": self.revision.to_string()});
            return answer(StatusCode::OK, &json!({"kind": "List", "metadata": metadata, "items": items}));
        };
        let key = (place.collection, place.namespace, name);
        let known = self.objects.get(&key).cloned();
        match (method.as_str(), known) {
            ("GET", Some(object)) => answer(StatusCode::OK, &object),
            ("PUT", Some(object)) => {
                let version = &body["metadata"]["resourceVersion"];
                if !version.is_null() && *version != object["metadata"]["resourceVersion"] {
                    return failure(409, "Conflict");
                }
                answer(StatusCode::OK, &self.store(key, body))
            }
            ("DELETE", Some(object)) => answer(StatusCode::OK, &self.delete(key, object)),
            ("PATCH", known) if content.contains("apply-patch") => {
                answer(StatusCode::OK, &self.apply(key, known, &body, manager, place.subresource.as_deref()))
            }
            ("PATCH", Some(mut object)) => {
                match content.contains("json-patch") {
                    true => {
                        for step in body.as_array().unwrap() {
                            let path = step["path"].as_str().unwrap();
                            if step["op"] == "test" && object.pointer(path) != Some(&step["value"]) {
                                return failed_test();
                            }
                            if step["op"] != "test" {
                                let field = path.strip_prefix("/metadata/").unwrap();
                                object["metadata"][field] = step["value"].clone();
                            }
                        }
                    }
                    false => merge(&mut object, &body),
                }
                let deleting = !object["metadata"]["deletionTimestamp"].is_null();
                let free = object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
                if deleting && free {
                    // As kube-apiserver: the object is not written any more, and answered at its old revision.
                    self.remove(&key);
                    return answer(StatusCode::OK, &object);
                }
                let written = self.store(key, object);
                let answered = match place.subresource.as_deref() {
                    Some("scale") => scale(&written),
                    _ => written,
                };
                answer(StatusCode::OK, &answered)
            }
            _ => failure(404, "NotFound"),
        }
    }

    fn apply(
        &mut self,
        key: (String, String, String),
        known: Option<Value>,
        config: &Value,
        manager: &str,
        subresource: Option<&str>,
    ) -> Value {
        let mut owned = config.clone();
        let fields = owned.as_object_mut().unwrap();
        fields.retain(|name, _| name != "apiVersion" && name != "kind");
        let metadata = fields.get_mut("metadata").and_then(Value::as_object_mut).unwrap();
        metadata.retain(|name, _| name != "name" && name != "namespace");
        if metadata.is_empty() {
            fields.remove("metadata");
        }
        let mut entry = json!({"manager": manager, "operation": "Apply", "apiVersion": config["apiVersion"],
            "fieldsType": "FieldsV1", "fieldsV1": field_set(&owned)});
        if let Some(subresource) = subresource {
            entry["subresource"] = subresource.into();
        }
        let mut object = known.unwrap_or_else(|| json!({"metadata": Map::new()}));
        merge(&mut object, config);
        let mut managers = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        managers.retain(|known| known["manager"] != manager || known["subresource"] != entry["subresource"]);
        managers.push(entry);
        object["metadata"]["managedFields"] = managers.into();
        self.store(key, object)
    }
}

/// The scale of an object as the server shows it: its name, uid and version, and none of its labels.
fn scale(object: &Value) -> Value {
    let metadata = ["name", "namespace", "uid", "resourceVersion"];
    let metadata: Map<String, Value> =
        metadata.iter().map(|name| ((*name).to_owned(), object["metadata"][name].clone())).collect();
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": 1}})
}

pub fn answer(status: StatusCode, body: &Value) -> Answer {
    let body = http_body_util::Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder().status(status).body(body).unwrap()
}

/// As kube-apiserver says it.
fn failed_test() -> Answer {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the server rejected our request due to an error in our request", "reason": "Invalid",
        "details": {}, "code": 422});
    answer(StatusCode::UNPROCESSABLE_ENTITY, &body)
}

fn failure(code: u16, reason: &str) -> Answer {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("refused: {reason}"), "reason": reason, "code": code});
    answer(StatusCode::from_u16(code).unwrap(), &body)
}

impl tower::Service<Request<Body>> for Fake {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fake = self.clone();
        Box::pin(async move { Ok(fake.handle(request).await) })
    }
}
