//! A `setpoint up` of our own, and kubectl against it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::proxy::PAUSE;

/// A running `setpoint up`; killed when dropped.
pub struct Cluster {
    child: Child,
    /// Its own folder, which is also its working folder.
    pub folder: tempfile::TempDir,
    /// The first line that it printed.
    pub ready: String,
    /// Held, so that whatever else it prints has a reader.
    output: BufReader<ChildStdout>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Cluster {
    /// Starts it on a free port with more flags, and waits for its ready line.
    pub fn start(setpoint: &Path, flags: &[&str]) -> Result<Cluster> {
        Cluster::start_in(setpoint, super::folder::new()?, flags)
    }

    /// The same in a folder that was used before.
    pub fn start_in(setpoint: &Path, folder: tempfile::TempDir, flags: &[&str]) -> Result<Cluster> {
        let log = std::fs::File::create(folder.path().join("stderr.log"))?;
        let port: &[&str] = if flags.contains(&"--port") { &[] } else { &["--port", "0"] };
        let mut child = Command::new(setpoint)
            .current_dir(folder.path())
            .args(["up", "--kubeconfig", "k.yaml"])
            .args(port)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("cannot start setpoint")?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?);
        let mut ready = String::new();
        lines.read_line(&mut ready)?;
        let cluster = Cluster { child, folder, ready, output: lines };
        ensure!(
            cluster.ready.starts_with("ready https://127.0.0.1:"),
            "setpoint said {:?}: {}",
            cluster.ready,
            cluster.errors()
        );
        Ok(cluster)
    }

    /// The next line of its output that contains this; waits for it.
    pub fn line_with(&mut self, wanted: &str) -> Result<String> {
        loop {
            let mut line = String::new();
            ensure!(
                self.output.read_line(&mut line)? > 0,
                "setpoint never said {wanted:?}: {}",
                self.errors()
            );
            if line.contains(wanted) {
                return Ok(line.trim_end().to_owned());
            }
            // It goes on running without them.
            ensure!(!line.contains("are not healthy after"), "{}: {}", line.trim_end(), self.errors());
        }
    }

    /// Its kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("k.yaml")
    }

    /// Returns its standard error.
    pub fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr.log")).unwrap_or_default()
    }

    /// Ends it as `kill -9` does and gives its folder back.
    pub fn kill(mut self) -> Result<tempfile::TempDir> {
        self.child.kill()?;
        self.child.wait()?;
        let empty = super::folder::new()?;
        Ok(std::mem::replace(&mut self.folder, empty))
    }

    /// Ends it in order, as Ctrl-C does, and gives its folder back.
    pub fn terminate(mut self) -> Result<tempfile::TempDir> {
        let sent = Command::new("kill").arg(self.pid().to_string()).status().context("kill")?;
        ensure!(sent.success(), "kill ended with {sent}");
        let ended = self.child.wait()?;
        ensure!(ended.success(), "setpoint ended with {ended}: {}", self.errors());
        let empty = super::folder::new()?;
        Ok(std::mem::replace(&mut self.folder, empty))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// kubectl against this cluster.
    pub fn kubectl(&self, program: &Path) -> Kubectl {
        Kubectl::on(program, &self.kubeconfig())
    }
}

/// kubectl with a kubeconfig, in that file's folder.
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    folder: PathBuf,
    spdy: bool,
}

impl Kubectl {
    /// With the file `k.yaml` of this folder as its kubeconfig.
    pub fn new(program: &Path, folder: &Path) -> Kubectl {
        Kubectl::on(program, &folder.join("k.yaml"))
    }

    /// On any cluster.
    pub fn on(program: &Path, kubeconfig: &Path) -> Kubectl {
        let folder = kubeconfig.parent().unwrap_or(Path::new("/")).to_path_buf();
        Kubectl { program: program.to_path_buf(), kubeconfig: kubeconfig.to_path_buf(), folder, spdy: false }
    }

    /// The same, but exec, attach and port-forward speak SPDY/3.1 and not websocket.
    pub fn over_spdy(self) -> Kubectl {
        Kubectl { spdy: true, ..self }
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).arg("--kubeconfig").arg(&self.kubeconfig);
        // Discovery is cached per host and port, and ports come again.
        command.arg("--cache-dir").arg(self.folder.join("cache")).args(words);
        if self.spdy {
            command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
            command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false");
        }
        command
    }

    fn output(&self, words: &[&str], input: Option<&str>) -> Result<Output> {
        use std::io::Write;
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut pipe = child.stdin.take().context("no input")?;
        pipe.write_all(input.unwrap_or_default().as_bytes())?;
        drop(pipe);
        Ok(child.wait_with_output()?)
    }

    /// Must succeed; gives its output.
    pub fn ok(&self, words: &[&str]) -> Result<String> {
        self.feed(words, None)
    }

    /// The same with something on its standard input.
    pub fn feed(&self, words: &[&str], input: Option<&str>) -> Result<String> {
        let output = self.output(words, input)?;
        if !output.status.success() {
            bail!("kubectl {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Must succeed and print this.
    pub fn prints(&self, words: &[&str], wanted: &str) -> Result<()> {
        let output = self.ok(words)?;
        ensure!(output.contains(wanted), "kubectl {}: no {wanted:?} in:\n{output}", words.join(" "));
        Ok(())
    }

    /// Must fail, and say this.
    pub fn refused(&self, words: &[&str], input: Option<&str>, wanted: &str) -> Result<()> {
        let output = self.output(words, input)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success(), "kubectl {} succeeded", words.join(" "));
        ensure!(said.contains(wanted), "kubectl {}: no {wanted:?} in:\n{said}", words.join(" "));
        Ok(())
    }

    /// Must come to print this before the deadline.
    pub fn comes_to_print(&self, words: &[&str], wanted: &str, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        loop {
            let output = self.output(words, None)?;
            let printed = String::from_utf8_lossy(&output.stdout);
            if printed.contains(wanted) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "kubectl {}: no {wanted:?} after {} s in:\n{printed}{}",
                    words.join(" "),
                    within.as_secs(),
                    String::from_utf8_lossy(&output.stderr)
                );
            }
            std::thread::sleep(PAUSE);
        }
    }
}
