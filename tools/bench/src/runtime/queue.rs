//! Work queues: one producer, four workers, until every key is done.

use anyhow::Result;

use super::Options;
use super::client::{Figures, Side};
use super::report::{Better, Line};

/// Items per case, so that few keys are measured long enough too.
const ITEMS: u64 = 4_000_000;
/// Variants that only our queue has: with the times of every key measured, as in a controller, and the pure core.
const OURS: [&str; 5] = ["measured", "core", "core_by_text", "core_fair", "core_fair_by_text"];

pub fn run(options: &Options) -> Result<()> {
    for keys in [1_000, 1_000_000] {
        let theirs = run_side(options, Side::ClientGo, keys, &[])?;
        let ours = run_side(options, Side::Setpoint, keys, &OURS)?;
        Line::new(&format!("queue_4_workers_{keys}_keys"), "items/s", Better::More, ours[0]["per_second"])
            .against("client-go", Some(theirs[0]["per_second"]))
            .print();
        for (name, figures) in OURS.iter().zip(&ours[1..]) {
            Line::new(&format!("queue_{name}_{keys}_keys"), "items/s", Better::More, figures["per_second"])
                .print();
        }
    }
    Ok(())
}

fn run_side(options: &Options, side: Side, keys: u64, more: &[&str]) -> Result<Vec<Figures>> {
    let flags = [("keys", keys.to_string()), ("items", ITEMS.to_string())];
    let mut client = side.start(options, "queue", &flags, &[])?;
    let figures = std::iter::once(&"shell").chain(more).map(|step| client.expect(step)).collect();
    client.finish()?;
    figures
}
