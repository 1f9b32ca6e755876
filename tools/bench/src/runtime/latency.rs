//! From the server's write of an event to the start of the reconcile, with many idle objects in the cache.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
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
/// Events that each side gets, one after the other.
const EVENTS: u64 = 2_000;
/// Events of one turn. The sides take turns because how deep the machine sleeps between two events changes from second
/// to second, and with it every figure.
const TURN: usize = 200;
/// Time between two events: longer than any side needs for one.
const PAUSE: Duration = Duration::from_millis(2);
/// Time for a side to come to rest before the next one has its turn. The first event of a turn comes after a longer rest
/// than the others, so it is not timed.
const REST: Duration = Duration::from_millis(20);
/// How long the last reconcile may take to start.
const PATIENCE: Duration = Duration::from_secs(2);

pub fn run(options: &Options) -> Result<()> {
    let server = Replay::start(Data::new(IDLE))?;
    let mut ours = Idle::start(options, &server, Side::Setpoint)?;
    let mut theirs = Idle::start(options, &server, Side::ControllerRuntime)?;
    let mut rust = Idle::start(options, &server, Side::KubeRuntime)?;
    for turn in 0..EVENTS as usize / TURN {
        for side in [&mut ours, &mut theirs, &mut rust] {
            side.send(turn)?;
            std::thread::sleep(REST);
        }
    }
    std::thread::sleep(PATIENCE);
    let (ours, theirs, rust) = (ours.finish()?, theirs.finish()?, rust.finish()?);
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let at = |times: &[f64]| times[((times.len() - 1) as f64 * share) as usize] / 1e3;
        Line::new(&format!("event_to_reconcile_{name}"), "microseconds", Better::Less, at(&ours))
            .against("controller-runtime", Some(at(&theirs)))
            .against("kube-runtime", Some(at(&rust)))
            .print();
    }
    Ok(())
}

/// A side that has synced and waits for events.
struct Idle {
    side: Side,
    client: Client,
    watcher: TcpStream,
    events: Vec<(String, Vec<u8>)>,
    /// When each event was written.
    sent: Vec<f64>,
}

impl Idle {
    fn start(options: &Options, server: &Replay, side: Side) -> Result<Self> {
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
        let (watcher, form) = server.watcher()?;
        // Made before: what the server does after its write must not take the processor from who is woken by it.
        let events = (0..EVENTS).map(|step| {
            let number = server.data().shuffled(step);
            let mut bytes = Vec::new();
            event(&mut bytes, form, "MODIFIED", &pods::pod(number, 1, IDLE + step + 1));
            (pods::key(number), bytes)
        });
        let events = events.collect();
        Ok(Idle { side, client, watcher, events, sent: Vec::with_capacity(EVENTS as usize) })
    }

    /// Sends the events of one turn.
    fn send(&mut self, turn: usize) -> Result<()> {
        for (_, bytes) in &self.events[turn * TURN..][..TURN] {
            std::thread::sleep(PAUSE);
            self.sent.push(now());
            self.watcher.write_all(bytes)?;
            // Whoever is woken by it mostly runs on this processor, and would have to wait until the alarm of the next
            // pause is set.
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Nanoseconds from write to start, sorted.
    fn finish(mut self) -> Result<Vec<f64>> {
        let sent = self.events.iter().zip(self.sent).enumerate();
        let sent: BTreeMap<&str, (usize, f64)> =
            sent.map(|(number, ((key, _), time))| (key.as_str(), (number, time))).collect();
        self.client.go()?;
        let mut started = 0;
        let mut times = Vec::new();
        while let Some((key, start)) = self.client.start_of_reconcile()? {
            let (number, begun) = sent.get(key.as_str()).with_context(|| format!("{key} was not sent"))?;
            started += 1;
            if number % TURN != 0 {
                times.push(start - begun);
            }
        }
        self.client.finish()?;
        let side = self.side;
        ensure!(started == EVENTS, "{side:?} started {started} reconciles for {EVENTS} events");
        times.sort_by(f64::total_cmp);
        Ok(times)
    }
}

/// Nanoseconds by the clock that all processes share.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_nanos() as f64)
}
