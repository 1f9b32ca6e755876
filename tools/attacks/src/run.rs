//! Plays one case on one server, and compares what two servers did.

use anyhow::{Context, Result};
use serde_json::Value;
use setpoint_wire::attack::Case;
use setpoint_wire::differences::{self, Kept};
use setpoint_wire::play::Player;
use setpoint_wire::scenario::Step;
use setpoint_wire::transcript::Answer;

use crate::load::Beside;
use crate::servers::Server;

/// The outcome of a case on one server.
#[derive(Debug, Default)]
pub struct Played {
    /// The statuses of the attack's steps, or what code says.
    pub said: String,
    /// Facts that should hold and do not.
    pub broken: Vec<String>,
    /// Figures of an attack on availability.
    pub figures: Option<String>,
    /// Every answer, for the comparison.
    pub answers: Vec<Answer>,
}

/// Plays the steps of a case.
pub async fn steps(server: &mut Server, case: &Case) -> Result<Played> {
    let scenario = case.scenario();
    let target = server.target();
    let mut player = Player::new(&target, &scenario.name);
    for (name, value) in &server.known {
        player.know(name, value);
    }
    let attack = case.attack_steps();
    let mut played = Played::default();
    let mut beside = None;
    for (at, step) in scenario.steps.iter().enumerate() {
        if at == attack.start
            && let Some(load) = &case.load
        {
            beside = Some(Beside::begin(server, load));
            server.clients.copies.store(load.parallel, std::sync::atomic::Ordering::Relaxed);
        }
        let answer = player.step(step).await.with_context(|| format!("{} step {at}", case.id))?;
        if at + 1 == attack.end {
            server.clients.copies.store(1, std::sync::atomic::Ordering::Relaxed);
        }
        let describe = |why: String| format!("step {at} {}: {why}", step.request);
        match &step.must {
            Some(must) => played.broken.extend(must.broken(answer.status, player.last()).map(describe)),
            // A preparation that fails would let the attack fail for another reason.
            None if !attack.contains(&at) && answer.status >= 400 && !is_awaited(step, &answer) => {
                let message = player.last()["message"].as_str().unwrap_or_default().to_owned();
                played.broken.push(describe(format!("{} {message}", answer.status)));
            }
            None => {}
        }
        if attack.contains(&at) {
            played.say(&answer);
        }
        played.answers.push(answer);
    }
    if let (Some(beside), Some(load)) = (beside, &case.load) {
        let seen = beside.end().await?;
        played.figures = Some(format!("{} ms, {} MiB", seen.slowest.as_millis(), seen.memory_mib));
        played.broken.extend(seen.failed);
        if seen.memory_mib > load.memory_mib {
            played.broken.push(format!("{} MiB resident, more than {}", seen.memory_mib, load.memory_mib));
        }
    }
    if !server.runs()? {
        played.broken.push("the process ended".to_owned());
    }
    Ok(played)
}

/// Whether a preparation waits for this very status, as for a webhook that begins to refuse.
fn is_awaited(step: &Step, answer: &Answer) -> bool {
    step.until.as_ref().is_some_and(|until| until.status == answer.status)
}

impl Played {
    fn say(&mut self, answer: &Answer) {
        let word = answer.status.to_string();
        if self.said.split(' ').next_back() != Some(&word) {
            self.said += if self.said.is_empty() { "" } else { " " };
            self.said += &word;
        }
    }
}

/// The places where the answers of two servers differ and nobody has said why.
pub fn differences(case: &Case, real: &Played, ours: &Played, kept: &[Kept]) -> Vec<String> {
    if case.differs.is_some() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, (real, ours)) in real.answers.iter().zip(&ours.answers).enumerate() {
        let differing = match &case.load {
            // Large answers: status, reason and message say what happened.
            Some(_) => differences::between(&brief(real), &brief(ours)),
            None => differences::between(real, ours),
        };
        let unknown =
            differing.into_iter().filter(|one| !kept.iter().any(|kept| kept.covers(&case.id, at, &one.path)));
        found.extend(unknown.map(|one| format!("step {at}: {one}")));
    }
    if real.answers.is_empty() && real.said != ours.said {
        found.push(format!("real: {}, ours: {}", real.said, ours.said));
    }
    found
}

fn brief(answer: &Answer) -> Answer {
    let part = |name: &str| answer.body.get(name).cloned().unwrap_or(Value::Null);
    let body = match answer.status {
        400.. => serde_json::json!({"reason": part("reason"), "message": part("message")}),
        _ => Value::Null,
    };
    Answer { status: answer.status, headers: std::collections::BTreeMap::new(), body }
}
