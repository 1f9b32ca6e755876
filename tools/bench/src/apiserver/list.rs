//! One list of many pods.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;

use super::verbs::{JSON, PROTOBUF};
use super::{Case, Figure, body};
use crate::connection::Call;
use crate::connection::Connection;
use crate::load;
use crate::server::Server;

const PODS: &str = "/api/v1/namespaces/default/pods";
/// The best of so many counts: a list is one request, and something else may run beside it.
const TIMES: usize = 5;

/// Lists of pods of about 4 KB, whole, as JSON and as protobuf. Half of them were written in JSON and never read.
pub async fn measure(server: &Server, pods: usize) -> Result<Vec<Case>> {
    let calls = (0..pods).map(|at| {
        let pod = body::pod(at);
        let (kind, body) = match at % 2 {
            0 => (JSON, body::json_bytes(&pod)),
            _ => (PROTOBUF, body::protobuf_bytes(&pod)),
        };
        Call { method: Method::POST, path: PODS.into(), content_type: Some(kind), accept: kind, body }
    });
    load::drive(&server.target, calls.collect()).await?;
    Ok(vec![
        Case::less("list-pods", "ms", list(server, pods, JSON, 3000).await?),
        Case::less("list-pods-protobuf", "ms", list(server, pods, PROTOBUF, 1500).await?),
    ])
}

async fn list(server: &Server, pods: usize, accept: &'static str, least: usize) -> Result<Figure> {
    let mut connection = Connection::open(&server.target).await?;
    let mut best = Figure { value: f64::MAX, cpu: Some(Duration::MAX) };
    for _ in 0..TIMES {
        let call =
            Call { method: Method::GET, path: PODS.into(), content_type: None, accept, body: Bytes::new() };
        let before = server.usage()?.cpu;
        let began = Instant::now();
        let length = connection.call(&call).await?;
        let elapsed = began.elapsed();
        let cpu = server.usage()?.cpu - before;
        ensure!(length > pods * least, "a list of {length} bytes");
        best.value = best.value.min(elapsed.as_secs_f64() * 1e3);
        best.cpu = best.cpu.min(Some(cpu));
    }
    Ok(best)
}
