//! One watch, with as much of each object read as the benches ask for.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;

use crate::connection::Call;
use crate::connection::{Connection, Target};

/// Nothing happens for so long: something hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time without an event after which the rest counts as complete.
const REST: Duration = Duration::from_millis(500);

#[derive(Deserialize)]
pub struct Event {
    #[serde(rename = "type")]
    pub kind: String,
    pub object: Object,
}

#[derive(Deserialize)]
pub struct Object {
    pub metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub generation: i64,
    pub deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Condition>,
    observed_generation: i64,
    replicas: usize,
    updated_replicas: usize,
    available_replicas: usize,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Object {
    pub fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|found| found.kind == "Ready" && found.status == "True")
    }

    /// As `kubectl rollout status` judges it.
    pub fn is_rolled_out(&self, replicas: usize) -> bool {
        let status = &self.status;
        status.observed_generation >= self.metadata.generation
            && [status.replicas, status.updated_replicas, status.available_replicas] == [replicas; 3]
    }
}

/// An open watch.
pub struct Watch {
    body: Incoming,
    buffer: BytesMut,
    _connection: Connection,
}

impl Watch {
    /// Opens a watch with the present state first.
    pub async fn open(target: &Target, path: &str) -> Result<Watch> {
        let mut connection = Connection::open(target).await?;
        let path = format!("{path}?watch=true&resourceVersion=0");
        let response = connection.start(&Call::get(&path)).await?;
        ensure!(response.status().is_success(), "watch of {path}: {}", response.status());
        Ok(Watch { body: response.into_body(), buffer: BytesMut::new(), _connection: connection })
    }

    pub async fn next(&mut self) -> Result<Event> {
        tokio::time::timeout(PATIENCE, self.read()).await.context("nothing happens any more")?
    }

    async fn read(&mut self) -> Result<Event> {
        loop {
            if let Some(at) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(at);
                self.buffer.advance(1);
                return Ok(serde_json::from_slice(&line)?);
            }
            let frame = self.body.frame().await.context("the watch ended")??;
            if let Some(data) = frame.data_ref() {
                self.buffer.extend_from_slice(data);
            }
        }
    }

    /// Returns the events since the last call.
    pub async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Ok(Ok(event)) = tokio::time::timeout(REST, self.read()).await {
            events.push(event);
        }
        events
    }
}
