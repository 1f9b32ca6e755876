//! `--detach`: the same command in a process of its own, which outlives the terminal.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Seek};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::steps;
use crate::named::{DEFAULT_NAME, Named, State};
use crate::output::say;

/// Starts the process and waits until it is ready.
pub fn start(named: &Named) -> Result<()> {
    // Its log must not be emptied under a cluster that runs.
    if let State::Running(_) = named.state()? {
        drop(named.claim()?);
    }
    let mut log = named.create_log()?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(flags(std::env::args_os().skip(1)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.try_clone()?)
        .spawn()
        .context("cannot start the cluster's process")?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    if line.is_empty() {
        let ended = child.wait()?;
        let mut said = String::new();
        log.rewind()?;
        log.read_to_string(&mut said)?;
        let said = said.trim().trim_start_matches("setpoint: ");
        bail!(
            "{}",
            if said.is_empty() { format!("the cluster's process ended with {ended}") } else { said.into() }
        );
    }
    let name = named.name.to_string();
    let word = if name == DEFAULT_NAME { String::new() } else { format!(" {name}") };
    say(line.trim_end());
    say(&steps::background(&named.running()?.kubeconfig, &word));
    say(&format!("Its log is {}.", named.log().display()));
    Ok(())
}

/// The flags of the process in the background: the same, but one.
fn flags(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    given.map(|flag| if flag == "--detach" { "--in-background".into() } else { flag }).collect()
}

/// Makes a session of its own, so that the terminal's end and its Ctrl-C do not reach this process.
pub fn leave_terminal() {
    // Fails only if the process leads a group already, and then it has no terminal to leave.
    let _ = nix::unistd::setsid();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_in_the_background_gets_the_same_flags() {
        let given = ["up", "--detach", "--nodes", "2"].map(OsString::from);
        assert_eq!(flags(given.into_iter()), ["up", "--in-background", "--nodes", "2"]);
    }
}
