//! Fewer and smaller requests that still show a difference.

use anyhow::Result;
use serde_json::Value;

use super::{Found, Pair, compare};
use crate::scenario::Step;

/// Attempts at one difference; each plays the sequence again in a namespace of its own.
const ATTEMPTS: usize = 60;

/// Leaves out requests, then parts of bodies, as long as the last answer still differs at the same place.
pub(super) async fn shrink(pair: &Pair, found: Found, seed: u64) -> Result<Found> {
    let place = found.differences.first().map(|one| one.path.clone());
    let (mut best, mut attempt) = (found, 0);
    let mut at = 0;
    while at < best.steps.len() && attempt < ATTEMPTS {
        let mut smaller = Vec::new();
        if at + 1 < best.steps.len() {
            let mut steps = best.steps.clone();
            steps.remove(at);
            smaller.push(steps);
        }
        for body in best.steps[at].body.iter().flat_map(lesser) {
            let mut steps = best.steps.clone();
            steps[at] = Step { body: Some(body), ..steps[at].clone() };
            smaller.push(steps);
        }
        let mut shrunk = false;
        for steps in smaller {
            attempt += 1;
            let again = compare(pair, &format!("shrink-{seed}-{attempt}"), &steps).await?;
            let same = |again: &Found| {
                again.steps.len() == steps.len()
                    && again.differences.first().map(|one| &one.path) == place.as_ref()
            };
            if let Some(again) = again.filter(same) {
                best = again;
                shrunk = true;
                break;
            }
            if attempt >= ATTEMPTS {
                break;
            }
        }
        if !shrunk {
            at += 1;
        }
    }
    Ok(best)
}

/// The value with one thing left out: an entry at the top, or something below one.
fn lesser(value: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                if !matches!(name.as_str(), "apiVersion" | "kind" | "name" | "metadata") {
                    let mut less = map.clone();
                    less.remove(name);
                    all.push(Value::Object(less));
                }
                for inner in lesser(inner) {
                    let mut less = map.clone();
                    less.insert(name.clone(), inner);
                    all.push(Value::Object(less));
                }
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                let mut less = items.clone();
                less.remove(at);
                all.push(Value::Array(less));
                for inner in lesser(inner) {
                    let mut less = items.clone();
                    less[at] = inner;
                    all.push(Value::Array(less));
                }
            }
        }
        _ => {}
    }
    all
}
