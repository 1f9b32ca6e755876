//! Leader election between real processes: one paused past its lease, one killed, client-go's elector in between; on
//! our server and on the real one.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::cluster::{Cluster, Kubectl};
use super::proxy::PAUSE;
use super::{Missing, Setup};
use crate::run;

/// Seconds of the lease, the renew deadline and the retry period: short, so that the part is.
const SHORT: [&str; 3] = ["8", "6", "0.5"];
const SHORT_LEASE: Duration = Duration::from_secs(8);
/// The same for a leader that gives up its lease. No candidate waits for the lease's end: a new leader before that
/// was handed the lease, however busy the machine is.
const LONG: [&str; 3] = ["30", "20", "0.5"];
const LONG_LEASE: Duration = Duration::from_secs(30);
/// Time limit of any step.
const DEADLINE: Duration = Duration::from_secs(40);
const NAME: &str = "setpoint-leader-example";

pub fn run(setup: &Setup) -> Result<()> {
    if run::found("go").is_none() {
        return Err(Missing("go is not on the search path".into()).into());
    }
    let kubectl = setup.peer("kubectl")?;
    let folder = super::folder::new()?;
    let programs = Programs { ours: build_example()?, theirs: build_elector(folder.path())? };
    let real = super::folder::new()?;
    let plane = setup.control_plane(real.path(), &setpoint_peers::Options::default())?;
    std::fs::copy(plane.kubeconfig(), real.path().join("k.yaml"))?;
    let ours = Cluster::start(&setup.setpoint, &["--no-controllers"])?;
    let stages = [
        ("setpoint", Stage::new(&programs, ours.folder.path(), ours.kubectl(&kubectl))),
        ("kube-apiserver", Stage::new(&programs, real.path(), Kubectl::new(&kubectl, real.path()))),
    ];
    // Mostly waiting, so both at a time.
    std::thread::scope(|scope| {
        let plays = stages.map(|(name, stage)| (name, scope.spawn(move || stage.play())));
        for (name, play) in plays {
            play.join().expect("a stage does not panic").with_context(|| format!("on {name}"))?;
        }
        Ok(())
    })
}

struct Programs {
    ours: PathBuf,
    theirs: PathBuf,
}

/// The example `leader`, built as `cargo test --workspace` builds it, so that nothing is built twice.
fn build_example() -> Result<PathBuf> {
    let mut command = run::cargo();
    run::check(command.args(["build", "--quiet", "--workspace", "--example", "leader"]))?;
    let program = run::target_folder().join("debug/examples/leader");
    program.canonicalize().with_context(|| format!("{} was not built", program.display()))
}

fn build_elector(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("elector");
    let mut build = Command::new("go");
    build.current_dir(run::root().join("peers/elector")).env("CGO_ENABLED", "0");
    run::check(build.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg("."))?;
    Ok(program)
}

/// One server and who competes on it.
struct Stage<'a> {
    programs: &'a Programs,
    kubeconfig: PathBuf,
    kubectl: Kubectl,
}

impl<'a> Stage<'a> {
    fn new(programs: &'a Programs, folder: &Path, kubectl: Kubectl) -> Self {
        Stage { programs, kubeconfig: folder.join("k.yaml"), kubectl }
    }

    fn play(&self) -> Result<()> {
        let second = self.paused_past_its_lease()?;
        let third = self.beside_client_go(second)?;
        self.handed_over(third)
    }

    /// One of ours is paused until another leads; when it goes on it does nothing but end.
    fn paused_past_its_lease(&self) -> Result<Candidate> {
        let mut first = self.ours("first", SHORT)?;
        first.says("first wrote 3")?;
        let mut second = self.ours("second", SHORT)?;
        first.says("first wrote 20")?;
        ensure!(second.said().is_empty(), "second did something beside the leader: {:?}", second.said());
        first.signal("STOP")?;
        second.says("second wrote 3")?;
        let before = (self.version("heartbeat-first")?, self.lease()?);
        ensure!(before.1["spec"]["holderIdentity"] == "second", "{}", before.1);
        let said = first.said().len();
        first.signal("CONT")?;
        let status = first.ends()?;
        ensure!(!status.success(), "a leader that lost its lease ended well");
        let after: Vec<String> = first.said().split_off(said);
        let acted = after.iter().any(|line| line.contains(" reconciles ") || line.contains(" wrote "));
        ensure!(!acted, "the resumed process acted: {after:?}");
        ensure!(self.version("heartbeat-first")? == before.0, "the resumed process wrote");
        let lease = self.lease()?;
        for field in ["holderIdentity", "acquireTime", "leaseTransitions"] {
            ensure!(lease["spec"][field] == before.1["spec"][field], "{lease} was {}", before.1);
        }
        Ok(second)
    }

    /// Ours is killed and client-go's takes over; that one is paused and ours takes over.
    fn beside_client_go(&self, mut second: Candidate) -> Result<Candidate> {
        let mut theirs = self.theirs("go", SHORT)?;
        theirs.says("go sees second")?;
        second.signal("KILL")?;
        second.ends()?;
        theirs.says("go leads")?;
        let lease = self.lease()?;
        ensure!(lease["spec"]["holderIdentity"] == "go" && lease["spec"]["leaseTransitions"] == 2, "{lease}");
        let mut third = self.ours("third", LONG)?;
        // client-go renews for longer than a lease lasts: ours respects it.
        let began = Instant::now();
        let mut renewals = vec![lease["spec"]["renewTime"].clone()];
        while began.elapsed() < SHORT_LEASE + Duration::from_secs(1) || renewals.len() < 4 {
            ensure!(began.elapsed() < DEADLINE, "client-go does not renew: {renewals:?}");
            let renewed = self.lease()?["spec"]["renewTime"].clone();
            if renewals.last() != Some(&renewed) {
                renewals.push(renewed);
            }
            std::thread::sleep(PAUSE);
        }
        ensure!(third.said().is_empty(), "third did something beside the leader: {:?}", third.said());
        theirs.signal("STOP")?;
        third.says("third wrote 3")?;
        theirs.signal("CONT")?;
        theirs.says("go stopped leading")?;
        theirs.ends()?;
        let lease = self.lease()?;
        ensure!(
            lease["spec"]["holderIdentity"] == "third" && lease["spec"]["leaseTransitions"] == 3,
            "{lease}"
        );
        Ok(third)
    }

    /// A stopped leader gives up its lease: the next one does not wait for the lease's end.
    fn handed_over(&self, mut third: Candidate) -> Result<()> {
        let mut theirs = self.theirs("gone", LONG)?;
        theirs.says("gone sees third")?;
        third.signal("TERM")?;
        let released = Instant::now();
        ensure!(third.ends()?.success(), "third did not end well: {:?}", third.said());
        theirs.says("gone leads")?;
        ensure!(released.elapsed() < LONG_LEASE, "client-go took over only after {:?}", released.elapsed());
        let mut fourth = self.ours("fourth", LONG)?;
        theirs.signal("INT")?;
        let released = Instant::now();
        fourth.says("fourth wrote 1")?;
        ensure!(released.elapsed() < LONG_LEASE, "ours took over only after {:?}", released.elapsed());
        Ok(())
    }

    fn ours(&self, name: &str, durations: [&str; 3]) -> Result<Candidate> {
        let mut command = Command::new(&self.programs.ours);
        Candidate::start(command.arg(name).args(durations).env("KUBECONFIG", &self.kubeconfig))
    }

    fn theirs(&self, name: &str, durations: [&str; 3]) -> Result<Candidate> {
        let mut command = Command::new(&self.programs.theirs);
        command.arg(&self.kubeconfig).args(["default", NAME, name]).args(durations);
        Candidate::start(&mut command)
    }

    fn lease(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.kubectl.ok(&["get", "lease", NAME, "-o", "json"])?)?)
    }

    fn version(&self, config_map: &str) -> Result<String> {
        self.kubectl.ok(&["get", "configmap", config_map, "-o", "jsonpath={.metadata.resourceVersion}"])
    }
}

/// A process that competes; killed when dropped.
struct Candidate {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Candidate {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Candidate { child, lines, said: Vec::new() })
    }

    /// All that it has printed until now.
    fn said(&mut self) -> Vec<String> {
        self.said.extend(self.lines.try_iter());
        self.said.clone()
    }

    /// Waits until it has printed this line.
    fn says(&mut self, wanted: &str) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        while !self.said.iter().any(|line| line == wanted) {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Timeout) => bail!("no {wanted:?} in {:?}", self.said),
                Err(RecvTimeoutError::Disconnected) => bail!("it ended without {wanted:?}: {:?}", self.said),
            }
        }
        Ok(())
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.child.id().to_string();
        run::check(Command::new("kill").arg(format!("-{signal}")).arg(pid))
    }

    /// Waits for its end; everything that it printed is in [`Candidate::said`] then.
    fn ends(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Timeout) => bail!("it does not end: {:?}", self.said),
                Err(RecvTimeoutError::Disconnected) => return Ok(self.child.wait()?),
            }
        }
    }
}
