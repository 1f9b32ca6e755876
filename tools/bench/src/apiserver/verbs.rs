//! Reads and writes of single objects.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::body::{self, config_map, deployment, json_bytes, protobuf_bytes};
use super::{Case, Figure};
use crate::connection::Call;
use crate::load::Load;
use crate::server::Server;

pub const JSON: &str = "application/json";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Every verb in turn, on the objects that the one before left; the same request in JSON and in protobuf in turns.
pub async fn measure(server: &Server, count: usize) -> Result<Vec<Case>> {
    let each = |method: Method, kind: Option<&'static str>, accept, body: &dyn Fn(usize) -> Bytes| {
        let call = |at| Call {
            method: method.clone(),
            path: format!("{CONFIG_MAPS}/bench-{at}"),
            content_type: kind,
            accept,
            body: body(at),
        };
        (0..count).map(call).collect::<Vec<_>>()
    };
    let empty = |_| Bytes::new();
    let patch = |at: usize| json_bytes(&json!({"data": {"patched": at.to_string()}}));
    let updated = |at: usize, text: &str| {
        let mut object = config_map(&format!("bench-{at}"), at);
        object["data"]["updated"] = Value::from(text);
        object
    };
    let json_update = |at| json_bytes(&updated(at, "json"));
    let protobuf_update = |at| protobuf_bytes(&updated(at, "protobuf"));
    let mut cases = Cases { server, cases: Vec::new() };
    let (get, get_protobuf) =
        (each(Method::GET, None, JSON, &empty), each(Method::GET, None, PROTOBUF, &empty));
    cases.one("create", posts(CONFIG_MAPS, count, JSON, named("bench", json_bytes))).await?;
    // No client has asked this server for protobuf before.
    cases.one("get-protobuf-first", get_protobuf.clone()).await?;
    cases.pair(["get", "get-protobuf"], [get, get_protobuf]).await?;
    cases.one("merge-patch", each(Method::PATCH, Some(MERGE_PATCH), JSON, &patch)).await?;
    let updates = [
        each(Method::PUT, Some(JSON), JSON, &json_update),
        each(Method::PUT, Some(PROTOBUF), PROTOBUF, &protobuf_update),
    ];
    cases.pair(["update", "update-protobuf"], updates).await?;
    cases.one("delete", each(Method::DELETE, None, JSON, &empty)).await?;
    cases.one("apply", applies(count / 2)).await?;
    cases.one("apply-noop", applies(count / 2)).await?;
    let creates = [
        posts(CONFIG_MAPS, count, JSON, named("again", json_bytes)),
        posts(CONFIG_MAPS, count, PROTOBUF, named("proto", protobuf_bytes)),
    ];
    cases.pair(["create-again", "create-protobuf"], creates).await?;
    let pods = count / 4;
    let creates = [
        posts(&pods_of(server, "json").await?, pods, JSON, |at| json_bytes(&body::pod(at))),
        posts(&pods_of(server, "protobuf").await?, pods, PROTOBUF, |at| protobuf_bytes(&body::pod(at))),
    ];
    cases.pair(["create-pod", "create-pod-protobuf"], creates).await?;
    Ok(cases.cases)
}

/// Creates of ConfigMaps as JSON.
pub async fn create(server: &Server, prefix: &'static str, count: usize) -> Result<Figure> {
    let calls = posts(CONFIG_MAPS, count, JSON, named(prefix, json_bytes));
    Ok(timed(server, [calls, Vec::new()]).await?[0])
}

fn named(prefix: &'static str, encode: fn(&Value) -> Bytes) -> impl Fn(usize) -> Bytes {
    move |at| encode(&config_map(&format!("{prefix}-{at}"), at))
}

/// The pods of a new namespace.
async fn pods_of(server: &Server, namespace: &str) -> Result<String> {
    let namespace = format!("pods-{namespace}");
    server.make_namespace(&namespace).await?;
    Ok(format!("/api/v1/namespaces/{namespace}/pods"))
}

fn posts(path: &str, count: usize, kind: &'static str, body: impl Fn(usize) -> Bytes) -> Vec<Call> {
    let call = |at| Call {
        method: Method::POST,
        path: path.to_owned(),
        content_type: Some(kind),
        accept: kind,
        body: body(at),
    };
    (0..count).map(call).collect()
}

/// One apply of a typical Deployment each.
fn applies(count: usize) -> Vec<Call> {
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let call = |at| Call {
        method: Method::PATCH,
        path: format!("{path}/bench-{at}?fieldManager=bench&force=true"),
        content_type: Some(APPLY_PATCH),
        accept: JSON,
        body: json_bytes(&deployment(&format!("bench-{at}"))),
    };
    (0..count).map(call).collect()
}

/// The cases so far.
struct Cases<'s> {
    server: &'s Server,
    cases: Vec<Case>,
}

impl Cases<'_> {
    async fn one(&mut self, name: &'static str, calls: Vec<Call>) -> Result<()> {
        let [figure, _] = timed(self.server, [calls, Vec::new()]).await?;
        self.cases.push(Case::rate(name, figure));
        Ok(())
    }

    /// The same requests in two encodings.
    async fn pair(&mut self, names: [&'static str; 2], calls: [Vec<Call>; 2]) -> Result<()> {
        let figures = timed(self.server, calls).await?;
        self.cases.extend(names.into_iter().zip(figures).map(|(name, figure)| Case::rate(name, figure)));
        Ok(())
    }
}

/// Number of turns of two loads, so that both meet the server and the machine in the same state.
const TURNS: usize = 4;

/// The figures of two loads, the second of which may be empty.
async fn timed(server: &Server, calls: [Vec<Call>; 2]) -> Result<[Figure; 2]> {
    let mut load = Load::open(&server.target).await?;
    let mut sums = [(0, Duration::ZERO, Duration::ZERO); 2];
    for turn in 0..TURNS {
        for (calls, (operations, elapsed, cpu)) in calls.iter().zip(&mut sums) {
            let part = calls.len() * turn / TURNS..calls.len() * (turn + 1) / TURNS;
            let before = server.usage()?.cpu;
            let outcome = load.drive(calls[part].to_vec()).await?;
            *operations += outcome.operations;
            *elapsed += outcome.elapsed;
            *cpu += server.usage()?.cpu - before;
        }
    }
    Ok(sums.map(|(operations, elapsed, cpu)| Figure {
        value: operations as f64 / elapsed.as_secs_f64(),
        cpu: u32::try_from(operations).ok().and_then(|operations| cpu.checked_div(operations)),
    }))
}
