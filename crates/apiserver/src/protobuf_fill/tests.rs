use std::collections::BTreeMap;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use setpoint_api::{Clock, Random};
use setpoint_store::Store;

use super::*;
use crate::respond::full;
use crate::{Caller, Options, UserInfo};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const PROTOBUF: &str = protobuf::MEDIA_TYPE;

struct Cluster(Server);

impl Cluster {
    async fn start(most: usize) -> Self {
        let store = Store::memory(setpoint_store::Options::default());
        let clock = Clock::new(|| jiff::Timestamp::from_second(1_800_000_000).unwrap());
        let mut options = Options::new(store, clock, Random::from_seed(7));
        options.kept_protobuf = most;
        Cluster(Server::start(options).await.unwrap())
    }

    async fn send(&self, method: Method, path: &str, media_type: &str, object: Option<&Value>) -> Bytes {
        let body = match object {
            None => Vec::new(),
            Some(object) if media_type == JSON => object.to_string().into_bytes(),
            Some(object) => protobuf::encode(object).unwrap(),
        };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("accept", media_type).header("content-type", media_type);
        let caller = Caller::Trusted(UserInfo::admin("admin"));
        let response = self.0.handle(caller, request.body(full(body)).unwrap()).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
        body
    }

    async fn read(&self, path: &str, media_type: &str) -> Value {
        let body = self.send(Method::GET, path, media_type, None).await;
        if media_type == JSON {
            serde_json::from_slice(&body).unwrap()
        } else {
            protobuf::decode(&body).unwrap()
        }
    }

    async fn write(&self, method: Method, media_type: &str, name: &str, text: &str) {
        let path = if method == Method::PUT { format!("{MAPS}/{name}") } else { MAPS.to_owned() };
        self.send(method, &path, media_type, Some(&map(name, text))).await;
    }

    async fn remove(&self, name: &str) {
        self.send(Method::DELETE, &format!("{MAPS}/{name}"), JSON, None).await;
    }

    fn entry(&self, name: &str) -> Arc<Entry> {
        let maps = self.0.0.registry.find("", "v1", "configmaps").unwrap();
        self.0.store().snapshot().get(&maps.key("default", name)).unwrap()
    }

    fn is_ready(&self, name: &str) -> bool {
        registry::protobuf(&self.entry(name)).get().is_some()
    }

    /// Waits until everything that is stored has its message.
    async fn filled(&self) {
        let is_filled = || {
            let snapshot = self.0.store().snapshot();
            let all = KeyRange::all();
            snapshot.range(&all, None).all(|entry| registry::protobuf(entry).get().is_some())
        };
        let wait = async {
            while !is_filled() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait)
            .await
            .expect("every stored object has its message");
    }

    fn forget_history(&self) {
        self.0.store().compact(self.0.store().revision());
    }

    fn cached(&self) -> usize {
        self.0.0.protobuf_cache.bytes()
    }
}

fn map(name: &str, text: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"text": text}})
}

#[tokio::test]
async fn nothing_is_kept_for_clients_that_read_json() {
    let cluster = Cluster::start(usize::MAX / 2).await;
    cluster.write(Method::POST, JSON, "a", "1").await;
    cluster.read(MAPS, JSON).await;
    tokio::task::yield_now().await;
    assert_eq!((cluster.cached(), cluster.is_ready("a")), (0, false));
}

#[tokio::test]
async fn what_was_stored_before_the_first_reader_of_protobuf_is_made_ready_unread() {
    let cluster = Cluster::start(usize::MAX / 2).await;
    for at in 0..3 * SLICE {
        cluster.write(Method::POST, JSON, &format!("map-{at}"), "1").await;
    }
    cluster.read("/api/v1/namespaces/default", PROTOBUF).await;
    cluster.filled().await;
    let sizes = |entry: &Arc<Entry>| registry::protobuf(entry).get().unwrap().sealed().len();
    let stored: usize = cluster.0.store().snapshot().range(&KeyRange::all(), None).map(sizes).sum();
    assert_eq!(cluster.cached(), stored);
    assert_eq!(cluster.read(MAPS, PROTOBUF).await["items"].as_array().unwrap().len(), 3 * SLICE);
}

#[tokio::test]
async fn a_write_in_json_is_ready_for_readers_of_protobuf() {
    let cluster = Cluster::start(usize::MAX / 2).await;
    cluster.read("/api/v1/namespaces/default", PROTOBUF).await;
    for (method, text) in [(Method::POST, "1"), (Method::PUT, "2")] {
        cluster.write(method, JSON, "a", text).await;
        assert!(cluster.is_ready("a"), "{text}");
        let path = format!("{MAPS}/a");
        assert_eq!(cluster.read(&path, PROTOBUF).await, cluster.read(&path, JSON).await);
    }
}

#[tokio::test]
async fn what_is_gone_takes_no_room() {
    let cluster = Cluster::start(usize::MAX / 2).await;
    cluster.read("/api/v1/namespaces/default", PROTOBUF).await;
    cluster.filled().await;
    cluster.forget_history();
    let before = cluster.cached();
    cluster.write(Method::POST, PROTOBUF, "a", "1").await;
    cluster.write(Method::PUT, JSON, "a", "2").await;
    assert!(cluster.cached() > before);
    cluster.remove("a").await;
    cluster.forget_history();
    assert_eq!(cluster.cached(), before);
}

/// Whatever the order of writes, reads and the filling, with room for a few messages only: protobuf shows what JSON
/// shows, and the room is never exceeded.
#[tokio::test]
async fn protobuf_shows_what_was_written_last() {
    let whole = Cluster::start(usize::MAX / 2).await;
    whole.read("/api/v1/namespaces/default", PROTOBUF).await;
    whole.filled().await;
    for seed in 0..20 {
        let random = Random::from_seed(seed);
        let most = whole.cached() + 700;
        let cluster = Cluster::start(most).await;
        let mut model: BTreeMap<String, String> = BTreeMap::new();
        for step in 0..150 {
            let name = ["a", "b", "c", "d"][random.below(4) as usize];
            let media_type = [JSON, PROTOBUF][random.below(2) as usize];
            let text = "x".repeat(random.below(120) as usize + 1);
            match random.below(8) {
                0..=3 => {
                    let is_there = model.insert(name.to_owned(), text.clone()).is_some();
                    let method = if is_there { Method::PUT } else { Method::POST };
                    cluster.write(method, media_type, name, &text).await;
                }
                4 if model.remove(name).is_some() => cluster.remove(name).await,
                5 => cluster.forget_history(),
                6 => tokio::task::yield_now().await,
                _ => check(&cluster, &model, &format!("seed {seed}, step {step}")).await,
            }
            assert!(cluster.cached() <= most, "seed {seed}, step {step}");
        }
    }
}

async fn check(cluster: &Cluster, model: &BTreeMap<String, String>, place: &str) {
    let list = cluster.read(MAPS, PROTOBUF).await;
    let shown: BTreeMap<String, String> = list["items"].as_array().into_iter().flatten().map(entry).collect();
    assert_eq!(&shown, model, "{place}");
    for name in model.keys() {
        let path = format!("{MAPS}/{name}");
        assert_eq!(cluster.read(&path, PROTOBUF).await, cluster.read(&path, JSON).await, "{place}: {name}");
    }
}

fn entry(item: &Value) -> (String, String) {
    let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    (text("/metadata/name"), text("/data/text"))
}
