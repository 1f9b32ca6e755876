//! Reads and writes of single objects.

use anyhow::Result;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::body::{self, config_map, deployment, json_bytes, protobuf_bytes};
use super::{Case, Figure};
use crate::load::{self, Call};
use crate::server::Server;

pub const JSON: &str = "application/json";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Every verb in turn, on the objects that the one before left.
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
    let mut cases = Vec::new();
    let mut take = |name, figure| cases.push(Case::rate(name, figure));
    take("create", create(server, "bench", count).await?);
    take("get", timed(server, each(Method::GET, None, JSON, &empty)).await?);
    take("get-protobuf", timed(server, each(Method::GET, None, PROTOBUF, &empty)).await?);
    take("merge-patch", timed(server, each(Method::PATCH, Some(MERGE_PATCH), JSON, &patch)).await?);
    take("update", timed(server, each(Method::PUT, Some(JSON), JSON, &json_update)).await?);
    let calls = each(Method::PUT, Some(PROTOBUF), PROTOBUF, &protobuf_update);
    take("update-protobuf", timed(server, calls).await?);
    take("delete", timed(server, each(Method::DELETE, None, JSON, &empty)).await?);
    take("apply", timed(server, applies(count / 2)).await?);
    take("apply-noop", timed(server, applies(count / 2)).await?);
    take("create-protobuf", create_as(server, "proto", count, PROTOBUF, protobuf_bytes).await?);
    let pods = count / 4;
    take("create-pod", create_pods(server, "json", pods, JSON, json_bytes).await?);
    take("create-pod-protobuf", create_pods(server, "protobuf", pods, PROTOBUF, protobuf_bytes).await?);
    Ok(cases)
}

/// Creates of ConfigMaps as JSON.
pub async fn create(server: &Server, prefix: &str, count: usize) -> Result<Figure> {
    create_as(server, prefix, count, JSON, json_bytes).await
}

async fn create_as(
    server: &Server,
    prefix: &str,
    count: usize,
    kind: &'static str,
    encode: fn(&Value) -> Bytes,
) -> Result<Figure> {
    let body = |at| encode(&config_map(&format!("{prefix}-{at}"), at));
    timed(server, posts(CONFIG_MAPS, count, kind, body)).await
}

/// Pods of about 4 KB, in a namespace of their own.
async fn create_pods(
    server: &Server,
    namespace: &str,
    count: usize,
    kind: &'static str,
    encode: fn(&Value) -> Bytes,
) -> Result<Figure> {
    let namespace = format!("pods-{namespace}");
    server.make_namespace(&namespace).await?;
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    timed(server, posts(&path, count, kind, |at| encode(&body::pod(at)))).await
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

async fn timed(server: &Server, calls: Vec<Call>) -> Result<Figure> {
    let before = server.usage()?.cpu;
    let outcome = load::drive(&server.target, calls).await?;
    let cpu = (server.usage()?.cpu - before) / u32::try_from(outcome.operations)?;
    Ok(Figure { value: outcome.rate(), cpu: Some(cpu) })
}
