//! Random sequences of requests to two servers, whose normalised answers must agree.

mod generate;
mod mutate;
mod shrink;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use setpoint_api::{Clock, Random};
use tokio::time::Instant;

use crate::differences::{self, Difference};
use crate::families::objects::install_definition;
use crate::families::rich;
use crate::play::{Player, play};
use crate::scenario::Step;
use crate::target::Target;
use crate::transcript::Answer;

const GROUP: &str = "fuzz.wire";
/// Requests in one sequence, all on one object.
const LENGTH: u64 = 16;

/// Interval of progress reports.
const PROGRESS: Duration = Duration::from_secs(60);

/// Duration and seed of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seconds: u64,
    pub seed: u64,
    /// Go on after a difference and list every distinct one.
    pub keep_going: bool,
}

/// The clock of ours follows the real server's: managers are sorted by the second of their last write, and both
/// must have written in the same one.
#[derive(Clone, Default)]
pub struct Seconds(Arc<AtomicI64>);

impl Seconds {
    /// A clock with a settable time.
    pub fn clock(&self) -> Clock {
        let seconds = self.0.clone();
        Clock::new(move || {
            jiff::Timestamp::from_second(seconds.load(Ordering::Relaxed)).expect("a second of this age")
        })
    }

    #[allow(clippy::disallowed_methods, reason = "this is about the wall clock that the real server reads")]
    fn now(&self) {
        self.0.store(jiff::Timestamp::now().as_second(), Ordering::Relaxed);
    }

    /// Advances to the newest time in the real server's answer.
    fn follow(&self, answered: &Value) {
        let entries = answered.pointer("/metadata/managedFields").and_then(Value::as_array);
        let times = entries.into_iter().flatten().filter_map(|entry| entry["time"].as_str());
        let newest = times.filter_map(|time| time.parse::<jiff::Timestamp>().ok()).max();
        if let Some(newest) = newest {
            self.0.fetch_max(newest.as_second(), Ordering::Relaxed);
        }
    }
}

/// The two servers.
pub struct Pair {
    pub real: Target,
    pub ours: Target,
    pub seconds: Seconds,
}

/// A sequence that ended in a difference, which its last step shows.
struct Found {
    steps: Vec<Step>,
    differences: Vec<Difference>,
}

/// Plays sequence after sequence until the time is over or an answer differs.
pub async fn run(pair: &Pair, plan: &Plan) -> Result<()> {
    pair.seconds.now();
    for target in [&pair.real, &pair.ours] {
        let installed = play(target, &install_definition("riches", rich::definition(GROUP), GROUP)).await?;
        if let Some(refused) = installed.exchanges.iter().find(|exchange| exchange.answer.status >= 400) {
            bail!("the definition is not served: {}", refused.answer.body);
        }
    }
    let deadline = Instant::now() + Duration::from_secs(plan.seconds);
    let (mut seed, mut requests, mut seen) = (plan.seed, 0, BTreeSet::new());
    let mut next_word = Instant::now() + PROGRESS;
    while Instant::now() < deadline {
        if Instant::now() >= next_word {
            next_word += PROGRESS;
            let left = deadline.saturating_duration_since(Instant::now()).as_secs();
            eprintln!("{requests} requests, {} distinct differences, {left} s to go", seen.len());
        }
        let steps = generate::sequence(&Random::from_seed(seed), LENGTH);
        let found = compare(pair, &format!("fuzz-{seed}"), &steps).await;
        let found = found.with_context(|| format!("seed {seed}"))?;
        requests += found.as_ref().map_or(steps.len(), |found| found.steps.len());
        let found = match found {
            Some(found) if by_chance(&found) => {
                compare(pair, &format!("again-{seed}"), &found.steps).await?.filter(|again| !by_chance(again))
            }
            found => found,
        };
        if let Some(found) = found
            && seen.insert(signature(&found.differences))
        {
            let least = Box::pin(shrink::shrink(pair, found, seed)).await?;
            println!("seed {seed} after {requests} requests:");
            for step in &least.steps {
                println!("  {}", serde_json::to_string(step)?);
            }
            least.differences.iter().take(5).for_each(|one| println!("    {one}"));
            if !plan.keep_going {
                bail!("the answers differ: --seed {seed} plays it again");
            }
        }
        seed += 1;
    }
    println!("{requests} requests, seeds {}..{seed}, {} distinct differences", plan.seed, seen.len());
    Ok(())
}

/// Whether only drawn numbers differ: a port that was given back may be drawn again. Then it is played once more.
fn by_chance(found: &Found) -> bool {
    found.differences.iter().all(|one| {
        let drawn = |value: &Option<Value>| {
            value
                .as_ref()
                .and_then(Value::as_str)
                .is_some_and(|text| text.starts_with("<port ") || text.starts_with("<address "))
        };
        drawn(&one.real) && drawn(&one.ours)
    })
}

/// The subject of a difference, without its values.
fn signature(found: &[Difference]) -> String {
    let numberless = |path: &str| path.chars().filter(|char| !char.is_ascii_digit()).collect::<String>();
    let first = found.iter().map(|one| numberless(&one.path)).take(3).collect::<Vec<_>>().join(" ");
    let message = found.iter().find(|one| one.path == "body.message");
    let message = message.and_then(|one| one.real.as_ref()).map(Value::to_string).unwrap_or_default();
    first + &numberless(&message.chars().rev().take(60).collect::<String>())
}

/// Plays one object's life on both. It ends at the first difference: from there on they hold different things.
async fn compare(pair: &Pair, name: &str, steps: &[Step]) -> Result<Option<Found>> {
    pair.seconds.now();
    let (mut left, mut right) = (Player::new(&pair.real, name), Player::new(&pair.ours, name));
    let mut stored = Value::Null;
    for (at, step) in steps.iter().enumerate() {
        pair.seconds.now();
        // A handler of kube-apiserver that panics resets the stream: there is no answer to compare with.
        let Ok(real) = left.step(step).await else {
            println!("the real server broke off at {}", serde_json::to_string(step)?);
            return Ok(None);
        };
        pair.seconds.follow(left.last());
        let ours = right.step(step).await?;
        let differences = between(step, &real, &ours);
        if hides_an_empty_part(&stored) && is_version_alone(&differences) {
            // From here on the versions of the two differ.
            return Ok(None);
        }
        if real.status < 300 && !is_dry(step) {
            stored = real.body.clone();
        }
        if !differences.is_empty() {
            return Ok(Some(Found { steps: steps[..=at].to_vec(), differences }));
        }
    }
    Ok(None)
}

fn between(step: &Step, real: &Answer, ours: &Answer) -> Vec<Difference> {
    let mut found = differences::between(real, ours);
    if is_dry_merge(step) && finalizers(&real.body) == finalizers(&ours.body) {
        found.retain(|one| !one.path.starts_with("body.metadata.finalizers."));
    }
    if is_dry_merge(step) {
        found.retain(|one| {
            let real = placeless(one.real.as_ref());
            real.is_none() || real != placeless(one.ours.as_ref())
        });
    }
    if quotes_an_object(&real.body) {
        found.retain(|one| !one.path.ends_with("message"));
    }
    if lists_mismatches(&real.body, &ours.body) {
        found.retain(|one| one.path != "body.message");
    }
    if is_custom(&real.body) && causes(&real.body) == causes(&ours.body) {
        found.retain(|one| one.path != "body.message" && !one.path.starts_with("body.details.causes"));
    }
    // kube-apiserver may try a patch on a copy of a deleted object in its watch cache.
    if (real.status, ours.status) == (404, 404) && step.split().0 == "PATCH" {
        found.retain(|one| one.path != "headers.warning");
    }
    // `docs/differences.md` under table-descriptions.
    found.retain(|one| {
        !(one.path.starts_with("body.columnDefinitions.") && one.path.ends_with(".description"))
    });
    found
}

fn is_version_alone(differences: &[Difference]) -> bool {
    matches!(differences, [one] if one.path == "body.metadata.resourceVersion")
}

/// Whether kube-apiserver stores empty labels, annotations or an empty list of a custom object from an apply. A
/// manager owns them, and no client sees them. Any next write drops them and thus changes the version.
fn hides_an_empty_part(object: &Value) -> bool {
    let is_custom = object["apiVersion"].as_str().is_some_and(|version| version.starts_with(GROUP));
    let owned = |name: &str| {
        let path = format!("/fieldsV1/f:metadata/f:{name}");
        let entries = object["metadata"]["managedFields"].as_array();
        entries.into_iter().flatten().any(|entry| entry.pointer(&path).is_some())
    };
    let parts = ["labels", "annotations", "finalizers", "ownerReferences"];
    is_custom && parts.iter().any(|name| object["metadata"].get(name).is_none() && owned(name))
}

/// `docs/differences.md` under dry-run-order.
fn is_dry_merge(step: &Step) -> bool {
    step.content_type.as_deref() == Some("strategic") && is_dry(step)
}

/// A text without the places of finalizers in their list.
fn placeless(value: Option<&Value>) -> Option<String> {
    let mut parts = value?.as_str()?.split("metadata.finalizers[");
    let first = parts.next()?.to_owned();
    Some(
        parts.fold(first, |text, part| {
            text + "metadata.finalizers" + part.trim_start_matches(char::is_numeric)
        }),
    )
}

fn is_dry(step: &Step) -> bool {
    step.split().1.contains("dryRun=All")
}

fn finalizers(body: &Value) -> Vec<&str> {
    let list = body.pointer("/metadata/finalizers").and_then(Value::as_array);
    let mut list: Vec<&str> = list.into_iter().flatten().filter_map(Value::as_str).collect();
    list.sort_unstable();
    list
}

fn is_custom(body: &Value) -> bool {
    body["details"]["group"].as_str().is_some_and(|group| group.starts_with(GROUP))
}

/// The causes of an invalid custom object in one order: the validator walks a schema's properties as a Go map.
fn causes(body: &Value) -> Vec<String> {
    let causes = body["details"]["causes"].as_array();
    let mut causes: Vec<String> = causes.into_iter().flatten().map(Value::to_string).collect();
    causes.sort();
    causes
}

/// Type mismatches are listed in the order of a Go map, up to the first undeclared field, which may be any. Ours must
/// list the real server's mismatches, after the same beginning.
fn lists_mismatches(real: &Value, ours: &Value) -> bool {
    let message = |body: &Value| body["message"].as_str().unwrap_or_default().to_owned();
    let (real, ours) = (message(real), message(ours));
    let (Some((real_head, left)), Some((head, right))) = (mismatches(&real), mismatches(&ours)) else {
        return false;
    };
    let undeclared = real.contains("field not declared in schema");
    real_head == head && (left == right || undeclared && left.is_subset(&right))
}

/// The beginning of a text about values that do not fit their type, and its lines about fields.
fn mismatches(message: &str) -> Option<(&str, BTreeSet<&str>)> {
    if let Some((head, list)) = message.split_once("errors:\n") {
        return Some((head, list.lines().map(str::trim).collect()));
    }
    let at = if message.starts_with('.') { 0 } else { message.find(": .")? + 2 };
    Some((&message[..at], [&message[at..]].into()))
}

/// These texts print Go structs or whole objects: `docs/differences.md` under quoted-objects.
fn quotes_an_object(body: &Value) -> bool {
    let message = body["message"].as_str().unwrap_or_default();
    message.contains("is invalid: patch: Invalid value: ") || message.contains("pod updates may not change")
}
