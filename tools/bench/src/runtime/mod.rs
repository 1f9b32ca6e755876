//! `cargo xtask bench runtime`: Setpoint's runtime beside client-go, controller-runtime and kube-runtime.
//!
//! Each side is a separate program that does the same work and reports its own measurements. This program serves
//! them, tells them when to go on, and prints one line per case.

mod informer;
mod latency;
mod null;
mod operator;
mod queue;
mod client;
mod replay;
mod data;
mod pods;
mod report;

use std::path::PathBuf;

use anyhow::{Context, Result};

/// The command line.
pub struct Options {
    /// The folder of the programs: `setpoint`, `client-go`, `controller-runtime`, `kube-runtime`.
    programs: PathBuf,
    pods: u64,
    only: Option<String>,
}

impl Options {
    fn parse(words: &[String]) -> Result<Self> {
        let value = |name: &str| {
            let place = words.iter().position(|word| word == name)?;
            words.get(place + 1).map(String::as_str)
        };
        Ok(Options {
            programs: value("--programs").context("--programs FOLDER is missing")?.into(),
            pods: value("--pods").unwrap_or("50000").parse()?,
            only: value("--only").map(str::to_owned),
        })
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only.split(',').any(|name| name == part))
    }
}

pub fn run(words: &[String]) -> Result<()> {
    let options = Options::parse(words)?;
    if options.wants("informer") {
        informer::run(&options)?;
    }
    if options.wants("queue") {
        queue::run(&options)?;
    }
    if options.wants("latency") {
        latency::run(&options)?;
    }
    if options.wants("operator") {
        operator::run(&options)?;
    }
    Ok(())
}
