//! Differences between two answers, and the list of the intended ones.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::transcript::{Answer, folder};

/// A place where two answers disagree.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// `status`, `headers.warning`, `body.spec.replicas`; elements of lists by number.
    pub path: String,
    pub real: Option<Value>,
    pub ours: Option<Value>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |value: &Option<Value>| value.as_ref().map_or("(absent)".to_owned(), Value::to_string);
        write!(f, "{}\n      real: {}\n      ours: {}", self.path, show(&self.real), show(&self.ours))
    }
}

/// Every place where they disagree.
pub fn between(real: &Answer, ours: &Answer) -> Vec<Difference> {
    let mut found = Vec::new();
    let value = |answer: &Answer| serde_json::to_value(answer).expect("an answer is JSON");
    descend(&value(real), &value(ours), &mut String::new(), &mut found);
    found
}

fn descend(real: &Value, ours: &Value, path: &mut String, found: &mut Vec<Difference>) {
    let length = path.len();
    match (real, ours) {
        (Value::Object(left), Value::Object(right)) => {
            let names: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                enter(path, name);
                either(left.get(name), right.get(name), path, found);
                path.truncate(length);
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            for at in 0..left.len().max(right.len()) {
                enter(path, &at.to_string());
                either(left.get(at), right.get(at), path, found);
                path.truncate(length);
            }
        }
        _ if real == ours => {}
        _ => {
            found.push(Difference { path: path.clone(), real: Some(real.clone()), ours: Some(ours.clone()) })
        }
    }
}

fn enter(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

fn either(real: Option<&Value>, ours: Option<&Value>, path: &mut String, found: &mut Vec<Difference>) {
    match (real, ours) {
        (Some(real), Some(ours)) => descend(real, ours, path, found),
        _ => found.push(Difference { path: path.clone(), real: real.cloned(), ours: ours.cloned() }),
    }
}

/// One kept difference: `docs/differences.md` says why under the heading `id`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    pub id: String,
    /// Scenario names, a trailing `*` for a family.
    pub scenarios: Vec<String>,
    /// Beginnings of paths within an answer.
    pub paths: Vec<String>,
    /// Only these steps; all when empty.
    #[serde(default)]
    pub steps: Vec<usize>,
}

impl Kept {
    /// Whether this entry speaks of that difference.
    pub fn covers(&self, scenario: &str, step: usize, path: &str) -> bool {
        let named = |pattern: &String| match pattern.strip_suffix('*') {
            Some(beginning) => scenario.starts_with(beginning),
            None => scenario == pattern,
        };
        self.scenarios.iter().any(named)
            && (self.steps.is_empty() || self.steps.contains(&step))
            && self.paths.iter().any(|beginning| begins(path, beginning))
    }
}

/// Segment by segment, `*` for any.
fn begins(path: &str, beginning: &str) -> bool {
    let mut segments = path.split('.');
    beginning.split('.').all(|wanted| segments.next().is_some_and(|found| wanted == "*" || wanted == found))
}

/// The list, from `testdata/wire/differences.json`.
pub fn kept() -> Result<Vec<Kept>> {
    let path = folder().join("differences.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}
