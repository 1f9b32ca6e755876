//! kube-runtime's side of `cargo xtask bench runtime`: the same work, the same lines, the same steps as
//! tools/bench-client.

mod informer;
mod latency;
// Both sides are timed and weighed by the same code.
#[path = "../../../tools/bench-client/src/process.rs"]
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

    pub fn flag(&self, name: &str) -> bool {
        self.0.iter().any(|word| word == name)
    }
}

fn main() -> Result<()> {
    let arguments = Arguments(std::env::args().skip(1).collect());
    match arguments.0.first().map(String::as_str) {
        Some("informer") => informer::run(&arguments),
        Some("latency") => latency::run(&arguments),
        _ => bail!("usage: kube-runtime-peer informer|latency …"),
    }
}
