//! Many watchers of one kind, and writes that all of them must see.

use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::task::JoinSet;

use super::verbs::JSON;
use super::{Better, Case, Figure, body};
use crate::connection::Call;
use crate::connection::Connection;
use crate::load;
use crate::server::Server;

const WRITES: usize = 1000;
/// Watches that one connection carries: within what both servers allow.
const STREAMS: usize = 100;
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Measures events delivered per second, and the server's CPU time for each. Prints the cost of a watcher too.
pub async fn measure(server: &Server, watchers: usize) -> Result<Case> {
    let idle = server.usage()?;
    let mut readers = JoinSet::new();
    let mut held = Vec::new();
    for first in (0..watchers).step_by(STREAMS) {
        let mut connection = Connection::open(&server.target).await?;
        for _ in first..watchers.min(first + STREAMS) {
            let path = format!("{SECRETS}?watch=true");
            let call =
                Call { method: Method::GET, path, content_type: None, accept: JSON, body: Bytes::new() };
            let response = connection.start(&call).await?;
            ensure!(response.status().is_success(), "watch: {}", response.status());
            readers.spawn(read(response.into_body()));
        }
        held.push(connection);
    }
    let before = server.usage()?;
    let began = Instant::now();
    let calls = (0..WRITES).map(|at| Call {
        method: Method::POST,
        path: SECRETS.into(),
        content_type: Some(JSON),
        accept: JSON,
        body: body::json_bytes(&body::secret(&format!("watched-{at}"))),
    });
    load::drive(&server.target, calls.collect()).await?;
    let (mut seen, mut complete) = (0, 0);
    while let Some(reader) = readers.join_next().await {
        let events = reader??;
        // A server may close the watches that it cannot serve fast enough: the peer does.
        complete += usize::from(events == WRITES);
        seen += events;
    }
    let elapsed = began.elapsed();
    let after = server.usage()?;
    println!(
        "#   watch, {}: {complete} of {watchers} watchers saw all of {WRITES} writes; each costs {:.1} KB and {:.2} ms of CPU for {WRITES} events",
        server.name,
        before.resident_bytes.saturating_sub(idle.resident_bytes) as f64 / 1e3 / watchers as f64,
        (after.cpu - before.cpu).as_secs_f64() * 1e3 / watchers as f64,
    );
    let cpu = (after.cpu - before.cpu) / u32::try_from(seen)?;
    let figure = Figure { value: seen as f64 / elapsed.as_secs_f64(), cpu: Some(cpu) };
    Ok(Case { name: "watch", unit: "event/s", better: Better::More, figure })
}

/// Counts events, a line each, until all writes were seen or the server ended the watch.
async fn read(mut body: Incoming) -> Result<usize> {
    let mut events = 0;
    while events < WRITES {
        let Some(frame) = body.frame().await else { break };
        let frame = frame?;
        events += frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
    }
    Ok(events)
}
