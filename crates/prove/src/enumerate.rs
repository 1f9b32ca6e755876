//! The plans of a step besides those of one write or one event.

use std::collections::{BTreeMap, BTreeSet};

use crate::life::Action;
use crate::plan::{Anchor, Fault, Plan};
use crate::reference::Reference;
use crate::resource::{ObjectName, of_key};
use crate::segment::Outcome;
use crate::state::State;
use crate::traffic::Sent;

/// Kinds that are tried in every order. Of more kinds, each is tried first and last.
const ALL_ORDERS: usize = 4;
/// Length of a gap in the watch of a kind, in seconds.
const GAP: u64 = 6;
/// Length of an outage of the operator's webhooks, in seconds.
const OUTAGE: u64 = 30;
/// Jump of the operator's clock in seconds.
const JUMP: i64 = 3600;

/// Returns further faults of a step, from the record of the step without one. `idle`: the hours of idle time.
pub fn further_faults(baseline: &Outcome, reference: &Reference, step: usize, idle: u64) -> Vec<Fault> {
    let mut faults = Vec::new();
    let action = &reference.life[step];
    for sent in baseline.sent.iter().filter(|sent| sent.call.is_work()) {
        let write = anchor(sent);
        if sent.call.verb == "DELETE" && !sent.call.object.name.is_empty() {
            faults.push(Fault::SlowDeletion { write: write.clone() });
        }
        faults.push(Fault::ServerRestart { write });
    }
    let mut kinds: Vec<String> = Vec::new();
    for seen in &baseline.delivered {
        let resource = seen.object.resource.clone();
        let event = 1 + kinds.iter().filter(|kind| **kind == resource).count();
        faults.push(Fault::Gap { resource: resource.clone(), event, seconds: GAP });
        kinds.push(resource);
    }
    let kinds: BTreeSet<String> = kinds.into_iter().collect();
    if kinds.len() > 1 {
        faults.extend(orders(&kinds).into_iter().map(|order| Fault::Swizzle { order }));
    }
    faults.extend(stale(baseline, reference, step));
    faults.extend(drift(baseline, reference));
    if is_new(baseline, action) && action.namespace().is_some() {
        faults.push(Fault::Twin);
    }
    faults.extend([JUMP, -JUMP].map(|seconds| Fault::ClockJump { seconds }));
    if reference.life.iter().rposition(|action| !action.deletes()) == Some(step) {
        faults.push(Fault::Idle { hours: idle });
    }
    faults
}

/// Returns the faults of two replicas.
pub fn leader_faults(baseline: &Outcome) -> Vec<Fault> {
    let mut faults = Vec::new();
    for sent in baseline.sent.iter().filter(|sent| sent.call.is_work()) {
        let write = anchor(sent);
        faults.extend([false, true].map(|stale| Fault::LeaderChange { write: write.clone(), stale }));
        faults.push(Fault::LeaderCutOff { write: write.clone() });
        faults.push(Fault::Replacement { write });
    }
    faults
}

/// Returns the outages of the operator's webhooks.
pub fn webhook_faults(baseline: &Outcome) -> Vec<Fault> {
    let writes = baseline.sent.iter().filter(|sent| sent.call.is_work());
    writes.map(|sent| Fault::WebhookOutage { write: anchor(sent), seconds: OUTAGE }).collect()
}

/// Returns crashes in the recovery from a crash, from the record of that recovery.
pub fn second_crashes(plan: &Plan, outcome: &Outcome) -> Vec<Plan> {
    let Fault::CrashAfter { write } = &plan.at else { return Vec::new() };
    let mut counts: Vec<Anchor> = Vec::new();
    let recovery = outcome.sent.iter().filter(|sent| sent.incarnation > 1 && sent.call.is_work());
    let second = recovery.map(|sent| {
        let mut then = anchor(sent);
        then.nth = 0;
        counts.push(then.clone());
        then.nth = counts.iter().filter(|known| **known == Anchor { nth: 0, ..then.clone() }).count();
        Plan { step: plan.step, at: Fault::CrashTwice { write: write.clone(), then } }
    });
    second.collect()
}

/// Returns about `most` of some plans, in the same order: an even part of each kind of fault, and at least one.
pub fn sample(plans: Vec<Plan>, most: usize) -> Vec<Plan> {
    let total = plans.len();
    if total <= most {
        return plans;
    }
    let mut of_kind: BTreeMap<&'static str, usize> = BTreeMap::new();
    for plan in &plans {
        *of_kind.entry(plan.at.kind()).or_default() += 1;
    }
    let share = |count: usize| (count * most / total).max(1);
    let mut seen: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut is_taken = |plan: &Plan| {
        let kind = plan.at.kind();
        let (count, index) = (of_kind[kind], seen.entry(kind).or_default());
        let share = share(count);
        // The first plan of each of `share` equal parts.
        let part = |index: usize| index * share / count;
        let first = *index == 0 || part(*index) != part(*index - 1);
        *index += 1;
        first
    };
    plans.into_iter().filter(|plan| is_taken(plan)).collect()
}

fn anchor(sent: &Sent) -> Anchor {
    Anchor {
        verb: sent.call.verb.clone(),
        resource: sent.call.target(),
        name: sent.call.object.name.clone(),
        nth: sent.nth,
    }
}

fn is_new(baseline: &Outcome, action: &Action) -> bool {
    let scope = crate::state::Scope { resources: [action.resource()].into(), ..Default::default() };
    let before = State::of(&baseline.before, &scope);
    action.applies() && !before.objects.keys().any(|name| name.name == action.name())
}

/// Returns the orders in which some kinds catch up.
fn orders(kinds: &BTreeSet<String>) -> Vec<Vec<String>> {
    let all: Vec<String> = kinds.iter().cloned().collect();
    if all.len() <= ALL_ORDERS {
        return permutations(&all);
    }
    let mut orders = Vec::new();
    for kind in &all {
        orders.extend(first_and_last(kind, &all));
    }
    orders
}

fn permutations(kinds: &[String]) -> Vec<Vec<String>> {
    if kinds.len() < 2 {
        return vec![kinds.to_vec()];
    }
    let mut all = Vec::new();
    for (index, kind) in kinds.iter().enumerate() {
        let mut rest = kinds.to_vec();
        rest.remove(index);
        for tail in permutations(&rest) {
            all.push([vec![kind.clone()], tail].concat());
        }
    }
    all
}

fn first_and_last(kind: &str, all: &[String]) -> [Vec<String>; 2] {
    let others: Vec<String> = all.iter().filter(|other| *other != kind).cloned().collect();
    let kind = vec![kind.to_owned()];
    [[kind.clone(), others.clone()].concat(), [others, kind].concat()]
}

/// Returns restarts after the step, and after the next one, on each state of the step that differs in a kind whose
/// first state the operator takes from a cache.
fn stale(baseline: &Outcome, reference: &Reference, step: usize) -> Vec<Fault> {
    let all: Vec<String> = baseline.cached.iter().cloned().collect();
    if all.is_empty() {
        return Vec::new();
    }
    let mut views = vec![0];
    let mut revisions: Vec<u64> = Vec::new();
    for event in &baseline.events {
        if revisions.last() != Some(&event.revision) {
            revisions.push(event.revision);
        }
        let read = of_key(&event.key).is_some_and(|name| baseline.cached.contains(&name.resource));
        if read && views.last() != Some(&revisions.len()) {
            views.push(revisions.len());
        }
    }
    let orders = first_and_last(&reference.life[step].resource(), &all);
    let mut faults = stale_crashes(baseline, &revisions, &orders[1]);
    for steps in 1..=2 {
        if step + steps > reference.outcomes.len() {
            continue;
        }
        for commits in &views {
            for order in &orders {
                faults.push(Fault::StaleRestart { commits: *commits, order: order.clone(), steps });
            }
        }
    }
    faults
}

/// Returns crashes after each write, with a successor that sees the state before the write or before the step.
fn stale_crashes(baseline: &Outcome, revisions: &[u64], order: &[String]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for sent in baseline.sent.iter().filter(|sent| sent.call.is_work()) {
        let Some(revision) = sent.revision else { continue };
        let before = revisions.iter().filter(|known| **known < revision).count();
        let views: BTreeSet<usize> = [0, before].into();
        faults.extend(views.into_iter().map(|commits| Fault::StaleCrash {
            write: anchor(sent),
            commits,
            order: order.to_vec(),
        }));
    }
    faults
}

/// Returns changes by hand of the children that the step wrote.
fn drift(baseline: &Outcome, reference: &Reference) -> Vec<Fault> {
    let of_life = |name: &ObjectName| {
        reference.life.iter().any(|action| action.resource() == name.resource && action.name() == name.name)
    };
    let after = State::of(&baseline.after, &reference.scope);
    let mut seen = BTreeSet::new();
    let mut faults = Vec::new();
    for sent in baseline.sent.iter().filter(|sent| sent.call.is_work() && sent.revision.is_some()) {
        let object = sent.call.object.clone();
        // An object with a generated name is another one in each run.
        let known = sent.call.subresource.is_empty() && after.uids.contains_key(&object);
        if !known || of_life(&object) || !seen.insert(object.clone()) {
            continue;
        }
        let path = match sent.call.verb.as_str() {
            "POST" => format!("{}/{}", sent.call.path, object.name),
            _ => sent.call.path.clone(),
        };
        for delete in [true, false] {
            faults.push(Fault::Drift { path: path.clone(), object: object.clone(), delete });
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_every_kind_and_spreads_over_each() {
        let cut = |event| Plan { step: 1, at: Fault::Cut { resource: "pods".into(), event } };
        let mut plans: Vec<Plan> = (1..=90).map(cut).collect();
        plans.push(Plan { step: 1, at: Fault::Twin });
        let taken = sample(plans.clone(), 10);
        assert_eq!(taken.len(), 10, "{taken:?}");
        assert!(taken.contains(&cut(1)) && taken.contains(&cut(81)), "{taken:?}");
        assert_eq!(taken.last(), plans.last());
        assert_eq!(sample(plans.clone(), 91), plans);
    }
}
