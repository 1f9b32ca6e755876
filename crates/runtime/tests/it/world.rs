//! A small API server for one kind (ConfigMaps), held in memory, that can be told to misbehave.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::misdeed::{Broken, Misdeed, disturb, litter, spoil};

type Judge = Box<dyn FnMut(&Asked) -> Misdeed + Send>;

/// The request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub accept: String,
    pub accept_encoding: String,
}

impl Asked {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub fn is_watch(&self) -> bool {
        self.get("watch") == Some("true")
    }

    pub fn streams_state(&self) -> bool {
        self.get("sendInitialEvents") == Some("true")
    }
}

struct Change {
    revision: u64,
    kind: &'static str,
    namespace: String,
    object: Value,
}

struct State {
    revision: u64,
    floor: u64,
    objects: BTreeMap<String, Value>,
    history: Vec<Change>,
    asked: Vec<Asked>,
    judge: Judge,
    uids: u64,
    open_watches: usize,
}

/// The server. Clones are the same one.
#[derive(Clone)]
pub struct World {
    state: Arc<Mutex<State>>,
    moved: watch::Sender<u64>,
}

impl World {
    pub fn new() -> Self {
        let state = State {
            revision: 10,
            floor: 0,
            objects: BTreeMap::new(),
            history: Vec::new(),
            asked: Vec::new(),
            judge: Box::new(|_| Misdeed::default()),
            uids: 0,
            open_watches: 0,
        };
        World { state: Arc::new(Mutex::new(state)), moved: watch::Sender::new(0) }
    }

    pub fn client(&self) -> kube::Client {
        let world = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let world = world.clone();
            async move { Ok::<_, Infallible>(world.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    /// Decides from now on how each request is treated.
    pub fn judge(&self, judge: impl FnMut(&Asked) -> Misdeed + Send + 'static) {
        self.lock().judge = Box::new(judge);
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.lock().asked.clone()
    }

    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub fn open_watches(&self) -> usize {
        self.lock().open_watches
    }

    /// Creates or changes a ConfigMap.
    pub fn put(&self, namespace: &str, name: &str, data: &Value) -> u64 {
        self.put_labelled(namespace, name, data, &json!({}))
    }

    pub fn put_labelled(&self, namespace: &str, name: &str, data: &Value, labels: &Value) -> u64 {
        let mut state = self.lock();
        state.revision += 1;
        let revision = state.revision;
        let key = format!("{namespace}/{name}");
        let known = state.objects.get(&key).map(|object| object["metadata"]["uid"].clone());
        let kind = if known.is_some() { "MODIFIED" } else { "ADDED" };
        state.uids += 1;
        let uid = known.unwrap_or_else(|| json!(format!("00000000-0000-4000-8000-{:012}", state.uids)));
        let object = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {
                "name": name, "namespace": namespace, "uid": uid, "labels": labels,
                "resourceVersion": revision.to_string(),
                "managedFields": [
                    {"manager": "mine", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
                     "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:value": {}}}},
                    {"manager": "other", "operation": "Update", "fieldsV1": {}},
                ],
            },
            "data": data,
        });
        state.objects.insert(key, object.clone());
        state.history.push(Change { revision, kind, namespace: namespace.to_owned(), object });
        drop(state);
        self.moved.send_modify(|count| *count += 1);
        revision
    }

    pub fn delete(&self, namespace: &str, name: &str) {
        let mut state = self.lock();
        let Some(mut object) = state.objects.remove(&format!("{namespace}/{name}")) else { return };
        state.revision += 1;
        let revision = state.revision;
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        state.history.push(Change { revision, kind: "DELETED", namespace: namespace.to_owned(), object });
        drop(state);
        self.moved.send_modify(|count| *count += 1);
    }

    /// Forgets history, so that older versions are gone.
    pub fn compact(&self) {
        let mut state = self.lock();
        state.floor = state.revision;
        state.history.clear();
    }

    /// As after restoring a backup: other objects, an older revision, no history.
    pub fn restore(&self, revision: u64) {
        let mut state = self.lock();
        state.revision = revision;
        state.floor = revision;
        state.history.clear();
    }

    /// Key, resourceVersion and data of every object.
    pub fn truth(&self) -> BTreeMap<String, (String, Value)> {
        let state = self.lock();
        let entry = |object: &Value| {
            let version = object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            (version, object["data"].clone())
        };
        state.objects.iter().map(|(key, object)| (key.clone(), entry(object))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn answer(
        &self,
        request: Request<Body>,
    ) -> Response<StreamBody<BoxStream<'static, Result<Frame<Bytes>, Broken>>>> {
        let asked = Asked::read(&request);
        let misdeed = {
            let mut state = self.lock();
            state.asked.push(asked.clone());
            (state.judge)(&asked)
        };
        if misdeed.silent {
            std::future::pending::<()>().await;
        }
        let mut status = 200;
        let mut response = Response::builder();
        if let Some(seconds) = misdeed.retry_after {
            response = response.header("Retry-After", seconds.to_string());
        }
        if misdeed.gzip {
            response = response.header("Content-Encoding", "gzip");
        }
        if misdeed.strange_encoding {
            response = response.header("Content-Encoding", "zebra");
        }
        let chunks: BoxStream<'static, Bytes> = if let Some((code, reason)) = misdeed.status {
            status = code;
            match reason {
                // Not every proxy speaks JSON.
                "" => one(json!("gone away")),
                _ => one(failure(code, reason)),
            }
        } else if asked.is_watch() {
            self.watch(&asked, &misdeed)
        } else {
            match self.list(&asked) {
                Ok(list) => one(litter(list, &misdeed)),
                Err(body) => {
                    status = 410;
                    one(body)
                }
            }
        };
        response.status(status).body(StreamBody::new(spoil(chunks, &misdeed))).unwrap()
    }

    fn list(&self, asked: &Asked) -> Result<Value, Value> {
        let state = self.lock();
        let prefix = asked.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let (at, after) = match asked.get("continue") {
            Some(token) => {
                let (revision, key) = token.split_once('|').unwrap();
                let revision: u64 = revision.parse().unwrap();
                // This server keeps no old states: a page of another state than the newest is expired.
                if revision != state.revision {
                    return Err(failure(410, "Expired"));
                }
                (revision, key.to_owned())
            }
            None => (state.revision, String::new()),
        };
        let limit = asked.get("limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
        let matching: Vec<_> =
            state.objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after).collect();
        let items: Vec<Value> = matching.iter().take(limit).map(|(_, object)| untyped(object)).collect();
        let token = matching.get(limit.wrapping_sub(1)).filter(|_| matching.len() > limit);
        let token = token.map(|(key, _)| format!("{at}|{key}")).unwrap_or_default();
        let metadata = json!({"resourceVersion": at.to_string(), "continue": token});
        Ok(json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items}))
    }

    fn watch(&self, asked: &Asked, misdeed: &Misdeed) -> BoxStream<'static, Bytes> {
        let (mut events, mut from) = (Vec::new(), 0);
        {
            let state = self.lock();
            let asked_for: Option<u64> =
                asked.get("resourceVersion").and_then(|version| version.parse().ok());
            if asked_for.is_some_and(|version| version > state.revision) {
                return one(event("ERROR", &failure(504, "Timeout")));
            }
            if asked.streams_state() {
                let prefix = asked.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
                let objects = state.objects.iter().filter(|(key, _)| key.starts_with(&prefix));
                events.extend(objects.map(|(_, object)| event("ADDED", object)));
                if !misdeed.no_end_bookmark && misdeed.late_end.is_none() {
                    events.push(event("BOOKMARK", &bookmark(state.revision, true)));
                }
                from = state.revision;
            } else if let Some(version) = asked_for {
                if version < state.floor {
                    return one(event("ERROR", &failure(410, "Expired")));
                }
                from = version;
            }
        }
        let seconds: u64 = asked.get("timeoutSeconds").unwrap().parse().unwrap();
        let live = Live {
            world: self.clone(),
            moved: self.moved.subscribe(),
            namespace: asked.namespace().map(str::to_owned),
            from,
            ends: tokio::time::Instant::now() + Duration::from_secs(seconds),
            quiet: misdeed.bookmarks_only,
            end_after: misdeed.late_end.filter(|_| asked.streams_state() && !misdeed.no_end_bookmark),
        };
        self.lock().open_watches += 1;
        let live = futures::stream::unfold(live, Live::next).flat_map(futures::stream::iter);
        disturb(futures::stream::iter(events).chain(live).boxed(), misdeed)
    }
}

struct Live {
    world: World,
    moved: watch::Receiver<u64>,
    namespace: Option<String>,
    from: u64,
    ends: tokio::time::Instant,
    quiet: bool,
    /// Changes before the bookmark behind the first state.
    end_after: Option<usize>,
}

impl Live {
    async fn next(mut self) -> Option<(Vec<Bytes>, Self)> {
        loop {
            self.moved.borrow_and_update();
            if self.quiet {
                let revision = self.from;
                tokio::time::sleep(Duration::from_secs(60)).await;
                if tokio::time::Instant::now() >= self.ends {
                    return None;
                }
                return Some((vec![event("BOOKMARK", &bookmark(revision, false))], self));
            }
            let events = self.changes();
            match events {
                None => return Some((vec![event("ERROR", &failure(410, "Expired"))], self)),
                Some(events) if !events.is_empty() => return Some((events, self)),
                Some(_) => {}
            }
            tokio::select! {
                biased;
                _ = self.moved.changed() => {}
                () = tokio::time::sleep(Duration::from_secs(60)) => {
                    let revision = self.world.revision().max(self.from);
                    self.from = revision;
                    return Some((vec![event("BOOKMARK", &bookmark(revision, false))], self));
                }
                () = tokio::time::sleep_until(self.ends) => return None,
            }
        }
    }

    fn changes(&mut self) -> Option<Vec<Bytes>> {
        let state = self.world.lock();
        if self.from < state.floor {
            return None;
        }
        let own =
            |change: &&Change| self.namespace.as_ref().is_none_or(|namespace| *namespace == change.namespace);
        let new = state.history.iter().filter(|change| change.revision > self.from);
        let mut events = Vec::new();
        for change in new.filter(own) {
            events.push(event(change.kind, &change.object));
            self.end_after = self.end_after.map(|left| left.saturating_sub(1));
            if self.end_after.take_if(|left| *left == 0).is_some() {
                events.push(event("BOOKMARK", &bookmark(change.revision, true)));
            }
        }
        self.from = state.revision.max(self.from);
        Some(events)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Ok(mut state) = self.world.state.lock() {
            state.open_watches -= 1;
        }
    }
}

impl Asked {
    fn read(request: &Request<Body>) -> Self {
        let header = |name| {
            request.headers().get(name).map(|value: &http::HeaderValue| value.to_str().unwrap().to_owned())
        };
        let query = request.uri().query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let query = query.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap();
            (name.to_owned(), unescape(value))
        });
        Asked {
            path: request.uri().path().to_owned(),
            query: query.collect(),
            accept: header("accept").unwrap_or_default(),
            accept_encoding: header("accept-encoding").unwrap_or_default(),
        }
    }

    pub fn namespace(&self) -> Option<&str> {
        self.path.split_once("/namespaces/").map(|(_, rest)| rest.split('/').next().unwrap())
    }
}

pub fn failure(code: u16, reason: &str) -> Value {
    let causes = if code == 504 { json!([{"reason": "ResourceVersionTooLarge"}]) } else { json!([]) };
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
           "message": format!("{reason} for a test"), "details": {"causes": causes}})
}

fn bookmark(revision: u64, ends_initial: bool) -> Value {
    let annotations = if ends_initial { json!({"k8s.io/initial-events-end": "true"}) } else { json!({}) };
    json!({"kind": "ConfigMap", "apiVersion": "v1",
           "metadata": {"resourceVersion": revision.to_string(), "annotations": annotations}})
}

pub fn event(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
}

fn untyped(object: &Value) -> Value {
    let mut object = object.clone();
    let fields = object.as_object_mut().unwrap();
    fields.remove("kind");
    fields.remove("apiVersion");
    object
}

pub fn one(value: impl Into<OneChunk>) -> BoxStream<'static, Bytes> {
    let OneChunk(bytes) = value.into();
    futures::stream::iter([bytes]).boxed()
}

pub struct OneChunk(Bytes);

impl From<Value> for OneChunk {
    fn from(value: Value) -> Self {
        OneChunk(Bytes::from(value.to_string()))
    }
}

impl From<Bytes> for OneChunk {
    fn from(bytes: Bytes) -> Self {
        OneChunk(bytes)
    }
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(&tail[..2]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &tail[2..];
        } else {
            bytes.push(byte);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap()
}
