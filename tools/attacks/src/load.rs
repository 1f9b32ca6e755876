//! Measurements beside an attack on availability: a quiet user who wants two small answers, and the server's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use setpoint_wire::attack::Load;
use setpoint_wire::certified::Certified;
use setpoint_wire::message::Sent;
use tokio::task::JoinSet;

use crate::servers::{Server, memory_mib};

/// Between two questions of the quiet user.
const PAUSE: Duration = Duration::from_millis(100);

/// Measures until it is asked to stop.
pub struct Beside {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Measured>,
}

/// The largest values that were seen.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub slowest: Duration,
    pub memory_mib: u64,
    pub asked: u32,
    /// An answer that was none.
    pub failed: Option<String>,
}

impl Beside {
    /// Begins. The quiet user has connections of its own.
    pub fn begin(server: &Server, load: &Load) -> Beside {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        let clients = server.clients.clone();
        tasks.spawn(quiet(clients, server.quiet, stop.clone(), Duration::from_secs(load.quiet_seconds)));
        tasks.spawn(memory(server.pid, stop.clone()));
        Beside { stop, tasks }
    }

    /// Ends and gives what was seen.
    pub async fn end(mut self) -> Result<Measured> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Measured::default();
        while let Some(one) = self.tasks.join_next().await {
            let one = one?;
            all.slowest = all.slowest.max(one.slowest);
            all.memory_mib = all.memory_mib.max(one.memory_mib);
            all.asked += one.asked;
            all.failed = all.failed.or(one.failed);
        }
        Ok(all)
    }
}

async fn memory(pid: u32, stop: Arc<AtomicBool>) -> Measured {
    let mut most = 0;
    while !stop.load(Ordering::Relaxed) {
        most = most.max(memory_mib(pid));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Measured { memory_mib: most, ..Measured::default() }
}

/// `/readyz` and a get, one after the other, at least once each.
async fn quiet(clients: Arc<Certified>, user: &str, stop: Arc<AtomicBool>, bound: Duration) -> Measured {
    let mut measured = Measured::default();
    loop {
        for path in ["/readyz", "/api/v1/namespaces/default/configmaps/quiet"] {
            let began = Instant::now();
            let outcome = tokio::time::timeout(bound, get(&clients, user, path)).await;
            measured.slowest = measured.slowest.max(began.elapsed());
            measured.asked += 1;
            let failed = match outcome {
                Err(_) => Some(format!("{path}: no answer within {} s", bound.as_secs())),
                Ok(Err(error)) => Some(format!("{path}: {error:#}")),
                Ok(Ok(200)) => None,
                Ok(Ok(status)) => Some(format!("{path}: {status}")),
            };
            measured.failed = measured.failed.or(failed);
        }
        if stop.load(Ordering::Relaxed) || measured.failed.is_some() {
            return measured;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn get(clients: &Arc<Certified>, user: &str, path: &str) -> Result<u16> {
    let sent = Sent {
        method: "GET".to_owned(),
        path: path.to_owned(),
        user: user.to_owned(),
        headers: Vec::new(),
        body: Vec::new().into(),
    };
    Ok(clients.send_once(&sent).await?.status)
}
