//! The undisturbed life, and what may differ between two undisturbed lives.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use setpoint_cluster::{Checkpoint, Cluster, Options};

use crate::life::{self, Action, LifeError, Step};
use crate::resource::ObjectName;
use crate::segment::{Outcome, Ran, RunError, Segment, run, simulate};
use crate::settings::{Pace, Settings};
use crate::state::{Place, Scope, State, differences};
use crate::subject::Subject;

/// The wall-clock time at which every run begins.
const BEGINNING: &str = "2026-01-01T00:00:00Z";
/// Time in which nodes and controllers of a new cluster come to rest.
const WARM_UP: Duration = Duration::from_secs(60);
/// Kinds of a subject's manifests that are not applied: its own process, and webhooks, which need its address.
const LEFT_OUT: [&str; 3] = ["Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
/// Undisturbed runs with benign delays, besides the one without.
const DELAYED: u64 = 2;

/// The undisturbed life.
pub struct Reference {
    /// The steps with their kinds.
    pub life: Vec<Action>,
    /// The state before each step.
    pub starts: Vec<Checkpoint>,
    /// The outcome of each step.
    pub outcomes: Vec<Outcome>,
    /// The resources that are compared.
    pub scope: Scope,
    /// The end state of each step.
    pub states: Vec<State>,
    /// Fields that differ between undisturbed runs, for each step.
    pub masks: Vec<BTreeSet<Place>>,
    /// The most creations and deletions of each object in undisturbed runs, for each step.
    pub churn: Vec<BTreeMap<ObjectName, (usize, usize)>>,
    /// The end of each step but the first for an operator that slept during this step and the one before.
    pub joined: Vec<Option<Outcome>>,
    /// The first difference between two equal runs.
    pub nondeterminism: Option<String>,
    /// The watches of the operator at rest, before the first step.
    pub ready: BTreeSet<String>,
}

/// Starts a cluster with the manifests of a subject, and keeps its state.
///
/// # Errors
/// If it does not start, or refuses a manifest.
pub fn base(subject: &Subject, settings: &Settings, options: &Options) -> Result<Checkpoint, RunError> {
    simulate(&Pace::default(), async {
        let beginning = match settings.pace.real {
            true => setpoint::clock::system_clock().now() - WARM_UP,
            false => BEGINNING.parse().expect("the constant is a time"),
        };
        let clock = setpoint::clock::tokio_clock(beginning);
        let options = Options { seed: Some(settings.seed), clock: Some(clock), ..options.clone() };
        let cluster = Cluster::start(options).await?;
        for manifest in &subject.manifests {
            let kind = manifest["kind"].as_str().unwrap_or_default();
            if !LEFT_OUT.contains(&kind) {
                let client = cluster.client();
                apply(manifest, client).await.map_err(|source| RunError::Manifest {
                    object: format!("{kind} {}", manifest["metadata"]["name"].as_str().unwrap_or_default()),
                    source: Box::new(source),
                })?;
            }
        }
        for configuration in subject.webhooks.iter().flat_map(|webhooks| &webhooks.configurations) {
            apply(configuration, cluster.client()).await?;
        }
        cluster.advance(WARM_UP).await;
        Ok(cluster.checkpoint())
    })
}

async fn apply(manifest: &Value, client: kube::Client) -> Result<(), LifeError> {
    let actions = life::resolve(&[Step::Apply(manifest.clone())], &client).await?;
    actions[0].perform(client).await
}

/// Lives the undisturbed life four times: twice alike, and twice with benign delays.
///
/// # Errors
/// If a step is refused.
pub fn reference(
    subject: &Subject,
    settings: &Settings,
    base: &Checkpoint,
    steps: &[Step],
) -> Result<Reference, RunError> {
    let life = resolve(base, steps)?;
    let whole = Segment {
        subject,
        settings,
        life: &life,
        from: base,
        first: 0,
        count: life.len(),
        plan: None,
        jitter: None,
        asleep: false,
        ready: None,
    };
    let live = |jitter| undisturbed(&Segment { jitter, ..whole.clone() });
    let outcomes: Vec<Outcome> = live(None)?;
    let nondeterminism = first_difference(&outcomes, &live(None)?);
    let mut delayed: Vec<Vec<Outcome>> = Vec::new();
    for seed in 1..=DELAYED {
        let seed = settings.seed.wrapping_mul(1_000).wrapping_add(seed);
        delayed.push(live(Some(seed))?);
    }
    let mut joined = vec![None; outcomes.len()];
    for first in 0..outcomes.len().saturating_sub(1) {
        let from = if first == 0 { base } else { &outcomes[first - 1].checkpoint };
        let segment = Segment { from, first, count: 1, asleep: true, ..whole.clone() };
        joined[first + 1] = undisturbed(&segment)?.pop();
    }
    let mut reference = Reference::of(base, life, outcomes, &delayed, joined);
    reference.nondeterminism = nondeterminism;
    Ok(reference)
}

/// Resolves the kinds of a life on a cluster.
///
/// # Errors
/// If the cluster does not know a kind.
pub fn resolve(base: &Checkpoint, steps: &[Step]) -> Result<Vec<Action>, RunError> {
    simulate(&Pace::default(), async {
        let cluster = base.start().await?;
        Ok(life::resolve(steps, &cluster.client()).await?)
    })
}

/// Runs a segment that has no fault.
///
/// # Errors
/// If a step is refused.
pub fn undisturbed(segment: &Segment<'_>) -> Result<Vec<Outcome>, RunError> {
    match simulate(&segment.settings.pace, run(segment, None, &mut BTreeSet::new()))? {
        Ran::Done(outcomes) => Ok(outcomes),
        Ran::Known => Ok(Vec::new()),
    }
}

impl Reference {
    /// Makes a reference of an undisturbed life, and of others with benign delays. `joined` is the end of each step
    /// for an operator that slept during this step and the one before.
    pub fn of(
        base: &Checkpoint,
        life: Vec<Action>,
        outcomes: Vec<Outcome>,
        delayed: &[Vec<Outcome>],
        joined: Vec<Option<Outcome>>,
    ) -> Reference {
        let scope = scope(&life, outcomes.iter().chain(delayed.iter().flatten()));
        let mut reference = Reference {
            starts: std::iter::once(base.clone())
                .chain(outcomes.iter().map(|outcome| outcome.checkpoint.clone()))
                .collect(),
            states: outcomes.iter().map(|outcome| State::of(&outcome.after, &scope)).collect(),
            masks: vec![BTreeSet::new(); outcomes.len()],
            churn: outcomes.iter().map(|outcome| outcome.churn.clone()).collect(),
            ready: outcomes.first().map(|outcome| outcome.watched.clone()).unwrap_or_default(),
            life,
            outcomes,
            scope,
            joined,
            nondeterminism: None,
        };
        for other in delayed.iter().flatten() {
            reference.learn(other);
        }
        reference
    }

    /// Masks what differs in another undisturbed run.
    fn learn(&mut self, other: &Outcome) {
        let Some(expected) = self.states.get(other.step) else { return };
        let found = State::of(&other.after, &self.scope);
        let differing = differences(expected, &found, &BTreeSet::new());
        self.masks[other.step].extend(differing.into_iter().map(|difference| difference.place));
        for (name, count) in &other.churn {
            let most = self.churn[other.step].entry(name.clone()).or_default();
            *most = (most.0.max(count.0), most.1.max(count.1));
        }
    }
}

/// Returns the resources of a life and those that the operator wrote.
fn scope<'a>(life: &[Action], outcomes: impl Iterator<Item = &'a Outcome>) -> Scope {
    let mut scope = Scope::default();
    scope.resources.extend(life.iter().map(Action::resource));
    for outcome in outcomes {
        extend(&mut scope, outcome);
    }
    scope
}

/// Adds the resources that the operator wrote in a run.
pub fn extend(scope: &mut Scope, outcome: &Outcome) {
    for sent in outcome.sent.iter().filter(|sent| sent.call.is_work()) {
        scope.resources.insert(sent.call.object.resource.clone());
        if sent.call.subresource == "status" {
            scope.statuses.insert(sent.call.object.resource.clone());
        }
    }
}

/// Compares two runs that should be equal, request by request.
fn first_difference(one: &[Outcome], two: &[Outcome]) -> Option<String> {
    let lines = |outcomes: &[Outcome]| -> Vec<String> {
        let of_step = |outcome: &Outcome| {
            let step = outcome.step + 1;
            let sent = outcome.sent.iter().map(move |sent| {
                let (at, status) = (sent.at.as_millis(), sent.status.unwrap_or_default());
                let body = String::from_utf8_lossy(&sent.body).into_owned();
                format!("step {step}, {at} ms: {} -> {status} {body}", sent.call)
            });
            let seen = outcome.delivered.iter().map(move |seen| {
                format!("step {step}, {} ms: {} {}", seen.at.as_millis(), seen.kind, seen.object)
            });
            sent.chain(seen).collect::<Vec<String>>()
        };
        outcomes.iter().flat_map(of_step).collect()
    };
    let (one, two) = (lines(one), lines(two));
    let place = (0..one.len().max(two.len())).find(|place| one.get(*place) != two.get(*place))?;
    let line = |lines: &[String]| lines.get(place).cloned().unwrap_or_else(|| "nothing".to_owned());
    Some(format!(
        "two equal runs differ: first run: {}; second run: {}. Likely causes: the operator iterates a HashMap, reads \
         the machine's clock, draws random numbers from the operating system, or uses other threads",
        line(&one),
        line(&two),
    ))
}
