//! The exploration: all plans of a life, each run once, each finding confirmed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use setpoint_cluster::Options;

use crate::enumerate::{further_faults, leader_faults, sample, second_crashes, webhook_faults};
use crate::generate;
use crate::judge::{Finding, Oracle, Statements, advisories, of_reference, of_run};
use crate::life::{self, Step};
use crate::page::page;
use crate::plan::{Anchor, Fault, Plan, PlanFile};
use crate::reference::{Reference, base, reference};
use crate::segment::{Goal, Outcome, Ran, RunError, Segment, run, simulate};
use crate::settings::{Pace, Settings};
use crate::subject::Subject;
use crate::trace::{record, trace};
use crate::traffic::Sent;

/// Times that a finding must be found again before it is reported.
const CONFIRMATIONS: usize = 3;
/// Length of a short hold of a watch in seconds: longer than a usual wait for the cache. A long one takes half of the
/// patience: a back-off that doubles all the while is then over before the patience is.
const SHORT_HOLD: u64 = 6;

/// Idle time at the end of a life: longer than the usual resync of ten hours.
const IDLE_HOURS: u64 = 24;
/// The same on a cluster with nodes, whose heartbeats cost time.
const IDLE_HOURS_OF_NODES: u64 = 1;

/// The reason why a proof could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// A run could not begin, or a step of the life was refused.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The life is empty.
    #[error("the life has no steps: add .apply(..)")]
    NoLife,
    /// A plan file is wrong.
    #[error("the plan file: {0}")]
    File(String),
}

/// The number of plans of one kind of fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visited {
    /// Plans of the life.
    pub plans: usize,
    /// Plans that were run to their end.
    pub run: usize,
    /// Plans that led to a state from which an earlier run had already restarted the operator.
    pub known: usize,
    /// Plans whose place the run did not reach.
    pub missed: usize,
}

/// Everything that a campaign found out.
pub struct Explored {
    /// The findings.
    pub findings: Vec<Finding>,
    /// Behaviour that may be meant, or may be a mistake.
    pub advisories: Vec<Finding>,
    /// Faults that were not tried, and why.
    pub notes: Vec<String>,
    /// The visited plans, by kind of fault.
    pub visited: BTreeMap<&'static str, Visited>,
    /// The visited plans, by step and kind of fault.
    pub matrix: BTreeMap<(usize, &'static str), Visited>,
    /// The number of runs, references and confirmations included.
    pub runs: usize,
    /// Findings that did not come again.
    pub unconfirmed: usize,
    /// The first difference between two equal undisturbed runs.
    pub nondeterminism: Option<String>,
    /// The number of fields that differ between undisturbed runs, and are not compared.
    pub masked: usize,
}

impl Explored {
    /// Counts a plan that is to be run.
    fn expect(&mut self, plan: &Plan) {
        self.count(plan, |count| count.plans += 1);
    }

    fn count(&mut self, plan: &Plan, change: impl Fn(&mut Visited)) {
        change(self.visited.entry(plan.at.kind()).or_default());
        change(self.matrix.entry((plan.step, plan.at.kind())).or_default());
    }
}

/// A subject, its life, and the author's statements.
#[derive(Clone)]
pub struct Campaign {
    /// The program.
    pub subject: Subject,
    /// The bounds.
    pub settings: Settings,
    /// The options of the cluster. Seed and clock are those of the run.
    pub cluster: Options,
    /// The life.
    pub life: Vec<Step>,
    /// The author's statements.
    pub statements: Statements,
}

/// The number of undisturbed lives that a reference takes.
const REFERENCE_RUNS: usize = 4;

impl Campaign {
    /// Lives the undisturbed life.
    ///
    /// # Errors
    /// If a step is refused.
    pub fn reference(&self) -> Result<Reference, ProveError> {
        if self.life.is_empty() {
            return Err(ProveError::NoLife);
        }
        let base = base(&self.subject, &self.settings, &self.cluster)?;
        Ok(reference(&self.subject, &self.settings, &base, &self.life)?)
    }

    /// Returns the life that the schema of a sample makes. Values that the server refuses are left out.
    ///
    /// # Errors
    /// If the cluster refuses a manifest.
    pub fn life_from_schema(&self, sample: &Value) -> Result<Vec<Step>, ProveError> {
        let variants = generate::variants(&self.subject.manifests, sample);
        let base = base(&self.subject, &self.settings, &self.cluster)?;
        let accepted = simulate(&Pace::default(), async {
            let cluster = base.start().await.map_err(RunError::from)?;
            Ok::<_, RunError>(life::accepted(variants, &cluster.client()).await)
        })?;
        Ok(generate::life(sample, accepted))
    }

    /// Returns everything that the operator sent and saw in the undisturbed life, and every change of an object, as
    /// text.
    ///
    /// # Errors
    /// If a step is refused.
    pub fn record(&self) -> Result<String, ProveError> {
        let reference = self.reference()?;
        Ok(reference.outcomes.iter().map(record).collect())
    }

    /// Runs one plan and judges it. `None` if the run is a repetition of an earlier one.
    ///
    /// # Errors
    /// If a step is refused.
    pub fn attempt(
        &self,
        reference: &Reference,
        plan: &Plan,
        visited: &mut BTreeSet<(usize, u64)>,
    ) -> Result<Option<(Outcome, Vec<Finding>)>, ProveError> {
        let first = plan.step - 1;
        let last = if plan.at.spans_two_steps() { first + 1 } else { first };
        let goal =
            Goal { state: &reference.states[last], scope: &reference.scope, masks: &reference.masks[last] };
        let segment = Segment {
            subject: &self.subject,
            settings: &self.settings,
            life: &reference.life,
            from: &reference.starts[first],
            first,
            count: 1,
            plan: Some(plan),
            jitter: None,
            asleep: false,
            ready: self.settings.pace.real.then_some(&reference.ready),
        };
        let Ran::Done(mut outcomes) = simulate(&self.settings.pace, run(&segment, Some(&goal), visited))?
        else {
            return Ok(None);
        };
        let Some(outcome) = outcomes.pop() else { return Ok(None) };
        let findings = of_run(reference, &self.statements, &outcome, plan);
        Ok(Some((outcome, findings)))
    }

    /// Explores all single faults of the life.
    ///
    /// # Errors
    /// If a step is refused.
    pub fn explore(&self) -> Result<(Explored, Reference), ProveError> {
        let reference = self.reference()?;
        let mut explored = self.undisturbed(&reference);
        // A life that is wrong without faults is the finding; faults would only repeat it.
        if explored.findings.is_empty() {
            self.explore_plans(&reference, &mut explored)?;
        }
        Ok((explored, reference))
    }

    /// Runs one plan, or only the undisturbed life.
    ///
    /// # Errors
    /// If a step is refused.
    pub fn replay(&self, plan: Option<&Plan>) -> Result<Explored, ProveError> {
        let reference = self.reference()?;
        let mut explored = self.undisturbed(&reference);
        if let (true, Some(plan)) = (explored.findings.is_empty(), plan) {
            if plan.at != Fault::Restart {
                explored.expect(plan);
            }
            self.visit(&reference, plan, &mut BTreeSet::new(), &mut explored)?;
        }
        Ok(explored)
    }

    /// Judges the undisturbed life.
    fn undisturbed(&self, reference: &Reference) -> Explored {
        let mut explored = Explored {
            findings: of_reference(reference, &self.statements),
            advisories: advisories(reference),
            notes: self.notes(reference),
            visited: BTreeMap::new(),
            matrix: BTreeMap::new(),
            runs: REFERENCE_RUNS,
            unconfirmed: 0,
            nondeterminism: reference.nondeterminism.clone(),
            masked: reference.masks.iter().map(BTreeSet::len).sum(),
        };
        for finding in &mut explored.findings {
            finding.trace = trace(reference, None, None);
            finding.page = page(reference, None, None);
            finding.file = self.file(None);
        }
        explored
    }

    fn explore_plans(&self, reference: &Reference, explored: &mut Explored) -> Result<(), ProveError> {
        let mut visited = BTreeSet::new();
        let mut plans = Vec::new();
        let idle = if self.cluster.nodes.count == 0 { IDLE_HOURS } else { IDLE_HOURS_OF_NODES };
        for step in 1..=reference.outcomes.len() {
            let plan = Plan { step, at: Fault::Restart };
            let Some(baseline) = self.visit(reference, &plan, &mut visited, explored)? else { continue };
            let more = step < reference.outcomes.len();
            let mut faults = single_faults(&baseline, more, &self.settings);
            faults.extend(further_faults(&baseline, reference, step - 1, idle));
            if self.subject.lease.is_some() {
                faults.extend(leader_faults(&baseline));
            }
            if self.subject.webhooks.is_some() {
                faults.extend(webhook_faults(&baseline));
            }
            plans.extend(faults.into_iter().map(|at| Plan { step, at }));
        }
        let tried = |plan: &Plan| self.settings.tries(plan.at.kind());
        plans.retain(tried);
        // Crashes first: they find the most.
        plans.sort_by_key(|plan| rank(&plan.at));
        plans.iter().for_each(|plan| explored.expect(plan));
        let plans = sample(plans, self.settings.plans);
        let mut deeper = Vec::new();
        for plan in &plans {
            if explored.findings.len() >= self.settings.findings || explored.runs >= self.settings.runs {
                return Ok(());
            }
            let outcome = self.visit(reference, plan, &mut visited, explored)?;
            deeper.extend(outcome.into_iter().flat_map(|outcome| second_crashes(plan, &outcome)));
        }
        deeper.retain(tried);
        deeper.iter().for_each(|plan| explored.expect(plan));
        let deeper = sample(deeper, self.settings.plans.saturating_sub(plans.len()));
        for plan in &deeper {
            if explored.findings.len() >= self.settings.findings || explored.runs >= self.settings.runs {
                break;
            }
            self.visit(reference, plan, &mut visited, explored)?;
        }
        Ok(())
    }

    /// Says which faults are not tried, and why.
    fn notes(&self, reference: &Reference) -> Vec<String> {
        let mut notes: Vec<String> =
            self.settings.without.iter().map(|kind| format!("{kind}: left out by the author")).collect();
        if !self.settings.only.is_empty() {
            notes.push(format!("only {} tried, as the author says", self.settings.only.join(", ")));
        }
        if self.subject.lease.is_none() {
            let reason = "the operator competes for no Lease, or has no right to one";
            notes.push(format!("leader faults: not tried, {reason}"));
        }
        if self.subject.webhooks.is_none() {
            notes.push("webhook outage: not tried, `.webhooks(..)` gives the operator's webhooks".to_owned());
        }
        let cached = |outcome: &Outcome| !outcome.cached.is_empty();
        if self.settings.watch_list {
            let reason =
                "a first state by WatchList is never old; `.server_like(\"1.31\")` tries an older server";
            notes.push(format!("stale restart: not tried, {reason}"));
        } else if !reference.outcomes.iter().any(cached) {
            let reason = "the operator begins with the newest state of each kind";
            notes.push(format!("stale restart: not possible, {reason}"));
        }
        notes
    }

    /// Runs one plan, confirms and keeps what it finds.
    fn visit(
        &self,
        reference: &Reference,
        plan: &Plan,
        visited: &mut BTreeSet<(usize, u64)>,
        explored: &mut Explored,
    ) -> Result<Option<Outcome>, ProveError> {
        explored.runs += 1;
        let attempt = self.attempt(reference, plan, visited)?;
        if plan.at == Fault::Restart {
            explored.expect(plan);
        }
        let Some((outcome, findings)) = attempt else {
            explored.count(plan, |count| count.known += 1);
            return Ok(None);
        };
        let missed = !outcome.struck && !plan.at.always_strikes();
        explored.count(plan, |count| {
            count.run += 1;
            count.missed += usize::from(missed);
        });
        for mut finding in findings {
            if finding.oracle.is_advisory() {
                if !explored.advisories.iter().any(|known| known.is_like(&finding)) {
                    explored.advisories.push(finding);
                }
                continue;
            }
            if finding.oracle == Oracle::LostUpdate && self.means_to(reference, plan, &outcome, explored)? {
                continue;
            }
            if explored.findings.iter().any(|known| known.is_like(&finding)) {
                continue;
            }
            if !self.confirmed(reference, plan, &finding, explored)? {
                explored.unconfirmed += 1;
                continue;
            }
            finding.trace = trace(reference, Some(plan), Some(&outcome));
            finding.page = page(reference, Some(plan), Some(&outcome));
            finding.file = self.file(Some(plan.clone()));
            explored.findings.push(finding);
        }
        Ok(Some(outcome))
    }

    /// Returns whether the operator also removes a mark that it has seen before the step.
    fn means_to(
        &self,
        reference: &Reference,
        plan: &Plan,
        outcome: &Outcome,
        explored: &mut Explored,
    ) -> Result<bool, ProveError> {
        let Some(mark) = outcome.lost.clone() else { return Ok(false) };
        let at = Fault::Marked { path: mark.path, condition: mark.condition };
        explored.runs += 1;
        let control = self.attempt(reference, &Plan { step: plan.step, at }, &mut BTreeSet::new())?;
        Ok(control.is_none_or(|(control, _)| control.lost.is_some()))
    }

    fn confirmed(
        &self,
        reference: &Reference,
        plan: &Plan,
        finding: &Finding,
        explored: &mut Explored,
    ) -> Result<bool, ProveError> {
        for _ in 0..CONFIRMATIONS {
            explored.runs += 1;
            let again = self.attempt(reference, plan, &mut BTreeSet::new())?;
            if !again.is_some_and(|(_, found)| found.iter().any(|other| other.is_like(finding))) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the plan file of a plan.
    pub fn file(&self, plan: Option<Plan>) -> String {
        let file = PlanFile {
            subject: self.subject.name.clone(),
            seed: self.settings.seed,
            life: self.life.clone(),
            plan,
        };
        file.to_yaml()
    }
}

/// The order in which kinds of faults are explored.
fn rank(fault: &Fault) -> u8 {
    match fault {
        Fault::Restart => 0,
        Fault::CrashAfter { .. } => 1,
        Fault::CrashBefore { .. } => 2,
        Fault::LostAnswer { .. } => 3,
        Fault::Bystander { .. } => 4,
        Fault::Refuse { .. } | Fault::Reset { .. } => 5,
        Fault::NextStep { .. } | Fault::Unseen { .. } => 6,
        Fault::StaleRestart { .. } | Fault::StaleCrash { .. } => 7,
        Fault::SlowDeletion { .. } | Fault::ServerRestart { .. } | Fault::Twin | Fault::ClockJump { .. } => 8,
        Fault::Cut { .. } | Fault::Gap { .. } | Fault::Drift { .. } => 9,
        Fault::WebhookOutage { .. } => 9,
        Fault::LeaderChange { .. } | Fault::LeaderCutOff { .. } | Fault::Replacement { .. } => 9,
        Fault::Hold { .. } | Fault::Swizzle { .. } => 10,
        Fault::Idle { .. } | Fault::CrashTwice { .. } | Fault::Marked { .. } => 11,
    }
}

/// Returns all single faults of a step, from the record of the step without one. `more`: another step follows.
pub fn single_faults(baseline: &Outcome, more: bool, settings: &Settings) -> Vec<Fault> {
    let long = (settings.patience / 2).as_secs();
    let holds = settings.pace.holds.clone().unwrap_or_else(|| vec![SHORT_HOLD, long]);
    let mut faults = Vec::new();
    for sent in baseline.sent.iter().filter(|sent| sent.call.is_work()) {
        of_write(sent, more, &mut faults);
    }
    let mut events: BTreeMap<&str, usize> = BTreeMap::new();
    for seen in &baseline.delivered {
        *events.entry(&seen.object.resource).or_default() += 1;
    }
    for (resource, count) in events {
        let resource = resource.to_owned();
        for event in 1..=count {
            faults.push(Fault::Cut { resource: resource.clone(), event });
            for &seconds in &holds {
                faults.push(Fault::Hold { resource: resource.clone(), event, seconds });
            }
        }
        if more {
            faults.push(Fault::Unseen { resource });
        }
    }
    faults
}

fn of_write(sent: &Sent, more: bool, faults: &mut Vec<Fault>) {
    let call = &sent.call;
    let write = Anchor {
        verb: call.verb.clone(),
        resource: call.target(),
        name: call.object.name.clone(),
        nth: sent.nth,
    };
    faults.extend([
        Fault::CrashAfter { write: write.clone() },
        Fault::CrashBefore { write: write.clone() },
        Fault::LostAnswer { write: write.clone() },
        Fault::Reset { write: write.clone() },
        Fault::Refuse { write: write.clone(), status: 500 },
        Fault::Refuse { write: write.clone(), status: 429 },
    ]);
    if call.verb != "POST" && !call.object.name.is_empty() {
        faults.push(Fault::Bystander { write: write.clone() });
    }
    if more {
        faults.push(Fault::NextStep { write });
    }
}
