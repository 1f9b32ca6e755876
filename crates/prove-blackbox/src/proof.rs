//! The proof: the undisturbed life, all plans, the findings.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use setpoint_cluster::Checkpoint;
use setpoint_prove::engine::{
    Outcome, Reference, RunError, advisories, base, page, rank, single_faults, trace,
};
use setpoint_prove::{Fault, Finding, Plan, PlanFile, Report, Step, Visited};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::confirm::confirm;
use crate::front::{Tls, TlsError};
use crate::program::Program;
use crate::reference::{REFERENCES, ReferenceError, reference};
use crate::replay::Replay;
use crate::runs::{Bounds, Failure, Runs};
use crate::shrink::shrink;
use crate::workers::run_all;

/// The reason why a proof could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The life is empty.
    #[error("the life has no steps")]
    NoLife,
    /// The program cannot be run.
    #[error("cannot run the program {path}: {cause}")]
    Program {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// The operator ends before the first fault.
    #[error("the operator does not stay up: {0}")]
    Ends(String),
    /// No certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A manifest or a step is refused, or no cluster starts.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The undisturbed life used the budget up.
    #[error("the undisturbed life took {} s, and no time was left for faults: raise the budget", .0.as_secs())]
    Budget(Duration),
    /// Somebody stopped the proof before the undisturbed life was over.
    #[error("stopped before the undisturbed life was over: nothing was found out")]
    Stopped,
}

impl From<ReferenceError> for ProofError {
    fn from(error: ReferenceError) -> Self {
        match error {
            ReferenceError::Ends(how) => ProofError::Ends(how),
            ReferenceError::Failure(failure) => failure.into(),
        }
    }
}

impl From<Failure> for ProofError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Run(error) => ProofError::Run(error),
            Failure::Stopped => ProofError::Stopped,
        }
    }
}

/// A proof of one operator.
#[derive(Clone)]
pub struct Proof {
    /// The program.
    pub program: Program,
    /// The objects that it needs.
    pub manifests: Vec<Value>,
    /// The files of these, for replays.
    pub files: Vec<PathBuf>,
    /// Folders among these that were not read.
    pub without: Vec<PathBuf>,
    /// Namespace and name of the service account.
    pub account: Option<(String, String)>,
    /// The life.
    pub life: Vec<Step>,
    /// Resources of which objects may outlive the life.
    pub keeps: Vec<String>,
    /// The bounds.
    pub bounds: Bounds,
    /// The options of the clusters.
    pub cluster: setpoint_cluster::Options,
}

/// A stage of a running proof, for people who wait.
#[derive(Clone, Copy, Debug)]
pub enum Stage<'a> {
    /// The undisturbed life runs.
    Undisturbed,
    /// Plans run.
    Plans {
        /// Plans that have run.
        done: usize,
        /// All plans.
        all: usize,
        /// Findings so far.
        found: usize,
    },
    /// A finding is confirmed.
    Found(&'a Finding),
    /// The lives of findings are shortened.
    Shrinking,
}

/// A finding with what replays it.
pub struct Found {
    /// The finding.
    pub finding: Finding,
    /// The file that replays it.
    pub replay: Replay,
    /// The output of the process.
    pub log: String,
}

/// The result of a proof.
pub struct Proved {
    /// The visited plans and the findings.
    pub report: Report,
    /// The findings with their files.
    pub found: Vec<Found>,
    /// Whether somebody stopped the proof.
    pub stopped: bool,
    /// The time of the runs with faults, and their number.
    pub pace: (Duration, usize),
}

/// The state of an exploration, which the threads share.
#[derive(Default)]
struct Explored {
    found: Vec<Found>,
    /// Suspicions whose confirmation runs.
    pending: Vec<Finding>,
    counts: BTreeMap<&'static str, Visited>,
    matrix: BTreeMap<(usize, &'static str), Visited>,
    advisories: Vec<Finding>,
    visited: BTreeSet<(usize, u64)>,
    runs: usize,
    done: usize,
    unconfirmed: usize,
    error: Option<ProofError>,
}

impl Explored {
    /// Counts a plan under its kind, and under its kind and step.
    fn count(&mut self, plan: &Plan, change: impl Fn(&mut Visited)) {
        change(self.counts.entry(plan.at.kind()).or_default());
        change(self.matrix.entry((plan.step, plan.at.kind())).or_default());
    }
}

/// A proof under way.
struct Exploration<'a> {
    proof: &'a Proof,
    runs: &'a Runs,
    base: &'a Checkpoint,
    reference: Reference,
    explored: Mutex<Explored>,
    /// No run begins after this moment.
    deadline: Option<Instant>,
    tell: &'a (dyn Fn(Stage<'_>) + Sync),
}

impl Proof {
    /// Explores all single faults of the life, within the bounds.
    ///
    /// # Errors
    /// If the program does not run, or the server refuses a manifest or a step.
    pub fn run(
        &self,
        stop: &CancellationToken,
        tell: &(dyn Fn(Stage<'_>) + Sync),
    ) -> Result<Proved, ProofError> {
        self.go(None, stop, tell)
    }

    /// Runs one plan of the life, or only the undisturbed life.
    ///
    /// # Errors
    /// As [`Proof::run`].
    pub fn replay(
        &self,
        plan: Option<&Plan>,
        stop: &CancellationToken,
        tell: &(dyn Fn(Stage<'_>) + Sync),
    ) -> Result<Proved, ProofError> {
        self.go(Some(plan), stop, tell)
    }

    fn go(
        &self,
        only: Option<Option<&Plan>>,
        stop: &CancellationToken,
        tell: &(dyn Fn(Stage<'_>) + Sync),
    ) -> Result<Proved, ProofError> {
        if self.life.is_empty() {
            return Err(ProofError::NoLife);
        }
        self.check_program()?;
        let mut runs = Runs::new(&self.program, &self.manifests, self.account.clone(), Tls::new()?, stop);
        runs.cluster = self.cluster.clone();
        runs.bounds = self.bounds.clone();
        runs.statements.keeps = self.keeps.iter().cloned().collect();
        let begin = Instant::now();
        // A replay is one plan, and takes as long as it takes.
        let deadline = only.is_none().then(|| begin + self.bounds.budget);
        tell(Stage::Undisturbed);
        let base = base(&runs.subject, &runs.settings(runs.suspicion()), &runs.cluster)?;
        let (reference, undisturbed) = reference(&runs, &base, &self.life)?;
        if undisturbed.is_empty() && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(ProofError::Budget(begin.elapsed()));
        }
        let exploration = Exploration {
            proof: self,
            runs: &runs,
            base: &base,
            reference,
            explored: Mutex::default(),
            deadline,
            tell,
        };
        exploration.explored().runs = REFERENCES;
        exploration.explored().advisories = advisories(&exploration.reference);
        let began = Instant::now();
        if !undisturbed.is_empty() {
            exploration.keep_undisturbed(undisturbed);
        } else if let Some(plan) = only {
            exploration.counts(plan);
            exploration.visit_all(plan.into_iter().cloned().collect());
        } else {
            exploration.explore();
        }
        let pace = (began.elapsed(), exploration.explored().done);
        exploration.shrink();
        exploration.conclude(stop.is_cancelled(), pace)
    }

    /// Looks whether the file of the program can be executed. A bare name is looked up by the system.
    fn check_program(&self) -> Result<(), ProofError> {
        let path = &self.program.path;
        let failed = |cause: &str| ProofError::Program { path: path.clone(), cause: cause.to_owned() };
        if path.components().count() < 2 && !path.has_root() {
            return Ok(());
        }
        let metadata = std::fs::metadata(path).map_err(|error| failed(&error.to_string()))?;
        if !metadata.is_file() {
            return Err(failed("it is no file"));
        }
        if metadata.permissions().mode() & 0o111 == 0 {
            return Err(failed("it is not executable"));
        }
        Ok(())
    }
}

impl Exploration<'_> {
    fn explored(&self) -> MutexGuard<'_, Explored> {
        self.explored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether no further run may begin.
    fn is_over(&self) -> bool {
        let explored = self.explored();
        self.runs.stop.is_cancelled()
            || explored.error.is_some()
            || explored.found.len() >= self.proof.bounds.findings
            || self.is_late()
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn explore(&self) {
        let steps = self.reference.outcomes.len();
        let restarts: Vec<Plan> = (1..=steps).map(|step| Plan { step, at: Fault::Restart }).collect();
        for plan in &restarts {
            self.counts(Some(plan));
        }
        let settings = self.runs.settings(self.runs.suspicion());
        let mut plans = Vec::new();
        for (plan, baseline) in self.visit_all(restarts) {
            let more = plan.step < steps;
            let faults = single_faults(&baseline, more, &settings);
            plans.extend(faults.into_iter().map(|at| Plan { step: plan.step, at }));
        }
        plans.sort_by_key(|plan| (rank(&plan.at), plan.step));
        for plan in &plans {
            self.counts(Some(plan));
        }
        self.visit_all(plans);
    }

    /// Counts a plan that is to be run.
    fn counts(&self, plan: Option<&Plan>) {
        if let Some(plan) = plan {
            self.explored().count(plan, |count| count.plans += 1);
        }
    }

    /// Runs plans side by side. Returns those that ran to their end.
    fn visit_all(&self, plans: Vec<Plan>) -> Vec<(Plan, Outcome)> {
        let all: usize = self.explored().counts.values().map(|count| count.plans).sum();
        let mut outcomes = Vec::new();
        run_all(
            self.proof.bounds.jobs,
            plans,
            || self.is_over(),
            |plan| (self.visit(&plan), plan),
            |(outcome, plan)| {
                let (done, found) = {
                    let explored = self.explored();
                    (explored.done, explored.found.len())
                };
                (self.tell)(Stage::Plans { done, all, found });
                outcomes.extend(outcome.map(|outcome| (plan, outcome)));
            },
        );
        outcomes
    }

    /// Runs one plan, confirms and keeps what it finds.
    fn visit(&self, plan: &Plan) -> Option<Outcome> {
        let known = self.explored().visited.clone();
        let mut visited = known.clone();
        let attempt = match self.runs.attempt(&self.reference, plan, self.runs.suspicion(), &mut visited) {
            Ok(attempt) => attempt,
            Err(Failure::Stopped) => return None,
            Err(error) => {
                self.explored().error.get_or_insert(error.into());
                return None;
            }
        };
        {
            let mut explored = self.explored();
            explored.visited.extend(visited.difference(&known).copied());
            explored.runs += 1;
            explored.done += 1;
            explored.count(plan, |count| match &attempt.outcome {
                None => count.known += 1,
                Some(outcome) => {
                    count.run += 1;
                    count.missed += usize::from(!outcome.struck && plan.at != Fault::Restart);
                }
            });
        }
        for finding in attempt.findings {
            self.suspect(plan, finding);
        }
        attempt.outcome
    }

    /// Confirms a suspicion, unless the same one is known or under way.
    fn suspect(&self, plan: &Plan, finding: Finding) {
        {
            let mut explored = self.explored();
            if finding.oracle.is_advisory() {
                if !explored.advisories.iter().any(|known| known.is_like(&finding)) {
                    explored.advisories.push(finding);
                }
                return;
            }
            let known = explored.found.iter().any(|found| found.finding.is_like(&finding));
            if known || explored.pending.iter().any(|pending| pending.is_like(&finding)) {
                return;
            }
            explored.pending.push(finding.clone());
        }
        let confirmed = confirm(self.runs, &self.reference, plan, &finding);
        let mut explored = self.explored();
        explored.pending.retain(|pending| !pending.is_like(&finding));
        explored.runs += 4;
        match confirmed {
            Ok(Some(confirmed)) => {
                let trace = trace(&self.reference, Some(plan), Some(&confirmed.outcome));
                let page = page(&self.reference, Some(plan), Some(&confirmed.outcome));
                let found =
                    self.found(Finding { trace, page, ..finding }, Some(plan.clone()), confirmed.log.text());
                (self.tell)(Stage::Found(&found.finding));
                explored.found.push(found);
            }
            Ok(None) => explored.unconfirmed += 1,
            Err(Failure::Stopped) => {}
            Err(error) => {
                explored.error.get_or_insert(error.into());
            }
        }
    }

    /// Keeps findings of the undisturbed life.
    fn keep_undisturbed(&self, findings: Vec<Finding>) {
        for finding in findings {
            let trace = trace(&self.reference, None, None);
            let page = page(&self.reference, None, None);
            let found = self.found(Finding { trace, page, ..finding }, None, String::new());
            (self.tell)(Stage::Found(&found.finding));
            self.explored().found.push(found);
        }
    }

    fn found(&self, mut finding: Finding, plan: Option<Plan>, log: String) -> Found {
        let replay = self.file(self.proof.life.clone(), plan);
        finding.file = replay.to_yaml();
        Found { finding, replay, log }
    }

    fn file(&self, life: Vec<Step>, plan: Option<Plan>) -> Replay {
        let settings = self.runs.settings(self.proof.bounds.patience);
        Replay {
            program: self.proof.program.clone(),
            manifests: self.proof.files.clone(),
            without: self.proof.without.clone(),
            keeps: self.proof.keeps.clone(),
            patience: u64::try_from(self.proof.bounds.patience.as_millis()).unwrap_or(u64::MAX),
            plan: PlanFile { subject: self.proof.program.name.clone(), seed: settings.seed, life, plan },
        }
    }

    /// Shortens the lives of all findings, as long as there is time.
    fn shrink(&self) {
        if !self.proof.bounds.shrink || self.explored().found.is_empty() {
            return;
        }
        (self.tell)(Stage::Shrinking);
        let late = || self.runs.stop.is_cancelled() || self.is_late();
        let mut found = std::mem::take(&mut self.explored().found);
        for found in &mut found {
            let Some(plan) = found.finding.plan.clone() else { continue };
            let life = &self.proof.life;
            // A proof that is stopped here shows the longer life.
            let Ok((life, plan)) = shrink(self.runs, self.base, life, &plan, &found.finding, late) else {
                continue;
            };
            found.replay = self.file(life, Some(plan));
            found.finding.file = found.replay.to_yaml();
        }
        self.explored().found = found;
    }

    fn conclude(self, stopped: bool, pace: (Duration, usize)) -> Result<Proved, ProofError> {
        let explored = self.explored.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = explored.error {
            return Err(error);
        }
        let report = Report {
            subject: self.proof.program.name.clone(),
            steps: self.proof.life.len(),
            findings: explored.found.iter().map(|found| found.finding.clone()).collect(),
            advisories: explored.advisories,
            notes: Vec::new(),
            visited: explored.counts,
            matrix: explored.matrix,
            runs: explored.runs,
            unconfirmed: explored.unconfirmed,
            nondeterminism: None,
            masked: self.reference.masks.iter().map(BTreeSet::len).sum(),
        };
        Ok(Proved { report, found: explored.found, stopped, pace })
    }
}
