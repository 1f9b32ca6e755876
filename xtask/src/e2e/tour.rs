//! Runs the commands of docs/tour.md. Each must print what the page shows, except for ages and addresses.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::Setup;
use super::cluster::Cluster;
use super::proxy::PAUSE;
use crate::run;

/// The block after this line is the tour.
const MARK: &str =
    "<!-- The tour: `cargo xtask e2e tour` runs these commands and compares what they print. -->";
const SOON: Duration = Duration::from_secs(20);

/// A command and its output.
struct Step {
    command: String,
    shown: String,
}

pub fn run(setup: &Setup) -> Result<()> {
    let kubectl = setup.peer("kubectl")?;
    let tour = std::fs::read_to_string(run::root().join("docs/tour.md"))?;
    let steps = steps(&tour)?;
    let mut cluster = Cluster::start(&setup.setpoint, &["--demo"])?;
    cluster.line_with("all healthy")?;
    let shell = Shell::new(&cluster, &kubectl)?;
    for step in &steps {
        if step.command.contains("port-forward") {
            shell.forward(step)?;
        } else if let Some(rest) = step.command.strip_prefix("export ") {
            ensure!(rest == "KUBECONFIG=.setpoint/kubeconfig", "another kubeconfig: {rest}");
        } else {
            shell.prints(step)?;
        }
    }
    println!("tour: {} commands print what the tour shows", steps.len());
    Ok(())
}

/// Reads the console block behind the mark: lines with `$ ` are commands, the others their output.
fn steps(tour: &str) -> Result<Vec<Step>> {
    let (_, rest) = tour.split_once(MARK).context("docs/tour.md has no tour")?;
    let block = rest.split("```").nth(1).context("no block after the mark")?;
    let lines = block.strip_prefix("console\n").context("not a console block")?.lines();
    let mut steps: Vec<Step> = Vec::new();
    for line in lines {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command: command.to_owned(), shown: String::new() }),
            (None, Some(step)) => step.shown += &format!("{line}\n"),
            (None, None) => bail!("output before the first command: {line}"),
        }
    }
    ensure!(steps.len() >= 4, "only {} commands", steps.len());
    Ok(steps)
}

/// The environment of the commands: kubectl on the search path, the kubeconfig where the tour names it.
struct Shell {
    folder: std::path::PathBuf,
    path: std::ffi::OsString,
}

impl Shell {
    fn new(cluster: &Cluster, kubectl: &Path) -> Result<Shell> {
        let folder = cluster.folder.path().to_path_buf();
        std::fs::create_dir_all(folder.join(".setpoint"))?;
        std::fs::copy(cluster.kubeconfig(), folder.join(".setpoint/kubeconfig"))?;
        let bin = kubectl.parent().context("kubectl without a folder")?.to_path_buf();
        let old = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&old)))?;
        Ok(Shell { folder, path })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.folder);
        command.env("PATH", &self.path).env("KUBECONFIG", ".setpoint/kubeconfig");
        command.env("KUBECACHEDIR", self.folder.join("cache")).stdin(Stdio::null());
        command
    }

    fn prints(&self, step: &Step) -> Result<()> {
        let wanted = normalised(&step.shown);
        let deadline = Instant::now() + SOON;
        loop {
            let printed = run::read(&mut self.command(&step.command))?;
            if normalised(&printed) == wanted {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "$ {}\nthe tour shows:\n{}\nprinted is:\n{printed}",
                step.command,
                step.shown
            );
            std::thread::sleep(PAUSE);
        }
    }

    /// Runs beside: says where it forwards, and the page is there.
    fn forward(&self, step: &Step) -> Result<()> {
        let log = self.folder.join("tour-forward.log");
        let file = std::fs::File::create(&log)?;
        // A free port: the port in the tour may be taken on this machine.
        let line = format!("exec {}", step.command.replace(" 3000:", " :"));
        let mut forward = Killed(self.command(&line).stdout(file.try_clone()?).stderr(file).spawn()?);
        let deadline = Instant::now() + SOON;
        let port = loop {
            let said = std::fs::read_to_string(&log)?;
            let port = said
                .split_once("127.0.0.1:")
                .and_then(|(_, rest)| rest.split(' ').next()?.parse::<u16>().ok());
            if let Some(port) = port {
                break port;
            }
            if let Some(status) = forward.0.try_wait()? {
                bail!("$ {}: {status}: {said}", step.command);
            }
            ensure!(Instant::now() < deadline, "$ {} does not listen", step.command);
            std::thread::sleep(PAUSE);
        };
        let said = std::fs::read_to_string(&log)?.replace(&port.to_string(), "3000");
        let first = step.shown.lines().next().unwrap_or_default();
        ensure!(said.contains(first), "$ {}\nthe tour shows:\n{first}\nprinted is:\n{said}", step.command);
        let page = super::browser::fetch(port, "/")?;
        ensure!(page.contains("Page 1") && page.contains("<li>one</li>"), "not the rendered page: {page}");
        Ok(())
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Words of each line, with ages and addresses as one word each: columns are as wide as their longest value.
fn normalised(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().map(|line| line.split_whitespace().map(word).collect::<Vec<_>>());
    let mut lines: Vec<Vec<String>> = lines.collect();
    while lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    lines
}

fn word(word: &str) -> String {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = word.split('.').count() == 4 && word.split('.').all(digits);
    let is_age = word.ends_with(['s', 'm', 'h', 'd'])
        && word.split(['s', 'm', 'h', 'd']).filter(|part| !part.is_empty()).all(digits)
        && word.starts_with(|first: char| first.is_ascii_digit());
    match () {
        () if is_address => "ADDRESS".to_owned(),
        () if is_age => "AGE".to_owned(),
        () => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_addresses_are_the_same_and_nothing_else_is() {
        assert_eq!(normalised("a  10.96.0.1   5s\n"), normalised("a 10.96.3.4 2m10s\n\n"));
        assert_ne!(normalised("1/1"), normalised("0/1"));
        assert_ne!(normalised("Healthy"), normalised("NotReady"));
    }

    #[test]
    fn a_block_becomes_commands_with_what_they_print() {
        let text = format!("text\n{MARK}\n```console\n$ a\nx\ny\n$ b\n$ c\n$ d\nz\n```\n$ no\n");
        let steps = steps(&text).unwrap();
        assert_eq!(steps.len(), 4);
        assert_eq!((steps[0].command.as_str(), steps[0].shown.as_str()), ("a", "x\ny\n"));
    }
}
