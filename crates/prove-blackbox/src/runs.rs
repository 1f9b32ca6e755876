//! Single runs: a cluster, the process, some steps of the life.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use setpoint_cluster::{Checkpoint, Options};
use setpoint_prove::engine::{
    Action, Goal, Outcome, Ran, Reference, RunError, Segment, Statements, of_run, run, simulate,
};
use setpoint_prove::{Fault, Finding, Pace, Plan, Settings, Subject};
use tokio_util::sync::CancellationToken;

use crate::front::Tls;
use crate::log::Log;
use crate::program::Program;

/// Rest in the right state after which a run ends.
const SETTLE: Duration = Duration::from_millis(150);
/// The most writes of one step.
const WRITES: usize = 500;
/// The longest time of one step.
const LIMIT: Duration = Duration::from_secs(120);
/// The namespace of a process without a service account.
const NAMESPACE: &str = "default";

/// The bounds of a proof.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// No run begins after this time.
    pub budget: Duration,
    /// The number of worlds side by side.
    pub jobs: usize,
    /// Rest after which a step of the first undisturbed life is over. Runs with faults wait as long as this life shows
    /// that the operator needs.
    pub suspicion: Duration,
    /// Rest after which a repetition of a suspicious run is judged: longer than the operator's longest back-off.
    pub patience: Duration,
    /// The number of findings after which the exploration ends.
    pub findings: usize,
    /// Whether the life of a finding is shortened.
    pub shrink: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            budget: Duration::from_secs(5 * 60),
            jobs: 4,
            suspicion: Duration::from_millis(2_500),
            patience: Duration::from_secs(15),
            findings: 10,
            shrink: true,
        }
    }
}

/// The rest after which runs are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The longest time for which the undisturbed operator waited before it wrote by itself.
    pub pause: Duration,
    /// The rest after which a run is suspicious if its state is wrong.
    pub suspicion: Duration,
    /// The rest after which a repetition is judged.
    pub confirmation: Duration,
}

/// The reason why a run has no end.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The run could not begin, or the server refused a step.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Somebody stopped the proof.
    #[error("stopped")]
    Stopped,
}

/// The end of a run with a fault.
pub struct Attempt {
    /// The outcome. `None` if an earlier run restarted the operator in the same state.
    pub outcome: Option<Outcome>,
    /// The contradictions.
    pub findings: Vec<Finding>,
    /// The output of the process.
    pub log: Log,
}

/// Everything that runs share.
pub struct Runs {
    /// The operator and its manifests.
    pub subject: Subject,
    /// The program.
    pub program: Program,
    /// The certificate of the ports.
    pub tls: Tls,
    /// The options of the clusters.
    pub cluster: Options,
    /// Resources of which objects may outlive the life.
    pub statements: Statements,
    /// The bounds.
    pub bounds: Bounds,
    /// Rest after which a first run is judged. A wrong state is then a suspicion. It becomes a finding if repetitions
    /// with the whole patience show it.
    pub suspicion: Duration,
    /// Whether the server streams first states.
    pub watch_list: bool,
    /// Ends all runs.
    pub stop: CancellationToken,
}

impl Runs {
    /// Makes the runs of a program.
    pub fn new(
        program: &Program,
        manifests: &[Value],
        account: Option<(String, String)>,
        tls: Tls,
        stop: &CancellationToken,
    ) -> Runs {
        let never = |_| unreachable!("each run has a start of its own");
        let subject = Subject::new(&program.name, manifests.to_vec(), never).with_account(account);
        Runs {
            subject,
            program: program.clone(),
            tls,
            cluster: Options::default(),
            statements: Statements::default(),
            suspicion: Bounds::default().suspicion,
            bounds: Bounds::default(),
            watch_list: true,
            stop: stop.clone(),
        }
    }

    /// Returns the settings of a run that is at rest after `patience`.
    pub fn settings(&self, patience: Duration) -> Settings {
        Settings {
            patience,
            settle: SETTLE,
            limit: LIMIT.max(patience * 4),
            writes: WRITES,
            pace: Pace::real(),
            watch_list: self.watch_list,
            ..Settings::default()
        }
    }

    /// Runs some steps without a fault. `asleep`: the operator starts after two steps.
    ///
    /// # Errors
    /// If the server refuses a step, or the proof is stopped.
    pub fn undisturbed(&self, steps: &Undisturbed<'_>) -> Result<(Vec<Outcome>, Log), Failure> {
        let (subject, log) = self.subject();
        let settings = self.settings(steps.patience);
        let segment = Segment {
            subject: &subject,
            settings: &settings,
            life: steps.life,
            from: steps.from,
            first: steps.first,
            count: steps.count,
            plan: None,
            jitter: steps.jitter,
            asleep: steps.asleep,
            ready: steps.ready,
        };
        match self.perform(&segment, None, &mut BTreeSet::new())? {
            Ran::Done(outcomes) => Ok((outcomes, log)),
            Ran::Known => Ok((Vec::new(), log)),
        }
    }

    /// Runs a plan and judges it.
    ///
    /// # Errors
    /// If the server refuses a step, or the proof is stopped.
    pub fn attempt(
        &self,
        reference: &Reference,
        plan: &Plan,
        patience: Duration,
        visited: &mut BTreeSet<(usize, u64)>,
    ) -> Result<Attempt, Failure> {
        let (subject, log) = self.subject();
        let settings = self.settings(patience);
        let first = plan.step - 1;
        let last = last_step(plan);
        let goal =
            Goal { state: &reference.states[last], scope: &reference.scope, masks: &reference.masks[last] };
        let segment = Segment {
            subject: &subject,
            settings: &settings,
            life: &reference.life,
            from: &reference.starts[first],
            first,
            count: 1,
            plan: Some(plan),
            jitter: None,
            asleep: false,
            ready: Some(&reference.ready),
        };
        // The writes of the run without a fault are the places of all faults, so it must not end early.
        let goal = (plan.at != Fault::Restart).then_some(&goal);
        let Ran::Done(mut outcomes) = self.perform(&segment, goal, visited)? else {
            return Ok(Attempt { outcome: None, findings: Vec::new(), log });
        };
        let Some(outcome) = outcomes.pop() else { return Err(Failure::Stopped) };
        let findings = of_run(reference, &self.statements, &outcome, plan);
        Ok(Attempt { outcome: Some(outcome), findings, log })
    }

    /// Returns the operator with a log of its own.
    fn subject(&self) -> (Subject, Log) {
        let log = Log::default();
        let (program, tls, written) = (self.program.clone(), self.tls.clone(), log.clone());
        let namespace =
            self.subject.service_account().map_or(NAMESPACE.to_owned(), |(namespace, _)| namespace);
        (self.subject.with_start(move |start| program.start(&tls, &namespace, &written, start)), log)
    }

    fn perform(
        &self,
        segment: &Segment<'_>,
        goal: Option<&Goal<'_>>,
        visited: &mut BTreeSet<(usize, u64)>,
    ) -> Result<Ran, Failure> {
        simulate(&segment.settings.pace, async {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => Err(Failure::Stopped),
                ran = run(segment, goal, visited) => Ok(ran?),
            }
        })
    }
}

/// A choice of steps without a fault.
#[derive(Clone)]
pub struct Undisturbed<'a> {
    /// The life.
    pub life: &'a [Action],
    /// The state to begin with.
    pub from: &'a Checkpoint,
    /// The index of the first step.
    pub first: usize,
    /// The number of steps.
    pub count: usize,
    /// Seed of benign delays.
    pub jitter: Option<u64>,
    /// Whether the operator starts only after two steps.
    pub asleep: bool,
    /// The watches of a started operator, if they are known.
    pub ready: Option<&'a BTreeSet<String>>,
    /// Silence after which a step is at rest.
    pub patience: Duration,
}

/// Returns the index of the last step of a plan.
pub fn last_step(plan: &Plan) -> usize {
    plan.step - 1 + usize::from(plan.at.spans_two_steps())
}
