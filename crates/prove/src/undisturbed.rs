//! The oracles that judge the undisturbed life alone.

use std::collections::BTreeMap;

use serde_json::Value;
use setpoint_store::{KeyRange, Snapshot};

use crate::finding::{Finding, Oracle, Statements, convergence, place};
use crate::life::Action;
use crate::reference::Reference;
use crate::resource::{ObjectName, of_key};
use crate::segment::Outcome;
use crate::state::{Difference, State, differences};

/// Compares the states after equal steps that apply the same object, if no object of the life was deleted between.
pub fn way_back(reference: &Reference, statements: &Statements, findings: &mut Vec<Finding>) {
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
            let broken = reference.outcomes[first + 1..last].iter().any(|outcome| unready(outcome).is_some());
            let mut finding = convergence(difference);
            (finding.oracle, finding.headline) = if broken {
                let words = "the operator does not recover from a broken step:";
                (Oracle::Recovery, finding.headline.replace("the operator does not converge:", words))
            } else {
                let words = "the way back differs:";
                (Oracle::WayBack, finding.headline.replace("the operator does not converge:", words))
            };
            finding.headline = finding.headline.replace("undisturbed", "the first time");
            findings.push(finding);
            return;
        }
    }
}

/// Looks for objects of the operator that outlive a life whose last word on each object is its deletion.
pub fn residue(reference: &Reference, statements: &Statements, findings: &mut Vec<Finding>) {
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

/// Looks for a workload or pod that is not ready at the end of a step.
fn unready(outcome: &Outcome) -> Option<ObjectName> {
    objects(&outcome.after).into_iter().find(|(_, object)| is_unready(object)).map(|(name, _)| name)
}

/// Returns whether an object says that it is not ready. An object without a status says nothing.
fn is_unready(object: &Value) -> bool {
    let status = &object["status"];
    let condition = |name: &str| {
        let conditions = status["conditions"].as_array();
        conditions.into_iter().flatten().find(|condition| condition["type"] == name)
    };
    match object["kind"].as_str().unwrap_or_default() {
        "Pod" => {
            status["phase"] != "Succeeded" && condition("Ready").is_none_or(|ready| ready["status"] != "True")
        }
        "Deployment" | "StatefulSet" | "ReplicaSet" => {
            let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
            let observed = !status["observedGeneration"].is_null();
            observed && status["readyReplicas"].as_i64().unwrap_or(0) < wanted
        }
        _ => false,
    }
}

fn objects(snapshot: &Snapshot) -> BTreeMap<ObjectName, Value> {
    let entries = snapshot.range(&KeyRange::prefix("/registry/"), None);
    let read = entries.filter_map(|entry| {
        let object = serde_json::from_slice(&entry.value).ok()?;
        Some((of_key(&entry.key)?, object))
    });
    read.collect()
}

/// Looks for owners out of reach of the garbage collector, and for objects that nothing will delete.
pub fn ownership(reference: &Reference, statements: &Statements, findings: &mut Vec<Finding>) {
    for outcome in &reference.outcomes {
        let there = objects(&outcome.after);
        let uid = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
        let by_uid: BTreeMap<String, &ObjectName> =
            there.iter().filter_map(|(name, object)| Some((uid(object)?, name))).collect();
        for sent in outcome.sent.iter().filter(|sent| sent.call.is_work() && sent.revision.is_some()) {
            let Some(object) = there.get(&sent.call.object) else { continue };
            let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let owner = |owner: &Value| by_uid.get(owner["uid"].as_str()?).copied();
            let foreign = owners
                .iter()
                .filter_map(owner)
                .find(|owner| !owner.namespace.is_empty() && owner.namespace != sent.call.object.namespace);
            if let Some(owner) = foreign {
                let name = &sent.call.object;
                let headline =
                    format!("{name} is owned by {owner} of another namespace, and will be deleted");
                findings.push(Finding::new(Oracle::Ownership, place(name, ""), headline));
                return;
            }
        }
    }
    // A life that ends with deletions shows what is left: that is the residue.
    let ends_alive = reference.life.last().is_some_and(|action| !action.deletes());
    let Some(end) = reference.outcomes.last().filter(|_| ends_alive) else { return };
    let there = objects(&end.after);
    let has_finalizer = |action: &Action| {
        let of_action = |name: &&ObjectName| name.resource == action.resource() && name.name == action.name();
        let object = there.keys().find(of_action).and_then(|name| there.get(name));
        object.is_some_and(|object| !object["metadata"]["finalizers"].is_null())
    };
    if reference.life.iter().any(has_finalizer) {
        return;
    }
    let of_life = |name: &ObjectName| reference.life.iter().any(|action| action.resource() == name.resource);
    for (name, object) in &there {
        let made = reference.churn.iter().any(|churn| churn.get(name).is_some_and(|count| count.0 > 0));
        let by_operator = reference
            .outcomes
            .iter()
            .flat_map(|outcome| &outcome.sent)
            .any(|sent| sent.revision.is_some() && sent.call.is_work() && sent.call.is_about(name));
        let loose = object["metadata"]["ownerReferences"].is_null();
        if made && by_operator && loose && !of_life(name) && !statements.keeps.contains(&name.resource) {
            let headline = format!("{name} has no owner, and no finalizer would delete it");
            findings.push(Finding::new(Oracle::Ownership, place(name, ""), headline));
            return;
        }
    }
}

/// Looks for an object that goes back and forth between two states.
pub fn flip_flop(reference: &Reference, findings: &mut Vec<Finding>) {
    for outcome in &reference.outcomes {
        let mut states: BTreeMap<ObjectName, Vec<String>> = BTreeMap::new();
        for event in &outcome.events {
            let Some(name) = of_key(&event.key) else { continue };
            if !reference.scope.resources.contains(&name.resource) {
                continue;
            }
            let past = states.entry(name).or_default();
            let Some(entry) = &event.new else {
                past.clear();
                continue;
            };
            let mut object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
            object.as_object_mut().map(|fields| fields.remove("status"));
            object.as_object_mut().map(|fields| fields.remove("metadata"));
            let text = object.to_string();
            if past.last() != Some(&text) {
                past.push(text);
            }
        }
        let swings =
            |past: &Vec<String>| past.windows(4).any(|four| four[0] == four[2] && four[1] == four[3]);
        if let Some((name, _)) = states.iter().find(|(_, past)| swings(past)) {
            let headline = format!("{name} goes back and forth between two states");
            findings.push(Finding::new(Oracle::FlipFlop, place(name, ""), headline));
            return;
        }
    }
}

/// Looks for changes of the spec that change nothing else.
pub fn effect(reference: &Reference, advisories: &mut Vec<Finding>) {
    for step in 1..reference.life.len() {
        let action = &reference.life[step];
        let (before, after) = (&reference.states[step - 1], &reference.states[step]);
        let of_action = |name: &ObjectName| name.resource == action.resource() && name.name == action.name();
        let differing = differences(before, after, &reference.masks[step]);
        let (own, others): (Vec<&Difference>, Vec<&Difference>) =
            differing.iter().partition(|difference| of_action(&difference.place.object));
        let spec: Vec<&str> = own
            .iter()
            .map(|difference| difference.place.path.as_str())
            .filter(|path| path.starts_with("spec."))
            .collect();
        let status = own.iter().any(|difference| difference.place.path.starts_with("status"));
        if !spec.is_empty() && others.is_empty() && !status {
            let object = &own[0].place.object;
            let fields = spec.join(", ");
            let headline = format!("the change of {fields} of {object} has no effect (step {})", step + 1);
            advisories.push(Finding::new(Oracle::Effect, place(object, &fields), headline));
        }
    }
}

/// Looks for objects of the life that say that they are ready while a child is not.
pub fn readiness(reference: &Reference, advisories: &mut Vec<Finding>) {
    for outcome in &reference.outcomes {
        let there = objects(&outcome.after);
        for (name, object) in &there {
            let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
            let of_life = reference.life.iter().any(|action| action.resource() == name.resource);
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            if !of_life || !conditions.into_iter().flatten().any(ready) {
                continue;
            }
            let owned = |child: &Value| {
                let owners = child["metadata"]["ownerReferences"].as_array();
                owners.into_iter().flatten().any(|owner| owner["uid"] == object["metadata"]["uid"])
            };
            let child = there.iter().find(|(_, child)| owned(child) && is_unready(child));
            if let Some((child, _)) = child {
                let headline = format!("{name} says Ready while {child} is not (step {})", outcome.step + 1);
                advisories.push(Finding::new(Oracle::Readiness, place(name, "status.conditions"), headline));
                return;
            }
        }
    }
}
