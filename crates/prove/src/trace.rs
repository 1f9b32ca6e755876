//! The story of a run, for people.

use std::fmt::Write as _;

use setpoint_cluster::{Change, ChangeKind, change};

use crate::plan::{Fault, Plan};
use crate::reference::Reference;
use crate::resource::of_key;
use crate::segment::Outcome;
use crate::traffic::Sent;

/// The most lines of one trace.
const LINES: usize = 60;

/// Tells a run: who wrote what and when, where the fault was, and what the undisturbed operator does after it. Without
/// a run, tells the last step of the undisturbed life.
pub fn trace(reference: &Reference, plan: Option<&Plan>, outcome: Option<&Outcome>) -> String {
    let Some(outcome) = outcome.or(reference.outcomes.last()) else { return String::new() };
    let mut lines = lines(outcome);
    let mut text = format!("  {:>10}  {:<10}  {:<60}  version\n", "time", "who", "what");
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    if more > 0 {
        let _ = writeln!(text, "  … and {more} more");
    }
    if let Some(plan) = plan {
        text.push_str(&explanation(reference, plan, outcome));
    }
    text
}

/// Writes down everything of a step: requests with their bodies, delivered events, and commits. Objects that contain
/// the cluster's certificate are named only: keys are not drawn from the seed.
pub fn record(outcome: &Outcome) -> String {
    let step = outcome.step + 1;
    let mut text = String::new();
    for sent in &outcome.sent {
        let (at, status) = (sent.at.as_micros(), sent.status.unwrap_or_default());
        let body = String::from_utf8_lossy(&sent.body);
        let _ = writeln!(text, "{step} {at} {} -> {status} {body}", sent.call);
    }
    for seen in &outcome.delivered {
        let _ = writeln!(text, "{step} {} {} {}", seen.at.as_micros(), seen.kind, seen.object);
    }
    for event in &outcome.events {
        let key = String::from_utf8_lossy(&event.key);
        let value = event.new.as_ref().map(|entry| String::from_utf8_lossy(&entry.value).into_owned());
        let value = value.filter(|_| !key.ends_with("/kube-root-ca.crt")).unwrap_or_default();
        let _ = writeln!(text, "{step} {} {key} {value}", event.revision);
    }
    text
}

/// The lines of a step in the order of their versions.
fn lines(outcome: &Outcome) -> Vec<String> {
    let mut by_others: Vec<Change> = outcome.events.iter().map(|event| change(event)).collect();
    let mut lines = Vec::new();
    for sent in outcome.sent.iter().filter(|sent| sent.call.is_work()) {
        let own = |change: &Change| {
            let name = of_key(change.key.as_bytes());
            Some(change.revision) == sent.revision && name.is_some_and(|name| sent.call.is_about(&name))
        };
        while by_others.first().is_some_and(|change| change.revision <= sent.before) {
            lines.push(of_change(&by_others.remove(0)));
        }
        let position = by_others.iter().position(own);
        let change = position.map(|position| by_others.remove(position));
        lines.push(of_request(sent, change.as_ref()));
        if sent.fault.is_some() {
            lines.push(fault_bar(sent));
        }
    }
    lines.extend(by_others.iter().map(of_change));
    lines
}

fn of_change(change: &Change) -> String {
    let name = of_key(change.key.as_bytes()).map(|name| name.to_string()).unwrap_or_default();
    let word = match change.kind {
        ChangeKind::Created => "creates",
        ChangeKind::Updated => "changes",
        ChangeKind::Deleted => "deletes",
    };
    let who = change.manager.as_deref().unwrap_or("server");
    let what = format!("{word} {name} {}", change.fields.join(", "));
    format!(
        "  {:>10}  {:<10}  {:<60}  {}",
        "",
        shortened(who, 10),
        shortened(what.trim_end(), 60),
        change.revision
    )
}

fn of_request(sent: &Sent, change: Option<&Change>) -> String {
    let fields = change.map(|change| change.fields.join(", ")).unwrap_or_default();
    let status = match (sent.status, change) {
        (Some(status), _) if status >= 400 => format!("-> {status}"),
        (None, _) => "-> the server never got it".to_owned(),
        (Some(_), None) => "-> no change".to_owned(),
        _ => fields,
    };
    let what = format!("{} {status}", sent.call);
    let revision = sent.revision.map(|revision| revision.to_string()).unwrap_or_default();
    let time = format!("{}.{:03}", sent.at.as_secs(), sent.at.subsec_millis());
    format!(
        "  {time:>10}  {:<10}  {:<60}  {revision}",
        format!("operator {}", sent.incarnation),
        shortened(&what, 60)
    )
}

fn fault_bar(sent: &Sent) -> String {
    let fault = sent.fault.as_deref().unwrap_or_default();
    format!("  {:─>10}──{fault:─<10}──{:─<60}──", "", "")
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end.saturating_sub(1)]),
        None => text.to_owned(),
    }
}

/// Names the writes of the undisturbed step that the run lacks.
fn explanation(reference: &Reference, plan: &Plan, outcome: &Outcome) -> String {
    let Some(undisturbed) = reference.outcomes.get(outcome.step) else { return String::new() };
    let done: Vec<String> = effective(outcome).map(|sent| sent.call.to_string()).collect();
    let mut missing: Vec<String> = effective(undisturbed).map(|sent| sent.call.to_string()).collect();
    missing.retain(|call| !done.contains(call));
    missing.dedup();
    let usual: Vec<String> = effective(undisturbed).map(|sent| sent.call.to_string()).collect();
    let mut extra: Vec<String> = done.into_iter().filter(|call| !usual.contains(call)).collect();
    extra.dedup();
    let mut text = String::new();
    let place = match &plan.at {
        Fault::Restart => "After the restart",
        _ => "In this run",
    };
    if !missing.is_empty() {
        let _ = writeln!(
            text,
            "\n  Undisturbed the operator sends {}. {place} it never does.",
            missing.join(", ")
        );
    }
    if !extra.is_empty() {
        let _ = writeln!(text, "\n  {place} it also sends {}. Undisturbed it never does.", extra.join(", "));
    }
    text
}

fn effective(outcome: &Outcome) -> impl Iterator<Item = &Sent> {
    outcome.sent.iter().filter(|sent| sent.call.is_work() && sent.revision.is_some())
}
