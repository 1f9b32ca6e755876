//! Random sequences of requests to two servers, whose normalised answers must agree.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use setpoint_api::Random;
use tokio::time::Instant;

use crate::differences::{self, Difference};
use crate::families::objects::{Kind, config_map, deployment, install, overlay, pod, service, widget};
use crate::families::pieces;
use crate::play::{Player, play};
use crate::scenario::Step;
use crate::target::Target;

const GROUP: &str = "fuzz.wire";
/// Requests in one sequence, all on one object.
const LENGTH: u64 = 12;

/// How long and from where.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seconds: u64,
    pub seed: u64,
    /// Go on after a difference and list every distinct one.
    pub keep_going: bool,
}

/// Plays sequence after sequence until the time is over or an answer differs.
pub async fn run(real: &Target, ours: &Target, plan: &Plan) -> Result<()> {
    for target in [real, ours] {
        play(target, &install(GROUP)).await?;
    }
    let deadline = Instant::now() + Duration::from_secs(plan.seconds);
    let (mut seed, mut requests, mut seen) = (plan.seed, 0, BTreeSet::new());
    while Instant::now() < deadline {
        let (sent, found) = sequence(real, ours, seed).await.with_context(|| format!("seed {seed}"))?;
        requests += sent;
        if let Some((step, found)) = found
            && seen.insert(signature(&found))
        {
            println!("seed {seed} after {requests} requests: {}", serde_json::to_string(&step)?);
            found.iter().take(5).for_each(|one| println!("    {one}"));
            if !plan.keep_going {
                bail!("the answers differ: --seed {seed} plays it again");
            }
        }
        seed += 1;
    }
    println!("{requests} requests, seeds {}..{seed}, {} distinct differences", plan.seed, seen.len());
    Ok(())
}

/// What a difference is about, without its values.
fn signature(found: &[Difference]) -> String {
    let numberless = |path: &str| path.chars().filter(|char| !char.is_ascii_digit()).collect::<String>();
    let first = found.iter().map(|one| numberless(&one.path)).take(3).collect::<Vec<_>>().join(" ");
    let message = found.iter().find(|one| one.path == "body.message");
    let message = message.and_then(|one| one.real.as_ref()).map(Value::to_string).unwrap_or_default();
    first + &numberless(&message.chars().rev().take(60).collect::<String>())
}

/// One object's life. It ends at the first difference: from there on the servers hold different things.
async fn sequence(real: &Target, ours: &Target, seed: u64) -> Result<(u64, Option<(Step, Vec<Difference>)>)> {
    let random = Random::from_seed(seed);
    let kinds = [deployment(), service(), pod(), config_map(), widget(GROUP)];
    let kind = &kinds[usize::try_from(random.below(5)).unwrap_or_default()];
    let name = format!("fuzz-{seed}");
    let (mut left, mut right) = (Player::new(real, &name), Player::new(ours, &name));
    early_in_a_second().await;
    for at in 0..LENGTH {
        let step = if at == 0 { first(kind, &random) } else { next(kind, &random) };
        let (real, ours) = (left.step(&step).await?, right.step(&step).await?);
        let mut found = differences::between(&real, &ours);
        if quotes_an_object(&real.body) {
            found.retain(|one| !one.path.ends_with("message"));
        }
        if !found.is_empty() {
            return Ok((at + 1, Some((step, found))));
        }
    }
    Ok((LENGTH, None))
}

/// These texts print Go structs or whole objects: `docs/differences.md` under quoted-objects.
fn quotes_an_object(body: &Value) -> bool {
    let message = body["message"].as_str().unwrap_or_default();
    message.contains("is invalid: patch: Invalid value: ") || message.contains("pod updates may not change")
}

/// Managers are sorted by the second of their last write, which both servers should take from the same second.
#[allow(clippy::disallowed_methods, reason = "this is about the wall clock that the real server reads")]
async fn early_in_a_second() {
    let fraction = jiff::Timestamp::now().subsec_millisecond();
    if fraction > 500 {
        tokio::time::sleep(Duration::from_millis(u64::try_from(1001 - fraction).unwrap_or_default())).await;
    }
}

fn pick<'a, T>(random: &Random, items: &'a [T]) -> &'a T {
    let count = u64::try_from(items.len()).unwrap_or(1);
    &items[usize::try_from(random.below(count)).unwrap_or_default()]
}

/// Up to three pieces of that kind over one another, and at times one that is wrong.
fn fields(kind: &Kind, random: &Random) -> Value {
    let (valid, invalid) = pieces::of(&kind.kind);
    let mut all = json!({});
    for _ in 0..=random.below(3) {
        all = overlay(&all, pick(random, &valid));
    }
    if random.below(8) == 0 {
        all = overlay(&all, pick(random, &invalid));
    }
    all
}

fn first(kind: &Kind, random: &Random) -> Step {
    let object = overlay(&kind.least("o"), &fields(kind, random));
    match random.below(3) {
        0 => Step::apply(format!("{}/o", kind.path), "m1", false, object),
        _ => Step::with(format!("POST {}?fieldManager=creator", kind.path), object),
    }
}

fn next(kind: &Kind, random: &Random) -> Step {
    let path = format!("{}/o", kind.path);
    let manager = *pick(random, &["m1", "m2", "m3"]);
    let fields = fields(kind, random);
    let dry = if random.below(10) == 0 { "&dryRun=All" } else { "" };
    let strict = if random.below(10) == 0 { "&fieldValidation=Strict" } else { "" };
    let patch =
        |kind: &str, body| Step::patch(format!("{path}?fieldManager={manager}{dry}{strict}"), kind, body);
    match random.below(12) {
        0..=4 => {
            let force = if random.below(2) == 0 { "&force=true" } else { "" };
            let object = kind.object("o", &fields);
            Step::patch(format!("{path}?fieldManager={manager}{force}{dry}{strict}"), "apply", object)
        }
        5 | 6 => patch("merge", fields),
        7 | 8 if kind.built_in => patch("strategic", fields),
        7 | 8 => patch("merge", nulled(fields)),
        9 => patch("json-patch", operations(kind, random)),
        10 => {
            let object = overlay(&kind.least("o"), &fields);
            Step::with(format!("PUT {path}?fieldManager={manager}{dry}{strict}"), object)
        }
        _ if random.below(6) == 0 => Step::new(format!("DELETE {path}")),
        _ => Step::new(format!("GET {path}")),
    }
}

/// The same fields, taken away.
fn nulled(fields: Value) -> Value {
    match fields {
        Value::Object(map) => map.into_iter().map(|(name, value)| (name, nulled(value))).collect(),
        _ => Value::Null,
    }
}

fn operations(kind: &Kind, random: &Random) -> Value {
    let label = ["a", "b", "c"][usize::try_from(random.below(3)).unwrap_or_default()];
    let root = if kind.kind == "ConfigMap" { "/data" } else { "/spec" };
    let all = [
        json!({"op": "add", "path": "/metadata/labels", "value": {label: "1"}}),
        json!({"op": "add", "path": format!("/metadata/labels/{label}"), "value": "2"}),
        json!({"op": "remove", "path": format!("/metadata/labels/{label}")}),
        json!({"op": "test", "path": "/kind", "value": kind.kind}),
        json!({"op": "add", "path": "/metadata/annotations", "value": {label: label}}),
        json!({"op": "copy", "from": "/metadata/name", "path": format!("/metadata/labels/{label}")}),
        json!({"op": "replace", "path": root, "value": {}}),
    ];
    let some: Vec<Value> = (0..=random.below(2)).map(|_| pick(random, &all).clone()).collect();
    json!(some)
}
