//! The task that probes one run of a container and says what follows from it.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::pods::{Probes, Watch};
use crate::kubelet::exec::{Client, ExecCommand, run as run_exec};
use crate::probe::{Check, Schedule, Verdict, attempt};

/// Probes until the run ends, which drops this task.
pub(super) async fn run(watch: Watch, probes: Probes, host: IpAddr) {
    if let Some(startup) = &probes.startup {
        match until_verdict(&watch, startup, host).await {
            true => watch.pods.change(&watch.key, &watch.name, |runs| {
                runs.started = true;
                runs.ready = probes.readiness.is_none();
            }),
            false => return watch.pods.kill(&watch.key, &watch.name),
        }
    }
    let readiness = async {
        let Some(schedule) = &probes.readiness else { return std::future::pending().await };
        let mut verdict = Verdict::unknown();
        let mut turns = Turns::new(schedule);
        // Until it is ready for the first time it is asked more often, so that a quick program is quickly ready.
        let mut eager = Some(EAGER);
        loop {
            turns.next(eager).await;
            let success = ask(&watch, schedule, host).await;
            let changed = verdict.take(success, schedule);
            let ready = verdict.good == Some(true);
            if changed {
                watch.pods.change(&watch.key, &watch.name, |runs| runs.ready = ready);
            }
            eager = eager.filter(|_| !ready).map(|pause| (pause * 2).min(schedule.period));
        }
    };
    let liveness = async {
        let Some(schedule) = &probes.liveness else { return std::future::pending().await };
        let mut verdict = Verdict::good();
        let mut turns = Turns::new(schedule);
        loop {
            turns.next(None).await;
            let success = ask(&watch, schedule, host).await;
            if verdict.take(success, schedule) {
                watch.pods.kill(&watch.key, &watch.name);
            }
        }
    };
    let _: ((), ()) = tokio::join!(readiness, liveness);
}

async fn until_verdict(watch: &Watch, schedule: &Schedule, host: IpAddr) -> bool {
    let mut verdict = Verdict::unknown();
    let mut turns = Turns::new(schedule);
    loop {
        turns.next(None).await;
        let success = ask(watch, schedule, host).await;
        verdict.take(success, schedule);
        if let Some(good) = verdict.good {
            return good;
        }
    }
}

/// How soon a container that has never been ready is asked again; doubles up to the probe's own period.
const EAGER: Duration = Duration::from_millis(50);

struct Turns {
    at: Instant,
    period: Duration,
}

impl Turns {
    fn new(schedule: &Schedule) -> Self {
        Turns { at: Instant::now() + schedule.initial_delay, period: schedule.period }
    }

    /// Waits for the turn; the one after it comes after `pause`, or the probe's own period.
    async fn next(&mut self, pause: Option<Duration>) {
        tokio::time::sleep_until(self.at).await;
        self.at = Instant::now() + pause.unwrap_or(self.period);
    }
}

async fn ask(watch: &Watch, schedule: &Schedule, host: IpAddr) -> bool {
    let Check::Exec { command } = &schedule.check else {
        return attempt(&schedule.check, host, schedule.timeout).await.is_ok();
    };
    let Some((join, environment)) = watch.pods.process(&watch.key, &watch.name) else { return false };
    let helper = watch.pods.helper().clone();
    let exec = ExecCommand { helper, join, command: command.clone(), environment };
    let client = Client { stdin: None, stdout: None, stderr: None };
    let ended = tokio::time::timeout(schedule.timeout, run_exec(&exec, client)).await;
    ended.is_ok_and(|status| status["status"] == "Success")
}
