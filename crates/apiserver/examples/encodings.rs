//! Measures the same requests in JSON and in protobuf, in the server alone: `cargo run --release -p
//! setpoint-apiserver --example encodings`.
//!
//! The four cases: written and read in JSON on a server that no client has asked for protobuf; the same on a server
//! that a client has asked for protobuf; written and read in protobuf; written in JSON and read in protobuf.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the real clock")]
#![allow(clippy::unwrap_used, reason = "a program that measures ends when it cannot")]

use std::time::Instant;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use setpoint_api::{Clock, Random};
use setpoint_apiserver::{Body, Caller, Options, Plugin, Server, UserInfo};
use setpoint_schema::protobuf;
use setpoint_store::Store;

const OBJECTS: usize = 2000;
const ROUNDS: usize = 5;

#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    fn media_type(self) -> &'static str {
        match self {
            Encoding::Json => "application/json",
            Encoding::Protobuf => protobuf::MEDIA_TYPE,
        }
    }

    fn bytes(self, object: &Value) -> Bytes {
        match self {
            Encoding::Json => serde_json::to_vec(object).unwrap().into(),
            Encoding::Protobuf => protobuf::encode(object).unwrap().into(),
        }
    }
}

fn pod(name: &str, note: &str) -> Value {
    let container = |name: &str| {
        json!({"name": name, "image": "registry.example/team/app:1.2.3", "args": ["--listen=:8080", "--log=json"],
            "env": [{"name": "MODE", "value": "production"}, {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "ports": [{"name": "http", "containerPort": 8080}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 5},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app", "readOnly": true}]})
    };
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
            "labels": {"app": "web", "tier": "front", "pod-template-hash": "6d4b75cb6d"},
            "annotations": {"note": note, "prometheus.io/scrape": "true"}},
        "spec": {"containers": [container("app"), container("side")], "nodeName": "node-1",
            "volumes": [{"name": "config", "configMap": {"name": "app-config"}}],
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule"}]}})
}

/// The clients of one measured server.
struct Clients {
    name: &'static str,
    writes: Encoding,
    reads: Encoding,
    /// Whether a client has asked for protobuf before.
    asked: bool,
}

const CLIENTS: [Clients; 4] = {
    use Encoding::{Json, Protobuf};
    [
        Clients { name: "json", writes: Json, reads: Json, asked: false },
        Clients { name: "json, asked", writes: Json, reads: Json, asked: true },
        Clients { name: "protobuf", writes: Protobuf, reads: Protobuf, asked: true },
        Clients { name: "json, read", writes: Json, reads: Protobuf, asked: true },
    ]
};

struct Bench {
    server: Server,
    clients: &'static Clients,
}

impl Bench {
    async fn start(clients: &'static Clients) -> Bench {
        let store = Store::memory(setpoint_store::Options::default());
        let mut options = Options::new(store, Clock::new(jiff::Timestamp::now), Random::from_seed(1));
        options.admission.plugins.remove(&Plugin::ServiceAccount);
        let bench = Bench { server: Server::start(options).await.unwrap(), clients };
        if clients.asked {
            bench.send(Method::GET, "/api/v1/namespaces/default", Encoding::Protobuf, Bytes::new()).await;
        }
        bench
    }

    async fn send(&self, method: Method, path: &str, encoding: Encoding, body: Bytes) -> Bytes {
        let media_type = encoding.media_type();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", media_type)
            .header("content-type", media_type)
            .body(full(body))
            .unwrap();
        let response = self.server.handle(Caller::Trusted(UserInfo::admin("admin")), request).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
        body
    }

    /// Microseconds for each of: create, update, first get, get, first list, list, watch from the start.
    async fn run(&self) -> [f64; 7] {
        let Clients { writes, reads, .. } = *self.clients;
        let path = |at: usize| format!("/api/v1/namespaces/default/pods/pod-{at}");
        let bodies = |note: &str| -> Vec<Bytes> {
            (0..OBJECTS).map(|at| writes.bytes(&pod(&format!("pod-{at}"), note))).collect()
        };
        let (first, second) = (bodies("first"), bodies("second"));
        let began = Instant::now();
        for body in first {
            self.send(Method::POST, "/api/v1/namespaces/default/pods", writes, body).await;
        }
        let create = per_object(began);
        let began = Instant::now();
        for (at, body) in second.into_iter().enumerate() {
            self.send(Method::PUT, &path(at), writes, body).await;
        }
        let update = per_object(began);
        let mut gets = [0.0; 2];
        for get in &mut gets {
            let began = Instant::now();
            for at in 0..OBJECTS {
                self.send(Method::GET, &path(at), reads, Bytes::new()).await;
            }
            *get = per_object(began);
        }
        let mut lists = [0.0; 2];
        for list in &mut lists {
            let began = Instant::now();
            self.send(Method::GET, "/api/v1/pods", reads, Bytes::new()).await;
            *list = per_object(began);
        }
        let began = Instant::now();
        let watch = "/api/v1/pods?watch=true&resourceVersion=1&timeoutSeconds=1";
        self.watch(watch, 2 * OBJECTS).await;
        let watch = per_object(began) / 2.0;
        [create, update, gets[0], gets[1], lists[0], lists[1], watch]
    }

    /// Reads that many events.
    async fn watch(&self, path: &str, events: usize) {
        let request = Request::builder()
            .uri(path)
            .header("accept", self.clients.reads.media_type())
            .body(full(Bytes::new()));
        let response = self.server.handle(Caller::Trusted(UserInfo::admin("admin")), request.unwrap()).await;
        assert!(response.status().is_success());
        let (mut body, mut seen, mut rest) = (response.into_body(), 0, Vec::new());
        while seen < events {
            let data = body.frame().await.expect("more events").unwrap().into_data().unwrap();
            match self.clients.reads {
                Encoding::Json => seen += data.iter().filter(|byte| **byte == b'\n').count(),
                Encoding::Protobuf => {
                    rest.extend_from_slice(&data);
                    seen += frames(&mut rest);
                }
            }
        }
    }
}

/// Takes the whole frames off the front.
fn frames(bytes: &mut Vec<u8>) -> usize {
    let (mut at, mut count) = (0, 0);
    while let Some(head) = bytes.get(at..at + 4) {
        let length = u32::from_be_bytes(head.try_into().unwrap()) as usize;
        if bytes.len() < at + 4 + length {
            break;
        }
        at += 4 + length;
        count += 1;
    }
    bytes.drain(..at);
    count
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

#[allow(clippy::cast_precision_loss, reason = "a few thousand objects")]
fn per_object(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e6 / OBJECTS as f64
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let names = ["create", "update", "first get", "get", "first list", "list", "watch"];
    let mut best = [[f64::MAX; 7]; CLIENTS.len()];
    for _ in 0..ROUNDS {
        for (best, clients) in best.iter_mut().zip(&CLIENTS) {
            let figures = Bench::start(clients).await.run().await;
            for (best, figure) in best.iter_mut().zip(figures) {
                *best = best.min(figure);
            }
        }
    }
    println!("µs an object, the best of {ROUNDS} rounds of {OBJECTS} pods");
    println!("{:12}{}", "", CLIENTS.map(|clients| format!("{:>13}", clients.name)).concat());
    for (at, name) in names.iter().enumerate() {
        println!("{name:12}{}", best.map(|best| format!("{:13.2}", best[at])).concat());
    }
}
