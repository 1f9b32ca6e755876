//! From the server's write of an event to the start of the reconcile, with many idle objects in the cache.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use super::Options;
use super::client::{Client, Side};
use super::data::{Data, event};
use super::pods;
use super::replay::Replay;
use super::report::{Better, Line};

/// Objects in the cache that nothing happens to.
const IDLE: u64 = 10_000;
/// Events that are timed, one after the other.
const EVENTS: u64 = 2_000;
/// Time between two events: longer than any side needs for one.
const PAUSE: Duration = Duration::from_millis(2);
/// How long the last reconcile may take to start.
const PATIENCE: Duration = Duration::from_secs(2);

pub fn run(options: &Options) -> Result<()> {
    let server = Replay::start(Data::new(IDLE))?;
    let [ours, theirs, rust] = [Side::Setpoint, Side::ControllerRuntime, Side::KubeRuntime]
        .map(|side| measure(options, &server, side));
    let (ours, theirs, rust) = (ours?, theirs?, rust?);
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let at = |times: &[f64]| times[((times.len() - 1) as f64 * share) as usize] / 1e3;
        Line::new(&format!("event_to_reconcile_{name}"), "microseconds", Better::Less, at(&ours))
            .against("controller-runtime", Some(at(&theirs)))
            .against("kube-runtime", Some(at(&rust)))
            .print();
    }
    Ok(())
}

/// Nanoseconds from write to start, sorted.
fn measure(options: &Options, server: &Replay, side: Side) -> Result<Vec<f64>> {
    let dash = if side == Side::ControllerRuntime { "-" } else { "--" };
    let arguments = [
        "latency".to_owned(),
        format!("{dash}server"),
        server.url(),
        format!("{dash}objects"),
        IDLE.to_string(),
    ];
    server.reset();
    let mut client = Client::start(options, side, &arguments)?;
    client.expect("idle")?;
    let (mut watcher, form) = server.watcher()?;
    // Made before: what the server does after its write must not take the processor from who is woken by it.
    let events: Vec<(String, Vec<u8>)> = (0..EVENTS)
        .map(|step| {
            let number = server.data().shuffled(step);
            let mut bytes = Vec::new();
            event(&mut bytes, form, "MODIFIED", &pods::pod(number, 1, IDLE + step + 1));
            (pods::key(number), bytes)
        })
        .collect();
    let mut sent = Vec::with_capacity(events.len());
    for (_, bytes) in &events {
        std::thread::sleep(PAUSE);
        sent.push(now());
        watcher.write_all(bytes)?;
    }
    let sent: BTreeMap<&str, f64> = events.iter().map(|(key, _)| key.as_str()).zip(sent).collect();
    std::thread::sleep(PATIENCE);
    client.go()?;
    let mut times = Vec::new();
    while let Some((key, started)) = client.start_of_reconcile()? {
        let begun = sent.get(key.as_str()).with_context(|| format!("{key} was not sent"))?;
        times.push(started - begun);
    }
    client.finish()?;
    ensure!(times.len() as u64 == EVENTS, "{side:?} started {} reconciles for {EVENTS} events", times.len());
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Nanoseconds by the clock that all processes share.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_nanos() as f64)
}
