//! Informers: first sync, updates, memory, reads.
//!
//! Once the first state is complete and the dictionary is trained on it, its pods are deleted and others are created.
//! All later figures are of the new pods, which no dictionary has seen.

use std::io::Write;

use anyhow::Result;

use super::client::{Client, Figures, Side, Variant, own_cpu};
use super::data::Data;
use super::replay::Replay;
use super::report::{Better, Line};
use super::{Options, null};

/// The figures of one run of one side.
struct Outcome {
    sync: Figures,
    synced: Figures,
    replaced: Figures,
    updates: Figures,
    updated: Figures,
    read: Figures,
    reads: Vec<(&'static str, Figures)>,
    /// Processor seconds of the server while it sent the first state and the updates.
    server: [f64; 2],
}

const VARIANTS: &[Variant] = &[
    Variant { name: "setpoint", side: Side::Setpoint, words: &[] },
    Variant { name: "client-go", side: Side::ClientGo, words: &[] },
    Variant { name: "client-go-stripped", side: Side::ClientGo, words: &["-strip"] },
    Variant {
        name: "client-go-protobuf",
        side: Side::ClientGo,
        words: &["-form", "application/vnd.kubernetes.protobuf"],
    },
    Variant { name: "kube-runtime", side: Side::KubeRuntime, words: &[] },
    Variant { name: "kube-runtime-stripped", side: Side::KubeRuntime, words: &["--strip"] },
    Variant { name: "kube-runtime-streaming", side: Side::KubeRuntime, words: &["--streaming"] },
];

const READS: [&str; 5] = ["get_cold", "get_warm", "list_cold", "list_warm", "select"];

pub fn run(options: &Options) -> Result<()> {
    let server = Replay::start(Data::new(options.pods))?;
    null::run(&server)?;
    let mut outcomes = Vec::new();
    for variant in VARIANTS {
        let outcome = measure(options, &server, variant)?;
        tell(variant, &outcome, options.pods);
        outcomes.push((variant.name, outcome));
    }
    let find = |name: &str| &outcomes.iter().find(|(own, _)| *own == name).expect("every variant ran").1;
    report(options.pods as f64, &find);
    Ok(())
}

fn measure(options: &Options, server: &Replay, variant: &Variant) -> Result<Outcome> {
    let form = if variant.name.ends_with("protobuf") {
        super::data::Form::Protobuf
    } else {
        super::data::Form::Json
    };
    let data = server.data();
    // Built before it is needed.
    data.initial(form);
    server.reset();
    let flags = [("server", server.url()), ("pods", options.pods.to_string())];
    let mut client = variant.side.start(options, "informer", &flags, variant.words)?;
    client.expect("ready")?;
    let before = own_cpu()?;
    client.go()?;
    let sync = client.expect("synced")?;
    let sent = own_cpu()? - before;
    let synced = client.expect("settled")?;
    let (mut watcher, _) = server.watcher()?;
    // Their bytes are built while the client waits for its next step.
    let mut round = |client: &mut Client, step: &str, bytes: Vec<u8>| -> Result<(Figures, f64)> {
        client.go()?;
        client.expect("armed")?;
        let before = own_cpu()?;
        watcher.write_all(&bytes)?;
        let figures = client.expect(step)?;
        Ok((figures, own_cpu()? - before))
    };
    round(&mut client, "replaced", data.replacement(form))?;
    let replaced = client.expect("settled")?;
    let (updates, updating) = round(&mut client, "updated", data.updates(form, 1))?;
    let updated = client.expect("settled")?;
    let (read, _) = round(&mut client, "read", data.updates(form, 2))?;
    let reads = READS.iter().map(|step| Ok((*step, client.expect(step)?))).collect::<Result<_>>()?;
    client.finish()?;
    Ok(Outcome { sync, synced, replaced, updates, updated, read, reads, server: [sent, updating] })
}

/// Prints all figures of one side.
fn tell(variant: &Variant, outcome: &Outcome, pods: u64) {
    let pods = pods as f64;
    println!(
        "side={} sync_seconds={:.3} sync_cpu={:.2} server_cpu={:.2} settle_cpu={:.2} rss_of_first_pods={:.0} peak_per_pod={:.0} rss_per_pod={:.0} updates_seconds={:.3} updates_cpu={:.2} server_cpu={:.2} rss_after_updates={:.0} read_seconds={:.3} read_cpu={:.2} counted_per_pod={:.0}",
        variant.name,
        outcome.sync["seconds"],
        outcome.sync["cpu"],
        outcome.server[0],
        outcome.synced["cpu"],
        outcome.synced["rss"] / pods,
        outcome.synced["peak"] / pods,
        outcome.replaced["rss"] / pods,
        outcome.updates["seconds"],
        outcome.updates["cpu"],
        outcome.server[1],
        outcome.updated["rss"] / pods,
        outcome.read["seconds"],
        outcome.read["cpu"],
        outcome.updated.get("counted").copied().unwrap_or_default() / pods,
    );
}

fn report<'a>(pods: f64, find: &impl Fn(&str) -> &'a Outcome) {
    let rate = |figures: &Figures| pods / figures["seconds"];
    let share = |figures: &Figures, name: &str| figures[name] / pods;
    type Value<'a> = &'a dyn Fn(&Outcome) -> f64;
    let cases: [(&str, &str, Better, Value<'_>); 7] = [
        ("first_sync", "objects/s", Better::More, &|outcome| rate(&outcome.sync)),
        ("updates", "events/s", Better::More, &|outcome| rate(&outcome.updates)),
        ("updates_with_typed_read", "events/s", Better::More, &|outcome| rate(&outcome.read)),
        ("memory_after_sync", "bytes/pod", Better::Less, &|outcome| share(&outcome.replaced, "rss")),
        ("memory_of_first_pods", "bytes/pod", Better::Less, &|outcome| share(&outcome.synced, "rss")),
        ("memory_after_updates", "bytes/pod", Better::Less, &|outcome| share(&outcome.updated, "rss")),
        ("memory_peak_of_sync", "bytes/pod", Better::Less, &|outcome| share(&outcome.synced, "peak")),
    ];
    for (case, unit, better, value) in cases {
        lines(case, unit, better, &|name| value(find(name)));
    }
    for (index, step) in READS.iter().enumerate() {
        let figures: &[&str] = if step.starts_with("get") { &["p50", "p99"] } else { &["nanos"] };
        for figure in figures {
            let case = if figure.starts_with('p') { format!("{step}_{figure}") } else { (*step).to_owned() };
            lines(&case, "microseconds", Better::Less, &|name| find(name).reads[index].1[*figure] / 1e3);
        }
    }
}

/// One case, and like for like: managedFields stripped on every side, as Setpoint never keeps them.
fn lines(case: &str, unit: &str, better: Better, value: &dyn Fn(&str) -> f64) {
    let own = value("setpoint");
    Line::new(case, unit, better, own)
        .against("client-go", Some(value("client-go")))
        .against("kube-runtime", Some(value("kube-runtime")))
        .beside("client-go-protobuf", value("client-go-protobuf"))
        .beside("kube-runtime-streaming", value("kube-runtime-streaming"))
        .print();
    Line::new(&format!("{case}_without_managed_fields"), unit, better, own)
        .against("client-go", Some(value("client-go-stripped")))
        .against("kube-runtime", Some(value("kube-runtime-stripped")))
        .print();
}
