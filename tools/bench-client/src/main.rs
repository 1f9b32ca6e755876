//! Setpoint's side of `cargo xtask bench runtime`; the peers' sides are in `peers/`. Every side does the same work,
//! speaks the same lines on its standard output and waits for a line on its standard input between the steps.

// A program that measures: it reads the machine's clock and its own arguments.
#![allow(clippy::disallowed_methods)]

mod informer;
mod latency;
mod operator;
mod queue;
mod process;

use anyhow::{Context, Result, bail};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The arguments of the benchmark.
pub struct Arguments(Vec<String>);

impl Arguments {
    pub fn value(&self, name: &str) -> Result<&str> {
        let place = self.0.iter().position(|word| word == name);
        let value = place.and_then(|place| self.0.get(place + 1));
        value.map(String::as_str).with_context(|| format!("{name} is missing"))
    }

    pub fn number(&self, name: &str) -> Result<u64> {
        Ok(self.value(name)?.parse()?)
    }
}

fn main() -> Result<()> {
    let arguments = Arguments(std::env::args().skip(1).collect());
    match arguments.0.first().map(String::as_str) {
        Some("informer") => informer::run(&arguments),
        Some("queue") => queue::run(&arguments),
        Some("latency") => latency::run(&arguments),
        Some("operator") => operator::run(&arguments),
        _ => bail!("usage: setpoint-bench-client informer|queue|latency|operator …"),
    }
}
