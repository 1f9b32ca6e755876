//! Automation: `cargo xtask NAME`. Small on purpose: what links a TLS stack is a tool of its own in `tools/`.

// This is a command line: it reads the environment.
#![allow(clippy::disallowed_methods)]

mod ci;
mod schema;
mod soak;
mod bench;
mod tidy;
mod wire;
mod flakes;
mod dist;
mod e2e;
mod flags;
mod packages;
mod run;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask COMMAND

  ci [STAGE...]     run the gate, which `.ci/run` calls: format, clippy, tidy, docs, tests, libraries, licences,
                    packages, e2e
  tidy [--lower|--layers]
                    check the rules that the compiler does not know (also part of cargo test)
                    --lower records counts that have fallen, --layers prints imports that go up
  e2e [--all|PART...] [--debug]
                    run the parts that need kubectl, the Go peers or a browser: without words the gate's parts, on the
                    programs that the tests built; with --all every part, or the named ones, in release mode
                    --debug uses the programs that the tests built
  e2e attacks [--only ITEM|CASE] [--alone] [--list] [--debug]
                    play the attack catalogue on our server and on the real one, and print a table: case, ours, real,
                    verdict. --only takes an item's number or a case, --alone leaves the real server out, --list
                    prints what each case wants
  dist              build what users of this platform install into target/dist: the stripped binary, its checksum, its list
                    of packages (CycloneDX), the Python wheel and the npm package
  soak [crash N|store-kill N|kill [--times N] [--seed S]|watch [--seeds N]]
                    long runs: a disk that loses unsynced data (crash); kills of the store's writer (store-kill) or of
                    the server (kill) while it is written to; a misbehaving server before the runtime's caches (watch)
  soak rollout [--times N] [--seed S]
                    kill the controllers in the middle of a rollout
  soak steady [N]   leave N objects of each example operator at rest for a minute: no request may be sent
  soak flakes [--times N] [--only NAME]
                    run every test program 50 times and every gate part 5 times on loaded cores; NAME is a part of a
                    name: `store`, `store it`, `e2e kubectl`. A soak that was stopped goes on where it was, and a
                    program that was built anew begins at zero. target/flakes/ keeps the output of failures
  soak prove [RUNS] prove the sound seeded operator, seed after seed: no finding may come
  soak oldest       run the runtime's scenarios on kube-apiserver 1.32, which is built from its Go module first
  soak controller-runtime
                    run every suite of controller-runtime without webhooks on `setpoint assets`
  bench apiserver [--objects N] [--pods N] [--watchers N] [--alone]
  bench controllers [--only CASE] [--alone]
  bench runtime [--only informer,queue,latency,operator] [--pods N]
                    compare Setpoint with its peers; --alone leaves the peers out
  bench growth      measure how the algorithms over a request body grow with a body ten times as large
  advisories --database FOLDER
                    list known vulnerabilities of our dependencies, from a clone of the RustSec database, offline
  peers             build kube-apiserver, kube-controller-manager, kubectl and etcd into the cache folder
  schema            generate the table of built-in kinds from the Go modules of Kubernetes (needs Go)
  wire record|verify|replay [--only FILE]
                    record the real server's answers, ask the real server again, or ask our server
  wire fuzz [--seconds N] [--seed S] [--keep-going]
                    send random requests to both servers; stop at the first difference, or list every distinct one
  wire policy       record the initial roles and bindings of a fresh kube-apiserver
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
        Some("dist") => dist::run(&words[1..]),
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
