//! From the server's write of an event to the start of the reconcile, with many idle objects in the cache.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use super::Options;
use super::client::{Client, Side, Variant};
use super::data::{Data, Form, event};
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
/// Time that the last reconcile may take to start.
const PATIENCE: Duration = Duration::from_secs(2);

/// Setpoint and kube-runtime use JSON for every kind. controller-runtime uses JSON for custom resources and, by
/// default, protobuf for pods.
const VARIANTS: &[Variant] = &[
    Variant { name: "setpoint", side: Side::Setpoint, words: &[] },
    Variant { name: "controller-runtime", side: Side::ControllerRuntime, words: &["-form", JSON] },
    Variant {
        name: "controller-runtime-stripped",
        side: Side::ControllerRuntime,
        words: &["-form", JSON, "-strip"],
    },
    Variant { name: "controller-runtime-protobuf", side: Side::ControllerRuntime, words: &[] },
    Variant { name: "kube-runtime", side: Side::KubeRuntime, words: &[] },
    Variant { name: "kube-runtime-stripped", side: Side::KubeRuntime, words: &["--strip"] },
];
const JSON: &str = "application/json";

pub fn run(options: &Options) -> Result<()> {
    let server = Replay::start(Data::new(IDLE))?;
    let mut sides =
        VARIANTS.iter().map(|variant| Idle::start(options, &server, variant)).collect::<Result<Vec<_>>>()?;
    for turn in 0..EVENTS as usize / TURN {
        for side in &mut sides {
            side.send(turn)?;
            std::thread::sleep(REST);
        }
    }
    std::thread::sleep(PATIENCE);
    let times = sides.into_iter().map(Idle::finish).collect::<Result<Vec<_>>>()?;
    let find = |name: &str| &times[VARIANTS.iter().position(|own| own.name == name).expect("it ran")];
    for (place, case) in ["event_to_reconcile", "event_to_typed_read"].into_iter().enumerate() {
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            let at = |side: &str| {
                let sorted = &find(side)[place];
                sorted[((sorted.len() - 1) as f64 * share) as usize] / 1e3
            };
            Line::new(&format!("{case}_{name}"), "microseconds", Better::Less, at("setpoint"))
                .against("controller-runtime", Some(at("controller-runtime")))
                .against("kube-runtime", Some(at("kube-runtime")))
                .against("controller-runtime-protobuf", Some(at("controller-runtime-protobuf")))
                .print();
            let stripped = format!("{case}_{name}_without_managed_fields");
            Line::new(&stripped, "microseconds", Better::Less, at("setpoint"))
                .against("controller-runtime", Some(at("controller-runtime-stripped")))
                .against("kube-runtime", Some(at("kube-runtime-stripped")))
                .print();
        }
    }
    Ok(())
}

/// A side that has synced and waits for events.
struct Idle {
    name: &'static str,
    client: Client,
    watcher: TcpStream,
    events: Vec<(String, Vec<u8>)>,
    /// When each event was written.
    sent: Vec<f64>,
}

impl Idle {
    fn start(options: &Options, server: &Replay, variant: &Variant) -> Result<Self> {
        let flags = [("server", server.url()), ("objects", IDLE.to_string())];
        server.reset();
        let mut client = variant.side.start(options, "latency", &flags, variant.words)?;
        client.expect("idle")?;
        let (watcher, form) = server.watcher()?;
        let wanted = if variant.name.ends_with("protobuf") { Form::Protobuf } else { Form::Json };
        ensure!(form == wanted, "{} asked for {form:?}", variant.name);
        // Prepared before: the server's work after its write must not take the processor from the woken client.
        let events = (0..EVENTS).map(|step| {
            let number = server.data().shuffled(step);
            let mut bytes = Vec::new();
            event(&mut bytes, form, "MODIFIED", &pods::pod(number, 1, IDLE + step + 1));
            (pods::key(number), bytes)
        });
        let events = events.collect();
        Ok(Idle { name: variant.name, client, watcher, events, sent: Vec::with_capacity(EVENTS as usize) })
    }

    /// Sends the events of one turn.
    fn send(&mut self, turn: usize) -> Result<()> {
        for (_, bytes) in &self.events[turn * TURN..][..TURN] {
            std::thread::sleep(PAUSE);
            self.sent.push(now());
            self.watcher.write_all(bytes)?;
            // The woken client mostly runs on this processor, and would otherwise wait until the timer of the next
            // pause is set.
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Nanoseconds from the write to the start of the reconcile, and until it had the object; sorted.
    fn finish(mut self) -> Result<[Vec<f64>; 2]> {
        let sent = self.events.iter().zip(self.sent).enumerate();
        let sent: BTreeMap<&str, (usize, f64)> =
            sent.map(|(number, ((key, _), time))| (key.as_str(), (number, time))).collect();
        self.client.go()?;
        let mut started = 0;
        let mut times = [Vec::new(), Vec::new()];
        while let Some((key, ends)) = self.client.start_of_reconcile()? {
            let (number, begun) = sent.get(key.as_str()).with_context(|| format!("{key} was not sent"))?;
            started += 1;
            if number % TURN != 0 {
                times.iter_mut().zip(ends).for_each(|(times, end)| times.push(end - begun));
            }
        }
        self.client.finish()?;
        ensure!(started == EVENTS, "{} started {started} reconciles for {EVENTS} events", self.name);
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        Ok(times)
    }
}

/// Nanoseconds by the clock that all processes share.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_nanos() as f64)
}
