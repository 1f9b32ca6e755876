//! The oracles: what every run must satisfy.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::life::Action;
use crate::plan::{Fault, Plan};
use crate::reference::{Reference, extend};
use crate::resource::ObjectName;
use crate::segment::Outcome;
use crate::state::{Difference, State, View, any_state, differences, in_state};

/// The writes that a run may send: this many times those of the undisturbed run, and some more.
const WORK: (usize, usize) = (10, 50);

/// The statement that a finding contradicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oracle {
    /// Once faults stop, the store becomes equal to that of the undisturbed run.
    Convergence,
    /// The operator comes to rest.
    Rest,
    /// A restarted operator that finds its work done changes nothing.
    Idempotence,
    /// No object is created or deleted more often than in the undisturbed run.
    Identity,
    /// The way back: applying the same object twice, with other steps between, leads to the same state.
    WayBack,
    /// Nothing that the operator made is left when the objects of the life are gone.
    Residue,
    /// `status.observedGeneration` is that of the object.
    Status,
    /// The operator neither panics nor ends.
    Panic,
    /// The operator is refused nothing for lack of a right.
    Rights,
    /// A disturbed operator sends at most ten times the writes of an undisturbed one, and fifty more.
    Work,
    /// A property of the author.
    Property,
}

impl Oracle {
    /// Returns the name, as reports print it.
    pub fn name(self) -> &'static str {
        match self {
            Oracle::Convergence => "convergence",
            Oracle::Rest => "rest",
            Oracle::Idempotence => "idempotence",
            Oracle::Identity => "identity",
            Oracle::WayBack => "way back",
            Oracle::Residue => "residue",
            Oracle::Status => "status",
            Oracle::Panic => "panic",
            Oracle::Rights => "rights",
            Oracle::Work => "work",
            Oracle::Property => "property",
        }
    }
}

/// A run that contradicts an oracle.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The oracle.
    pub oracle: Oracle,
    /// One sentence that says what is wrong.
    pub headline: String,
    /// The object and field, by which equal findings are recognised.
    pub place: String,
    /// The fault. `None`: the undisturbed life shows it.
    pub plan: Option<Plan>,
    /// The run and the undisturbed run, as text.
    pub trace: String,
    /// The file that replays the finding.
    pub file: String,
}

impl Finding {
    /// Returns whether two findings are the same defect.
    pub fn is_like(&self, other: &Finding) -> bool {
        self.oracle == other.oracle && self.place == other.place
    }

    fn new(oracle: Oracle, place: impl Into<String>, headline: String) -> Finding {
        let (trace, file) = (String::new(), String::new());
        Finding { oracle, headline, place: place.into(), plan: None, trace, file }
    }
}

/// When a property of the author must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In no state after any commit.
    Never,
    /// In the state after every commit.
    Always,
    /// At rest after the last step.
    Eventually,
}

/// A property of the author.
#[derive(Clone)]
pub struct Property {
    /// The time.
    pub when: When,
    /// Its name.
    pub name: String,
    /// The test of one state.
    pub holds: Arc<dyn Fn(&View<'_>) -> bool + Send + Sync>,
}

/// The author's statements about an operator.
#[derive(Clone, Default)]
pub struct Statements {
    /// Properties.
    pub properties: Vec<Property>,
    /// Resources of which objects may outlive the life.
    pub keeps: BTreeSet<String>,
}

/// Judges the undisturbed life.
pub fn of_reference(reference: &Reference, statements: &Statements) -> Vec<Finding> {
    let mut findings = Vec::new();
    for outcome in &reference.outcomes {
        common(outcome, &mut findings);
        if outcome.unrest.is_none() {
            let state = &reference.states[outcome.step];
            status_truth(state, &mut findings);
        }
        let last = outcome.step + 1 == reference.life.len();
        properties(outcome, &statements.properties, last, &mut findings);
    }
    if reference.outcomes.iter().all(|outcome| outcome.unrest.is_none()) {
        way_back(reference, statements, &mut findings);
        residue(reference, statements, &mut findings);
    }
    findings
}

/// Judges a run with a fault.
pub fn of_run(
    reference: &Reference,
    statements: &Statements,
    outcome: &Outcome,
    plan: &Plan,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    common(outcome, &mut findings);
    let step = outcome.step;
    if outcome.unrest.is_none() {
        let mut scope = reference.scope.clone();
        extend(&mut scope, outcome);
        let found = State::of(&outcome.after, &scope);
        let expected = State::of(&reference.outcomes[step].after, &scope);
        let mut differing = differences(&expected, &found, &reference.masks[step]);
        if plan.at.spans_two_steps() {
            let asleep = reference.joined[step].as_ref().map(|joined| State::of(&joined.after, &scope));
            let other = asleep.map(|asleep| differences(&asleep, &found, &reference.masks[step]));
            // Fields that the server sets once depend on whether the operator saw the first of the two steps.
            differing.retain(|difference| {
                let also =
                    |other: &Vec<Difference>| other.iter().any(|other| other.place == difference.place);
                other.as_ref().is_none_or(also) && !is_skipped(reference, step, difference)
            });
        }
        findings.extend(differing.into_iter().next().map(|difference| convergence(&difference)));
        if plan.at == Fault::Restart {
            idempotence(outcome, &mut findings);
        }
        if !plan.at.spans_two_steps() {
            let held = matches!(plan.at, Fault::Hold { .. });
            identity(reference, outcome, held, &mut findings);
            work(reference, outcome, &mut findings);
        }
    }
    properties(outcome, &statements.properties, step + 1 == reference.life.len(), &mut findings);
    for finding in &mut findings {
        finding.plan = Some(plan.clone());
    }
    findings
}

/// An object that an operator makes in a step need not be made if the next step comes before.
fn is_skipped(reference: &Reference, step: usize, difference: &Difference) -> bool {
    let object = &difference.place.object;
    let was_there = step > 0 && reference.states[step - 1].objects.contains_key(object);
    difference.place.path.is_empty() && difference.found.is_none() && was_there
}

fn common(outcome: &Outcome, findings: &mut Vec<Finding>) {
    if let Some(exit) = outcome.exits.first() {
        findings.push(Finding::new(Oracle::Panic, "exit", format!("the operator ended: {exit}")));
    } else if outcome.panics > 0 {
        let headline = format!("the operator panicked {} times", outcome.panics);
        findings.push(Finding::new(Oracle::Panic, "panic", headline));
    }
    if let Some(unrest) = &outcome.unrest {
        let most = outcome.sent.iter().rev().find(|sent| sent.call.is_work());
        let place = most.map(|sent| sent.call.target()).unwrap_or_default();
        let headline = format!("the operator never rests: {unrest}; the last was {place}");
        findings.push(Finding::new(Oracle::Rest, place, headline));
    }
    if let Some(sent) =
        outcome.sent.iter().find(|sent| sent.status == Some(403) && !is_refusal_of_state(sent))
    {
        let headline = format!("the operator lacks the right to {}", sent.call);
        findings.push(Finding::new(Oracle::Rights, sent.call.target(), headline));
    }
}

/// The server also answers 403 where a namespace ends or a quota is used up: that is no lack of a right.
fn is_refusal_of_state(sent: &crate::traffic::Sent) -> bool {
    sent.call.verb == "POST"
}

fn convergence(difference: &Difference) -> Finding {
    let object = &difference.place.object;
    let show = |value: &Option<Value>| value.as_ref().map_or("absent".to_owned(), short);
    let headline = match (difference.place.path.as_str(), &difference.found) {
        ("", None) => format!("the operator does not converge: {object} is missing"),
        ("", Some(_)) => format!("the operator does not converge: {object} should not be there"),
        (path, found) => format!(
            "the operator does not converge: {object} has {path} {}, undisturbed {}",
            show(found),
            show(&difference.expected)
        ),
    };
    Finding::new(Oracle::Convergence, place(object, &difference.place.path), headline)
}

/// Shortens a value for one line.
pub fn short(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn place(object: &ObjectName, path: &str) -> String {
    format!("{object} {path}").trim_end().to_owned()
}

fn idempotence(outcome: &Outcome, findings: &mut Vec<Finding>) {
    if let Some(sent) = outcome.woke.first() {
        let headline = format!("the restarted operator finds its work done and still sends {}", sent.call);
        findings.push(Finding::new(Oracle::Idempotence, sent.call.target(), headline));
    }
}

/// Compares creations and deletions. Objects with generated names are unknown to the undisturbed run and left out.
///
/// With `held`, objects that are gone at the end do not count: an operator that cannot see that their owner is gone
/// makes them again, and the garbage collector deletes them again.
fn identity(reference: &Reference, outcome: &Outcome, held: bool, findings: &mut Vec<Finding>) {
    let known = &reference.churn[outcome.step];
    let before = State::of(&outcome.before, &reference.scope);
    let after = State::of(&outcome.after, &reference.scope);
    for (name, count) in &outcome.churn {
        let gone = held && !after.uids.contains_key(name);
        if gone || !reference.scope.resources.contains(&name.resource) {
            continue;
        }
        let most = match known.get(name) {
            Some(most) => *most,
            None if before.uids.contains_key(name) => (0, 0),
            None => continue,
        };
        let word = match (count.0 > most.0, count.1 > most.1) {
            (_, true) => format!("deleted {} times, undisturbed {}", count.1, most.1),
            (true, _) => format!("created {} times, undisturbed {}", count.0, most.0),
            _ => continue,
        };
        findings.push(Finding::new(Oracle::Identity, place(name, ""), format!("{name} is {word}")));
        return;
    }
}

fn work(reference: &Reference, outcome: &Outcome, findings: &mut Vec<Finding>) {
    let count = |outcome: &Outcome| outcome.sent.iter().filter(|sent| sent.call.is_work()).count();
    let (writes, usual) = (count(outcome), count(&reference.outcomes[outcome.step]));
    if writes > usual * WORK.0 + WORK.1 {
        let headline = format!("the operator sends {writes} writes, undisturbed {usual}");
        findings.push(Finding::new(Oracle::Work, "writes", headline));
    }
}

fn status_truth(state: &State, findings: &mut Vec<Finding>) {
    // The generation of an object that is on its way out grew with its deletion.
    let behind = |object: &&Value| {
        object["metadata"]["deletionTimestamp"].is_null()
            && object.pointer("/status/observedGeneration") == Some(&"behind".into())
    };
    if let Some((name, _)) = state.objects.iter().find(|(_, object)| behind(object)) {
        let headline = format!("at rest {name} has a status.observedGeneration that is not its generation");
        findings.push(Finding::new(Oracle::Status, place(name, "status.observedGeneration"), headline));
    }
}

fn properties(outcome: &Outcome, properties: &[Property], last: bool, findings: &mut Vec<Finding>) {
    for property in properties {
        let holds = |view: &View<'_>| (property.holds)(view);
        let ever = |look: &dyn Fn(&View<'_>) -> bool| any_state(&outcome.before, &outcome.events, look);
        let broken = match property.when {
            When::Never => ever(&holds),
            When::Always => ever(&|view: &View<'_>| !holds(view)),
            When::Eventually => last && outcome.unrest.is_none() && !in_state(&outcome.after, holds),
        };
        if broken {
            let word = match property.when {
                When::Never => "never",
                When::Always => "always",
                When::Eventually => "eventually",
            };
            let headline = format!("the property does not hold: {word} {}", property.name);
            findings.push(Finding::new(Oracle::Property, property.name.clone(), headline));
        }
    }
}

/// Compares the states after equal steps that apply the same object, if no object of the life was deleted between.
fn way_back(reference: &Reference, statements: &Statements, findings: &mut Vec<Finding>) {
    let life = &reference.life;
    for last in 1..life.len() {
        let Some(first) = (0..last).rev().find(|first| life[*first].applies_same(&life[last])) else {
            continue;
        };
        let between = &life[first + 1..last];
        let foreign = |action: &Action| action.deletes() || !life[last].is_about_same(action);
        if between.is_empty() || between.iter().any(foreign) {
            continue;
        }
        let masks = reference.masks[first].union(&reference.masks[last]).cloned().collect();
        let differing = differences(&reference.states[first], &reference.states[last], &masks);
        let kept = |difference: &&Difference| {
            difference.place.path.is_empty() && statements.keeps.contains(&difference.place.object.resource)
        };
        if let Some(difference) = differing.iter().find(|difference| !kept(difference)) {
            let mut finding = convergence(difference);
            finding.oracle = Oracle::WayBack;
            finding.headline =
                finding.headline.replace("the operator does not converge:", "the way back differs:");
            finding.headline = finding.headline.replace("undisturbed", "the first time");
            findings.push(finding);
            return;
        }
    }
}

/// Looks for objects of the operator that outlive a life whose last word on each object is its deletion.
fn residue(reference: &Reference, statements: &Statements, findings: &mut Vec<Finding>) {
    let Some(end) = reference.outcomes.last() else { return };
    let lives = |action: &Action| {
        let same = |other: &&Action| other.name() == action.name() && other.resource() == action.resource();
        reference.life.iter().rev().find(same).is_some_and(|last| !last.deletes())
    };
    if reference.life.iter().any(lives) {
        return;
    }
    let before = State::of(&reference.outcomes[0].before, &reference.scope);
    let after = State::of(&end.after, &reference.scope);
    let left = after
        .objects
        .keys()
        .find(|name| !before.objects.contains_key(*name) && !statements.keeps.contains(&name.resource));
    if let Some(name) = left {
        let headline = format!("{name} is left when every object of the life is gone");
        findings.push(Finding::new(Oracle::Residue, place(name, ""), headline));
    }
}
