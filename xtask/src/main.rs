//! Automation: `cargo xtask NAME`. Small on purpose: what links a TLS stack is a tool of its own in `tools/`.

// This is a command line: it reads the environment.
#![allow(clippy::disallowed_methods)]

mod ci;
mod bench;
mod schema;
mod soak;
mod tidy;
mod wire;
mod flakes;
mod flags;
mod e2e;
mod rollout;
mod run;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask COMMAND

  ci [STAGE...]     the gate, which `.ci/run` calls: format, clippy, tidy, docs, tests, libraries, licences, packages, e2e
  tidy [--lower|--layers]
                    check the rules that the compiler does not know (also part of cargo test); record the counts that
                    have fallen; print the imports that go up
  e2e [--all|PART...] [--debug]
                    what needs kubectl, the Go peers or a browser: the gate's parts, on what the tests built; all parts,
                    or named ones, in release (with --debug as the gate does)
  soak [crash N|store-kill N|kill [--times N] [--seed S]|watch [--seeds N]]
                    long runs: a disk that loses what was not synced; the store's writer, or the whole server, killed
                    while it is written to; a server that misbehaves toward the runtime's caches
  soak rollout [--times N] [--seed S]
                    controllers that are killed in the middle of a rollout
  soak steady [N]   N objects of each example operator at rest for a minute: nothing may be asked
  soak flakes [--times N] [--only NAME]
                    every test program 50 times and every part of the gate 5 times on loaded cores; goes on where it was
  soak oldest       the runtime's scenarios on kube-apiserver 1.32, which is built from its Go module first
  soak controller-runtime
                    every suite of controller-runtime that needs no webhooks, on setpoint assets
  bench apiserver [--objects N] [--pods N] [--watchers N] [--alone]
  bench controllers [--only CASE] [--alone]
  bench runtime [--only informer,queue,latency,operator] [--pods N]
                    ours beside the peers; `--alone` leaves the peers out
  bench growth      what the algorithms over a request body take for ten times as much of it
  advisories --database FOLDER
                    known vulnerabilities of our dependencies, from a clone of the RustSec database, without network
  peers             build kube-apiserver, kube-controller-manager, kubectl and etcd into the cache folder
  schema            generate the table of built-in kinds from the Go modules of Kubernetes (needs Go)
  wire record|verify|replay [--only FILE]
                    the real server's answers: record them, ask it again, ask ours
  wire fuzz [--seconds N] [--seed S] [--keep-going]
                    random requests to both: stops at the first difference, or lists every distinct one
  wire policy       the roles and bindings that a fresh kube-apiserver has, as ours begins with them
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&words) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(words: &[String]) -> Result<u8> {
    if let [name, rest @ ..] = words
        && name == "e2e-part"
    {
        // Not a command of people either.
        return e2e::part(rest);
    }
    command(words).map(|()| 0)
}

fn command(words: &[String]) -> Result<()> {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return Ok(());
    }
    match words.first().map(String::as_str) {
        Some("ci") => ci::run(&words[1..]),
        Some("advisories") => ci::advisories(&words[1..]),
        Some("tidy") => tidy::run(&words[1..]),
        Some("e2e") => e2e::run(&words[1..]),
        // Not a command of people: what runs in the pods of the part `pods`.
        Some("e2e-echo") => e2e::pods::echo(),
        Some("soak") => soak::run(&words[1..]),
        Some("bench") => bench::run(&words[1..]),
        Some("peers") => {
            setpoint_peers::build_all().map(|folder| println!("peers are in {}", folder.display()))
        }
        Some("wire") => wire::run(&words[1..]),
        Some("schema") => schema::generate(),
        Some("help") | None => {
            print!("{HELP}");
            Ok(())
        }
        Some(other) => bail!("no command `{other}`\n\n{HELP}"),
    }
}
