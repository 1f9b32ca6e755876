//! Judges runs: what every run must satisfy.

use serde_json::Value;

pub use crate::finding::{Finding, Oracle, Statements};
use crate::finding::{Property, When, convergence, place};
use crate::plan::{Fault, Plan};
use crate::reference::{Reference, extend};
use crate::segment::Outcome;
use crate::state::{Difference, State, TWIN, View, any_state, differences, in_state};
use crate::undisturbed::{effect, flip_flop, ownership, readiness, residue, way_back};

/// The writes that a run may send: this many times those of the undisturbed run, and some more.
const WORK: (usize, usize) = (10, 50);

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
        ownership(reference, statements, &mut findings);
        flip_flop(reference, &mut findings);
    }
    findings
}

/// Notes what may be meant, or may be a mistake, in the undisturbed life.
pub fn advisories(reference: &Reference) -> Vec<Finding> {
    let mut advisories = Vec::new();
    if reference.outcomes.len() == reference.life.len() {
        effect(reference, &mut advisories);
        readiness(reference, &mut advisories);
    }
    advisories
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
    leader(outcome, &mut findings);
    let step = outcome.step;
    if outcome.unrest.is_none() {
        end_state(reference, outcome, plan, &mut findings);
        // Before the first step nobody has run the operator on this cluster: it may have work.
        if plan.at == Fault::Restart && plan.step > 1 {
            idempotence(outcome, &mut findings);
        }
        // By hand, things are deleted and made again more often.
        let by_hand = matches!(plan.at, Fault::Drift { .. });
        if !by_hand && (!plan.at.spans_two_steps() || matches!(plan.at, Fault::StaleRestart { .. })) {
            identity(reference, outcome, plan, &mut findings);
            // An operator that cannot see an owner's end makes again what the garbage collector deletes again.
            if !plan.at.is_late() {
                work(reference, outcome, &mut findings);
            }
        }
        if let Some(mark) = outcome.lost.as_ref().filter(|_| matches!(plan.at, Fault::Bystander { .. })) {
            let (object, kind) = mark.describe();
            let headline =
                format!("the operator overwrites {object} and loses the {kind} of a concurrent write");
            findings.push(Finding::new(Oracle::LostUpdate, object, headline));
        }
    }
    properties(outcome, &statements.properties, step + 1 == reference.life.len(), &mut findings);
    for finding in &mut findings {
        finding.plan = Some(plan.clone());
    }
    findings
}

/// Compares the end state with that of the undisturbed life.
fn end_state(reference: &Reference, outcome: &Outcome, plan: &Plan, findings: &mut Vec<Finding>) {
    let step = outcome.step;
    let mut scope = reference.scope.clone();
    extend(&mut scope, outcome);
    let mut found = State::of(&outcome.after, &scope);
    let expected = State::of(&reference.outcomes[step].after, &scope);
    if plan.at == Fault::Twin {
        isolation(reference, outcome, &expected, &found, findings);
        found.objects.retain(|name, _| name.namespace != TWIN && name.name != TWIN);
    }
    let mut differing = differences(&expected, &found, &reference.masks[step]);
    if plan.at == Fault::Twin {
        // A twin may have a cluster-wide object of its own, such as a volume.
        let of_twin = |difference: &Difference| {
            difference.place.path.is_empty()
                && difference.expected.is_none()
                && difference.place.object.namespace.is_empty()
        };
        differing.retain(|difference| !of_twin(difference));
    }
    if plan.at.spans_two_steps() {
        let asleep = reference.joined[step].as_ref().map(|joined| State::of(&joined.after, &scope));
        let other = asleep.map(|asleep| differences(&asleep, &found, &reference.masks[step]));
        // Fields that the server sets once depend on whether the operator saw the first of the two steps.
        differing.retain(|difference| {
            let also = |other: &Vec<Difference>| other.iter().any(|other| other.place == difference.place);
            other.as_ref().is_none_or(also) && !is_skipped(reference, step, difference)
        });
    }
    if matches!(plan.at, Fault::Drift { delete: true, .. }) {
        // An object that is made again may have new contents, such as a drawn password.
        differing.retain(|difference| difference.place.path.is_empty());
    }
    let mut first = differing.into_iter().next().map(|difference| convergence(&difference));
    if let (Some(finding), Fault::Drift { delete: false, object, .. }) = (&mut first, &plan.at) {
        // An operator may make an object once and leave it to people.
        finding.oracle = Oracle::Healing;
        finding.headline = format!("an edit of {object} by hand stays");
    }
    findings.extend(first);
}

/// Compares what the life made in its namespace with what the twin became in the other.
fn isolation(
    reference: &Reference,
    outcome: &Outcome,
    expected: &State,
    found: &State,
    findings: &mut Vec<Finding>,
) {
    let Some(home) = reference.life[outcome.step].namespace() else { return };
    // An operator may be made for one namespace: then it never looks at the twin.
    if !outcome.sent.iter().any(|sent| sent.call.is_work() && sent.call.object.namespace == TWIN) {
        return;
    }
    let before = State::of(&outcome.before, &reference.scope);
    for (name, value) in &expected.objects {
        if name.namespace != home || before.objects.contains_key(name) {
            continue;
        }
        let mut twin = name.clone();
        twin.namespace = TWIN.to_owned();
        let other = found.objects.get(&twin).map(|other| other.to_string().replace(TWIN, home));
        let other = other.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let one = State { objects: [(name.clone(), value.clone())].into(), ..State::default() };
        let objects = other.map(|other| (name.clone(), other)).into_iter().collect();
        let two = State { objects, ..State::default() };
        let differing = differences(&one, &two, &reference.masks[outcome.step]);
        if let Some(difference) = differing.first() {
            let mut finding = convergence(difference);
            finding.oracle = Oracle::Isolation;
            let words = "an object in another namespace becomes something else:";
            finding.headline = finding.headline.replace("the operator does not converge:", words);
            findings.push(finding);
            return;
        }
    }
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

/// Looks for a write of a replica that the Lease does not name any more.
fn leader(outcome: &Outcome, findings: &mut Vec<Finding>) {
    let Some(sent) = outcome.sent.iter().find(|sent| sent.rival.is_some()) else { return };
    let (holder, call) = (sent.rival.as_deref().unwrap_or_default(), &sent.call);
    let headline = format!("replica {} sends {call} while {holder} holds the Lease", sent.incarnation);
    findings.push(Finding::new(Oracle::Leader, sent.call.target(), headline));
}

/// The server also answers 403 where a namespace ends or a quota is used up: that is no lack of a right.
fn is_refusal_of_state(sent: &crate::traffic::Sent) -> bool {
    sent.call.verb == "POST"
}

fn idempotence(outcome: &Outcome, findings: &mut Vec<Finding>) {
    if let Some(sent) = outcome.woke.first() {
        let headline = format!("the restarted operator finds its work done and still sends {}", sent.call);
        findings.push(Finding::new(Oracle::Idempotence, sent.call.target(), headline));
    }
}

/// Compares creations and deletions. Objects with generated names are unknown to the undisturbed run and left out.
///
/// While the operator sees the past, objects that are gone at the end do not count: an operator that cannot see that
/// their owner is gone makes them again, and the garbage collector deletes them again.
fn identity(reference: &Reference, outcome: &Outcome, plan: &Plan, findings: &mut Vec<Finding>) {
    let held = plan.at.is_late();
    let mut known = reference.churn[outcome.step].clone();
    if plan.at.spans_two_steps() {
        for (name, count) in &reference.churn[outcome.step - 1] {
            let sum = known.entry(name.clone()).or_default();
            *sum = (sum.0 + count.0, sum.1 + count.1);
        }
    }
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
