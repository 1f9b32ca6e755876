//! The task that probes one run of a container and acts on the verdicts.

use std::time::Duration;

use bytes::Bytes;
use setpoint::recorder::EventType;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::exec::run as run_exec;
use super::running::Watch;
use super::streams::{Client, PIECES};
use crate::address::PodPorts;
use crate::events::PodEvents;
use crate::probe::{Check, ProbeFailure, Schedule, Verdict, attempt};

/// The probes of one container.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// It gates the other two.
    pub startup: Option<Schedule>,
    /// It decides whether the container is ready.
    pub readiness: Option<Schedule>,
    /// It restarts the container.
    pub liveness: Option<Schedule>,
    /// Grace period of the container when a probe ends it, unless the probe has its own.
    pub grace: Duration,
}

/// Probes until the run ends, which drops this task.
pub(super) async fn run(watch: Watch, probes: Probes, ports: PodPorts) {
    let prober = Prober { watch, ports, grace: probes.grace };
    if let Some(startup) = &probes.startup {
        if !prober.until_verdict(startup).await {
            return prober.kill(startup, "failed startup probe").await;
        }
        prober.watch.pods.change(&prober.watch.key, &prober.watch.name, |runs| {
            runs.started = true;
            runs.ready = probes.readiness.is_none();
        });
    }
    tokio::join!(prober.readiness(probes.readiness.as_ref()), prober.liveness(probes.liveness.as_ref()));
}

struct Prober {
    watch: Watch,
    ports: PodPorts,
    grace: Duration,
}

impl Prober {
    async fn readiness(&self, schedule: Option<&Schedule>) {
        let Some(schedule) = schedule else { return };
        let mut verdict = Verdict::unknown();
        let mut turns = Turns::new(schedule);
        // Until the container is ready for the first time, it is probed more often, so that a quick program is ready
        // quickly.
        let mut eager = Some(EAGER);
        loop {
            turns.next(eager).await;
            // A kubelet would not have probed yet, so this result is not reported.
            let silent = eager.is_some_and(|pause| pause < schedule.period);
            let answer = self.ask(schedule, "Readiness", silent).await;
            let changed = answer.is_some_and(|it| verdict.take(it, schedule));
            let ready = verdict.good == Some(true);
            if changed {
                self.watch.pods.change(&self.watch.key, &self.watch.name, |runs| runs.ready = ready);
            }
            eager = eager.filter(|_| !ready).map(|pause| (pause * 2).min(schedule.period));
        }
    }

    async fn liveness(&self, schedule: Option<&Schedule>) {
        let Some(schedule) = schedule else { return };
        let mut verdict = Verdict::good();
        let mut turns = Turns::new(schedule);
        loop {
            turns.next(None).await;
            let success = self.ask(schedule, "Liveness", false).await;
            if success.is_some_and(|success| verdict.take(success, schedule)) {
                return self.kill(schedule, "failed liveness probe").await;
            }
        }
    }

    async fn until_verdict(&self, schedule: &Schedule) -> bool {
        let mut verdict = Verdict::unknown();
        let mut turns = Turns::new(schedule);
        loop {
            turns.next(None).await;
            if let Some(success) = self.ask(schedule, "Startup", false).await {
                verdict.take(success, schedule);
            }
            if let Some(good) = verdict.good {
                return good;
            }
        }
    }

    async fn kill(&self, schedule: &Schedule, why: &str) {
        let grace = schedule.grace.unwrap_or(self.grace);
        self.watch.pods.kill(&self.watch.key, &self.watch.name, why, grace).await;
    }

    /// Runs one probe. Returns `None` if it cannot run, which a kubelet counts neither as success nor as failure.
    async fn ask(&self, schedule: &Schedule, kind: &str, silent: bool) -> Option<bool> {
        let answer = match &schedule.check {
            Check::Impossible(why) => {
                self.unhealthy(format!("{kind} probe errored and resulted in unknown state: {why}"));
                return None;
            }
            Check::Exec { command } => self.exec(command, schedule.timeout).await,
            check => attempt(check, &self.ports, schedule.timeout).await,
        };
        if let Err(message) = &answer
            && !silent
        {
            self.unhealthy(format!("{kind} probe failed: {message}"));
        }
        Some(answer.is_ok())
    }

    fn unhealthy(&self, message: String) {
        let name = &self.watch.name;
        let record =
            |pod_events: &PodEvents<'_>| pod_events.container(EventType::Warning, name, "Unhealthy", message);
        self.watch.pods.record(&self.watch.key, record);
    }

    async fn exec(&self, command: &[String], timeout: Duration) -> Result<(), ProbeFailure> {
        let exec = self.watch.pods.exec(&self.watch.key, &self.watch.name, command.to_vec());
        let exec = exec.ok_or_else(|| ProbeFailure::new("the container does not run"))?;
        let (sender, pieces) = mpsc::channel(PIECES);
        let client = Client { stdout: Some(sender.clone()), stderr: Some(sender), ..Client::default() };
        let finished = async { tokio::join!(run_exec(exec, client), gather(pieces)) };
        let (status, output) = tokio::time::timeout(timeout, finished).await.map_err(|_| {
            let (command, seconds) = (command.join(" "), timeout.as_secs());
            ProbeFailure(format!("command timed out: {command:?} timed out after {seconds}s"))
        })?;
        match (status["status"].as_str(), status["reason"].as_str()) {
            (Some("Success"), _) => Ok(()),
            // The program's output, which a kubelet reports too.
            (_, Some("NonZeroExitCode")) => Err(ProbeFailure(output)),
            _ => Err(ProbeFailure::new(status["message"].as_str().unwrap_or_default())),
        }
    }
}

/// Bytes of a probe's output that are reported. The rest is read and dropped.
const OUTPUT_BYTES: usize = 10 * 1024;

/// Collects a program's output until its end.
async fn gather(mut pieces: mpsc::Receiver<Bytes>) -> String {
    let mut output = Vec::new();
    while let Some(piece) = pieces.recv().await {
        let left = OUTPUT_BYTES - output.len();
        output.extend_from_slice(&piece[..piece.len().min(left)]);
    }
    String::from_utf8_lossy(&output).into_owned()
}

/// First pause between probes of a container that has never been ready. It doubles up to the probe's own period.
const EAGER: Duration = Duration::from_millis(50);

struct Turns {
    at: Instant,
    period: Duration,
}

impl Turns {
    fn new(schedule: &Schedule) -> Self {
        Turns { at: Instant::now() + schedule.initial_delay, period: schedule.period }
    }

    /// Waits for the next probe. The one after it comes after `pause`, or after the probe's own period.
    async fn next(&mut self, pause: Option<Duration>) {
        tokio::time::sleep_until(self.at).await;
        self.at = Instant::now() + pause.unwrap_or(self.period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_beginning_of_a_programs_output_is_kept() {
        let (sender, pieces) = mpsc::channel(4);
        for piece in [vec![b'a'; OUTPUT_BYTES - 2], b"bcd".to_vec(), b"e".to_vec()] {
            sender.send(Bytes::from(piece)).await.unwrap();
        }
        drop(sender);
        let output = gather(pieces).await;
        assert_eq!((output.len(), &output[OUTPUT_BYTES - 3..]), (OUTPUT_BYTES, "abc"));
    }
}
