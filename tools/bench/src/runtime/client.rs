//! One side of a comparison: a program that says lines and waits for leave to go on.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Options;

/// The programs that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Setpoint,
    ClientGo,
    ControllerRuntime,
    KubeRuntime,
}

impl Side {
    fn program(self) -> &'static str {
        match self {
            Side::Setpoint => "setpoint",
            Side::ClientGo => "client-go",
            Side::ControllerRuntime => "controller-runtime",
            Side::KubeRuntime => "kube-runtime",
        }
    }

    /// The prefix of this program's flags.
    fn dash(self) -> &'static str {
        match self {
            Side::ClientGo | Side::ControllerRuntime => "-",
            Side::Setpoint | Side::KubeRuntime => "--",
        }
    }

    /// Starts this side's program: its task, its mode, and its own extra words.
    pub fn start(
        self,
        options: &Options,
        case: &str,
        flags: &[(&str, String)],
        words: &[&str],
    ) -> Result<Client> {
        let (program, dash) = (self.program(), self.dash());
        let flags = flags.iter().flat_map(|(name, value)| [format!("{dash}{name}"), value.clone()]);
        let mut child = Command::new(options.programs.join(program))
            .arg(case)
            .args(flags)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let input = child.stdin.take().context("its input is piped")?;
        let output = BufReader::new(child.stdout.take().context("its output is piped")?);
        Ok(Client { child, input, output, program })
    }
}

/// One way to run one side.
pub struct Variant {
    pub name: &'static str,
    pub side: Side,
    /// Words for this variant only.
    pub words: &'static [&'static str],
}

/// A running side.
pub struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    program: &'static str,
}

/// The figures of one line: `step name=number …`.
pub type Figures = BTreeMap<String, f64>;

impl Client {
    pub fn go(&mut self) -> Result<()> {
        self.input.write_all(b"go\n")?;
        Ok(())
    }

    /// The next line, which must be about `step`.
    pub fn expect(&mut self, step: &str) -> Result<Figures> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let mut words = line.split_whitespace();
        if words.next() != Some(step) {
            bail!("{} said {:?} instead of {step}", self.program, line.trim());
        }
        words
            .map(|word| {
                let (name, value) = word.split_once('=').with_context(|| format!("{word:?} is no figure"))?;
                Ok((name.to_owned(), value.parse()?))
            })
            .collect()
    }

    /// The next line of a list of reconciles, until `end`: `start KEY NANOSECONDS NANOSECONDS`, when one began and when
    /// it had the object that it is about.
    pub fn start_of_reconcile(&mut self) -> Result<Option<(String, [f64; 2])>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["end"] => Ok(None),
            ["start", key, begun, read] => Ok(Some((key.to_owned(), [begun.parse()?, read.parse()?]))),
            _ => bail!("{} said {:?} instead of a start", self.program, line.trim()),
        }
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Result<()> {
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{} ended with {status}", self.program);
        }
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Seconds that this process, which is the server, has been on a processor.
pub fn own_cpu() -> Result<f64> {
    cpu(std::process::id())
}

/// Seconds that a process has been on a processor.
pub fn cpu(process: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields = stat.rsplit_once(')').context("a process has a name")?.1;
    let ticks: Result<f64, _> = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>).sum();
    // The kernel counts in ticks of 10 ms on every Linux that Rust supports.
    Ok(ticks? / 100.0)
}
