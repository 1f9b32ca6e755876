//! `setpoint-attacks --setpoint PROGRAM [--only ITEM|CASE] [--alone] [--list]`: see `cargo xtask e2e attacks`.

// This is a command line: it reads its words and waits for children in real time.
#![allow(clippy::disallowed_methods)]

mod table;
mod start;
mod code;
mod run;
mod load;
mod socket;
mod servers;
mod webhook;
mod certificates;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use setpoint_wire::attack::{self, Case, Place};
use setpoint_wire::differences;

use crate::certificates::Certificates;
use crate::run::Played;
use crate::servers::{Server, Starter};
use crate::table::{Row, Verdict};

const HELP: &str = "\
Plays the attack catalogue (testdata/attacks) on our server and on the real kube-apiserver.

  --setpoint PROGRAM  our program
  --only WORD         only the item with this number, or the case with this name
  --alone             without the real server
  --list              print the cases and what they want
";

/// The images of the node: what the pods of attackers may run.
const IMAGES: &str = r#"
[[image]]
pattern = "shell"
trust = "host"
programs.sh = ["/bin/sh"]
programs.cat = ["/bin/cat"]
"#;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| words.iter().any(|word| word == name);
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    if has("--help") {
        print!("{HELP}");
        return Ok(());
    }
    let only = value("--only").map(String::as_str);
    let cases = chosen(only)?;
    if has("--list") {
        for (item, case) in &cases {
            println!("{item:>2} {}: {}", case.id, case.wants);
        }
        return Ok(());
    }
    let setpoint: PathBuf = value("--setpoint").context("--setpoint is missing; see --help")?.into();
    let setpoint = setpoint.canonicalize().with_context(|| setpoint.display().to_string())?;
    let certificates = Arc::new(Certificates::generate()?);
    let webhook = webhook::Webhook::start(&certificates).await?;
    let starter = Starter { setpoint, certificates, known: webhook.known.clone() };
    // On a signal, end the servers: they are child processes and would stay.
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        biased;
        _ = terminated.recv() => bail!("terminated"),
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        ended = Box::pin(play(&starter, cases, !has("--alone"))) => ended,
    }
}

/// The cases that are asked for, with the number of their item.
fn chosen(only: Option<&str>) -> Result<Vec<(u8, Case)>> {
    let wanted = |item: u8, case: &Case| only.is_none_or(|word| word == item.to_string() || word == case.id);
    let mut cases = Vec::new();
    for item in attack::load()? {
        let number = item.item;
        cases.extend(item.cases.into_iter().filter(|case| wanted(number, case)).map(|case| (number, case)));
    }
    if cases.is_empty() {
        bail!("no item or case {:?}; --list prints them", only.unwrap_or_default());
    }
    Ok(cases)
}

/// The servers of a run. Each is started when the first case needs it.
struct Arena<'a> {
    starter: &'a Starter,
    ours: Option<Server>,
    real: Option<Server>,
    up: Option<Server>,
}

async fn play(starter: &Starter, cases: Vec<(u8, Case)>, with_real: bool) -> Result<()> {
    let kept = differences::kept()?;
    let mut arena = Arena { starter, ours: None, real: None, up: None };
    let mut rows = Vec::new();
    for (item, case) in cases {
        let (ours, real) = match Box::pin(arena.case(&case, with_real)).await {
            Ok(played) => played,
            Err(error) => {
                let broken = vec![format!("{error:#}")];
                (Played { broken, ..Played::default() }, None)
            }
        };
        let row = Row::new(item, &case, &ours, real.as_ref(), &kept);
        row.print();
        // After a broken case a server may be in any state.
        if row.verdict == Verdict::Broken {
            arena.ours = None;
        }
        rows.push(row);
    }
    table::summary(&rows)
}

impl Arena<'_> {
    async fn case(&mut self, case: &Case, with_real: bool) -> Result<(Played, Option<Played>)> {
        let starter = self.starter;
        match case.place {
            Place::Wire | Place::Tls | Place::Code => {
                let ours = on(self.ours().await?, case).await?;
                let real = if with_real { Some(on(self.real().await?, case).await?) } else { None };
                Ok((ours, real))
            }
            Place::Ours => Ok((on(self.ours().await?, case).await?, None)),
            Place::Node => {
                if self.up.is_none() {
                    self.up = Some(starter.up(IMAGES).await?);
                }
                let up = self.up.as_mut().expect("started above");
                Ok((on(up, case).await?, None))
            }
            Place::Start => start::play(starter, case, with_real).await,
        }
    }

    async fn ours(&mut self) -> Result<&mut Server> {
        if self.ours.is_none() {
            self.ours = Some(self.starter.ours(&["--authorization-mode=RBAC".to_owned()]).await?);
        }
        Ok(self.ours.as_mut().expect("started above"))
    }

    async fn real(&mut self) -> Result<&mut Server> {
        if self.real.is_none() {
            self.real = Some(self.starter.real().await?);
        }
        Ok(self.real.as_mut().expect("started above"))
    }
}

/// Code or steps.
async fn on(server: &mut Server, case: &Case) -> Result<Played> {
    match code::find(&case.id) {
        Some(code) => {
            let mut played = code(server).await?;
            if !server.runs()? {
                played.broken.push("the process ended".to_owned());
            }
            Ok(played)
        }
        None => run::steps(server, case).await,
    }
}
