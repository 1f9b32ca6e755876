//! The load generator: a fixed number of connections, each sending its next request when the last was answered.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::connection::{Call, Connection, Target};

/// The number of connections in the peers' published figures.
pub const CONNECTIONS: usize = 16;

/// The result of a load.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub operations: usize,
    pub elapsed: Duration,
}

/// Sends every call once, spread over the connections. Requests are made before the clock starts.
pub async fn drive(target: &Target, calls: Vec<Call>) -> Result<Outcome> {
    Load::open(target).await?.drive(calls).await
}

/// Connections that stay open between loads.
pub struct Load {
    target: Target,
    connections: Vec<Connection>,
}

impl Load {
    pub async fn open(target: &Target) -> Result<Load> {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Connection::open(target).await?);
        }
        Ok(Load { target: target.clone(), connections })
    }

    /// Runs the calls like the function [`drive`].
    pub async fn drive(&mut self, calls: Vec<Call>) -> Result<Outcome> {
        let operations = calls.len();
        let mut shares: Vec<Vec<Request<Full<Bytes>>>> = (0..CONNECTIONS).map(|_| Vec::new()).collect();
        for (at, call) in calls.iter().enumerate() {
            shares[at % CONNECTIONS].push(self.target.request(call)?);
        }
        let start = Instant::now();
        let mut workers = JoinSet::new();
        for (mut connection, share) in self.connections.drain(..).zip(shares) {
            workers.spawn(async move {
                for request in share {
                    connection.exchange(request).await?;
                }
                anyhow::Ok(connection)
            });
        }
        while let Some(worker) = workers.join_next().await {
            self.connections.push(worker??);
        }
        Ok(Outcome { operations, elapsed: start.elapsed() })
    }
}
