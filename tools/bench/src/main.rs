//! Benchmarks beside the peers in one run (`cargo xtask bench NAME`), and what else needs a load: `cargo xtask soak
//! kill`. A program that prints figures, not a test.

// A command line: it reads the environment and starts processes.
#![allow(clippy::disallowed_methods)]

mod apiserver;
mod controllers;
mod growth;
mod kill;
mod pair;
mod runtime;
mod server;
mod watch;
mod load;
mod connection;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match words.first().map(String::as_str) {
        Some("apiserver") => runtime.block_on(apiserver::run(&words[1..])),
        Some("controllers") => runtime.block_on(controllers::run(&words[1..])),
        Some("growth") => growth::run(),
        Some("runtime") => runtime::run(&words[1..]),
        Some("kill") => runtime.block_on(kill::run(&words[1..])),
        _ => bail!("usage: setpoint-bench apiserver|controllers|growth|runtime|kill [FLAGS]"),
    }
}
