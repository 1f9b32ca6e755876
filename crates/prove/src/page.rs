//! The story of a run as a part of an HTML page: one lane for each actor, the undisturbed run beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use setpoint_cluster::change;
use setpoint_store::Event;

use crate::plan::Plan;
use crate::reference::Reference;
use crate::resource::of_key;
use crate::segment::Outcome;
use crate::traffic::Sent;

/// The most rows of one run.
const ROWS: usize = 200;
/// The most lines of one difference.
const LINES: usize = 40;

/// One thing that happened.
struct Row {
    lane: String,
    time: String,
    what: String,
    version: String,
    /// The changed fields, with the values before and after.
    fields: Vec<(String, String, String)>,
    fault: Option<String>,
}

/// Tells a run beside the undisturbed one. Without a run, tells the last step of the undisturbed life.
pub fn page(reference: &Reference, plan: Option<&Plan>, outcome: Option<&Outcome>) -> String {
    let Some(last) = reference.outcomes.last() else { return String::new() };
    let mut text = String::from("<div class=\"runs\">\n");
    match outcome {
        None => column(&mut text, "Undisturbed", last),
        Some(outcome) => {
            let title = plan.map_or_else(|| "This run".to_owned(), ToString::to_string);
            column(&mut text, &title, outcome);
            column(&mut text, "Undisturbed", reference.outcomes.get(outcome.step).unwrap_or(last));
        }
    }
    text.push_str("</div>\n");
    text
}

/// Escapes text for XML and HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn column(text: &mut String, title: &str, outcome: &Outcome) {
    let rows = rows(outcome);
    let mut lanes: Vec<&str> = Vec::new();
    for row in &rows {
        if !lanes.contains(&row.lane.as_str()) {
            lanes.push(&row.lane);
        }
    }
    let _ = writeln!(text, "<section><h3>{}</h3>", escape(title));
    let _ = writeln!(text, "<div class=\"lanes\" style=\"--lanes: {}\">", lanes.len().max(1));
    text.push_str("<b class=\"time\">time</b>");
    for lane in &lanes {
        let _ = write!(text, "<b>{}</b>", escape(lane));
    }
    text.push('\n');
    for row in rows.iter().take(ROWS) {
        let lane = lanes.iter().position(|lane| *lane == row.lane).unwrap_or(0) + 2;
        let _ = write!(text, "<span class=\"time\">{}</span>", row.time);
        let _ = write!(text, "<details class=\"box\" style=\"grid-column: {lane}\"><summary>");
        let _ =
            writeln!(text, "{} <i>{}</i></summary>{}</details>", escape(&row.what), row.version, diff(row));
        if let Some(fault) = &row.fault {
            let _ = writeln!(text, "<div class=\"fault\">{}</div>", escape(fault));
        }
    }
    if rows.len() > ROWS {
        let _ = writeln!(text, "<div class=\"more\">… and {} more</div>", rows.len() - ROWS);
    }
    text.push_str("</div></section>\n");
}

fn diff(row: &Row) -> String {
    if row.fields.is_empty() {
        return "<p>nothing changed</p>".to_owned();
    }
    let mut text = String::from("<table><tr><th>field</th><th>before</th><th>after</th></tr>");
    for (field, before, after) in row.fields.iter().take(LINES) {
        let cells = [field, before, after].map(|cell| format!("<td>{}</td>", escape(cell))).concat();
        let _ = write!(text, "<tr>{cells}</tr>");
    }
    text.push_str("</table>");
    text
}

/// Returns what happened, in the order of the versions.
fn rows(outcome: &Outcome) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut events = outcome.events.iter().peekable();
    for sent in outcome.sent.iter().filter(|sent| sent.call.is_work()) {
        while let Some(event) = events.next_if(|event| event.revision <= sent.before) {
            rows.push(of_event(event));
        }
        let own = |event: &&std::sync::Arc<Event>| Some(event.revision) == sent.revision;
        let event = events.next_if(own);
        rows.push(of_request(sent, event.map(AsRef::as_ref)));
    }
    rows.extend(events.map(|event| of_event(event)));
    rows
}

fn of_request(sent: &Sent, event: Option<&Event>) -> Row {
    let status = sent.status.map_or_else(|| "not sent".to_owned(), |status| status.to_string());
    Row {
        lane: format!("operator {}", sent.incarnation),
        time: format!("{}.{:03}", sent.at.as_secs(), sent.at.subsec_millis()),
        what: format!("{} → {status}", sent.call),
        version: sent.revision.map(|revision| revision.to_string()).unwrap_or_default(),
        fields: event.map(fields).unwrap_or_default(),
        fault: sent.fault.clone(),
    }
}

fn of_event(event: &Event) -> Row {
    let name = of_key(&event.key).map(|name| name.to_string()).unwrap_or_default();
    let word = match (&event.old, &event.new) {
        (None, _) => "creates",
        (_, None) => "deletes",
        _ => "changes",
    };
    Row {
        lane: change(event).manager.unwrap_or_else(|| "server".to_owned()),
        time: String::new(),
        what: format!("{word} {name}"),
        version: event.revision.to_string(),
        fields: fields(event),
        fault: None,
    }
}

/// Returns the fields that an event changed, with their values before and after.
fn fields(event: &Event) -> Vec<(String, String, String)> {
    let read = |entry: &Option<std::sync::Arc<setpoint_store::Entry>>| {
        let mut leaves = BTreeMap::new();
        if let Some(entry) = entry {
            let object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
            collect(&object, String::new(), &mut leaves);
        }
        leaves
    };
    let (before, after) = (read(&event.old), read(&event.new));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let value =
        |leaves: &BTreeMap<String, String>, name: &String| leaves.get(name).cloned().unwrap_or_default();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    changed.map(|name| (name.clone(), value(&before, name), value(&after, name))).collect()
}

/// Collects the leaves of an object by their paths. The bookkeeping of field managers is left out.
fn collect(value: &Value, path: String, leaves: &mut BTreeMap<String, String>) {
    if path == ".metadata.managedFields" {
        return;
    }
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                collect(field, format!("{path}.{name}"), leaves);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                collect(item, format!("{path}[{index}]"), leaves);
            }
        }
        leaf => {
            leaves.insert(path.trim_start_matches('.').to_owned(), leaf.to_string());
        }
    }
}
