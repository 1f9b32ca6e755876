//! A program's own measurements (time, memory), and its pauses until the benchmark lets it go on.

use std::fs::read_to_string;
use std::io::{Write, stdin, stdout};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Clock ticks per second of `/proc`, the same on every Linux.
const TICKS: f64 = 100.0;

/// Says a line and sees to it that it arrives.
pub fn say(line: &str) -> Result<()> {
    let mut out = stdout();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

/// Waits until the benchmark says to go on.
pub fn wait_for_go() -> Result<()> {
    let mut line = String::new();
    stdin().read_line(&mut line)?;
    Ok(())
}

/// A stretch of work, by the clock and by the processors' time of all threads.
pub struct Stopwatch {
    begun: Instant,
    cpu: f64,
}

impl Stopwatch {
    pub fn start() -> Result<Self> {
        Ok(Stopwatch { begun: Instant::now(), cpu: cpu()? })
    }

    /// `seconds=… cpu=…`.
    pub fn read(&self) -> Result<String> {
        let seconds = self.begun.elapsed().as_secs_f64();
        Ok(format!("seconds={seconds:.6} cpu={:.2}", cpu()? - self.cpu))
    }
}

/// Seconds that all threads of this process have been on a processor.
pub fn cpu() -> Result<f64> {
    let stat = read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').context("a process has a name")?.1;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / TICKS)
}

/// Bytes of a line of `/proc/self/status`: `VmRSS` now, `VmHWM` at most.
pub fn memory(name: &str) -> Result<u64> {
    let status = read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(name)).context("the system tells the memory")?;
    let kibibytes: u64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
    Ok(kibibytes * 1024)
}

/// Returns `rss=… peak=…`: the present and the peak memory, above `before`.
pub fn weigh(before: u64) -> Result<String> {
    Ok(format!("rss={} peak={}", memory("VmRSS")? - before, memory("VmHWM")? - before))
}

/// `NAME p50=… p99=…` in nanoseconds.
pub fn percentiles(name: &str, mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_nanos();
    format!("{name} p50={} p99={}", at(0.5), at(0.99))
}
