//! The exploration: all plans, several at a time, each suspicion confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use setpoint_cluster::Checkpoint;
use setpoint_prove::engine::{Outcome, Reference, advisories, page, trace};
use setpoint_prove::{Fault, Finding, Plan, PlanFile, Report, Step, Visited};
use tokio::time::Instant;

use crate::confirm::confirm;
use crate::plans::{deeper, faults, notes, spread};
use crate::proof::{Found, Proof, ProofError, Proved, Stage};
use crate::reference::REFERENCES;
use crate::replay::Replay;
use crate::runs::{Failure, Patience, Runs};
use crate::shrink::shrink;
use crate::workers::run_all;

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
pub struct Exploration<'a> {
    proof: &'a Proof,
    runs: &'a Runs,
    base: &'a Checkpoint,
    reference: Reference,
    explored: Mutex<Explored>,
    /// No run begins after this moment.
    deadline: Option<Instant>,
    tell: &'a (dyn Fn(Stage<'_>) + Sync),
}

/// The choice of plans.
pub enum Choice<'a> {
    /// All single faults, and second crashes.
    All,
    /// One plan, or only the undisturbed life.
    One(Option<&'a Plan>),
    /// None: the undisturbed life has these contradictions.
    Undisturbed(Vec<Finding>),
}

impl<'a> Exploration<'a> {
    /// Makes an exploration from an undisturbed life.
    pub fn new(
        proof: &'a Proof,
        runs: &'a Runs,
        base: &'a Checkpoint,
        reference: Reference,
        deadline: Option<Instant>,
        tell: &'a (dyn Fn(Stage<'_>) + Sync),
    ) -> Exploration<'a> {
        let explored =
            Explored { runs: REFERENCES, advisories: advisories(&reference), ..Explored::default() };
        Exploration { proof, runs, base, reference, explored: Mutex::new(explored), deadline, tell }
    }

    /// Runs the chosen plans, and shortens the lives of what they find.
    pub fn run(self, choice: Choice<'_>, patience: Patience) -> Result<Proved, ProofError> {
        let began = Instant::now();
        match choice {
            Choice::Undisturbed(findings) => self.keep_undisturbed(findings),
            Choice::One(plan) => {
                let plans: Vec<Plan> = plan.into_iter().cloned().collect();
                self.visit_all(plans);
            }
            Choice::All => self.explore(),
        }
        let pace = (began.elapsed(), self.explored().done);
        self.shrink();
        self.conclude(pace, patience)
    }

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
        let settings = self.runs.settings(self.runs.suspicion);
        let mut plans = Vec::new();
        for (plan, baseline) in self.visit_all(restarts) {
            let faults = faults(&baseline, &self.reference, plan.step, &settings);
            plans.extend(faults.into_iter().map(|at| Plan { step: plan.step, at }));
        }
        let outcomes = self.visit_all(spread(plans));
        self.visit_all(deeper(&outcomes));
    }

    /// Runs plans side by side. Returns those that ran to their end.
    fn visit_all(&self, plans: Vec<Plan>) -> Vec<(Plan, Outcome)> {
        for plan in &plans {
            self.explored().count(plan, |count| count.plans += 1);
        }
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
        let attempt = match self.runs.attempt(&self.reference, plan, self.runs.suspicion, &mut visited) {
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
                    count.missed += usize::from(!outcome.struck && !plan.at.always_strikes());
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
            watch_list: self.proof.watch_list,
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

    fn conclude(self, pace: (Duration, usize), patience: Patience) -> Result<Proved, ProofError> {
        let explored = self.explored.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = explored.error {
            return Err(error);
        }
        let report = Report {
            subject: self.proof.program.name.clone(),
            steps: self.proof.life.len(),
            findings: explored.found.iter().map(|found| found.finding.clone()).collect(),
            advisories: explored.advisories,
            notes: notes(&self.reference, self.proof.watch_list),
            visited: explored.counts,
            matrix: explored.matrix,
            runs: explored.runs,
            unconfirmed: explored.unconfirmed,
            nondeterminism: None,
            masked: self.reference.masks.iter().map(BTreeSet::len).sum(),
        };
        let stopped = self.runs.stop.is_cancelled();
        Ok(Proved { report, found: explored.found, stopped, pace, patience })
    }
}
