//! Admission webhooks: HTTPS servers that change and review an object before it is written.
//!
//! A decision is a function of a snapshot, and a webhook is far away. A decision that needs a missing answer
//! therefore stops ([`Stop::NeedsReview`]). The server fetches the answer with no lock held and decides again. An
//! answer is valid only for the exact question that the webhook reviewed: if another client wrote in between, the
//! question differs and the webhook is called again.

mod call;
pub(crate) mod answer;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use setpoint_api::Random;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::admission::attributes::Attributes;
use crate::configured::{GROUP, Hook, Hooks};
use call::{Mutated, Reinvocation};

use crate::admission::policy;
use crate::context::RequestContext;
use crate::decision::{Decision, Stop};
use crate::error::{ApiError, Result};
use crate::webhook::answer::{Room, room};

/// The time limit of a request, with all its webhooks and repetitions.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Kinds that neither a webhook nor a policy sees. One that refused them could never be deleted.
const EXEMPT: [&str; 4] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// Kinds that policies see and webhooks do not.
const EXEMPT_FROM_WEBHOOKS: [&str; 2] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];

/// The most concurrent calls for one request. Further calls wait, and the time of each begins when it goes out.
const MAX_CALLS: usize = 16;
/// So many answers are kept for the next decision. One decision needs three at most: the others are to questions about
/// states that are gone.
const KEPT_ANSWERS: usize = 6;

/// The webhook calls of one request, with their answers.
pub(crate) struct Reviews {
    calls: Semaphore,
    room: Room,
    hooks: Arc<Hooks>,
    /// The seed of all random values in a decision, so that deciding again asks the same question.
    seed: u64,
    deadline: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answered: Vec<(Question, Result<Mutated>)>,
    missing: Option<Question>,
    warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Question {
    stage: Stage,
    attributes: Attributes,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    Mutate,
    /// The second round, for webhooks that have not seen the changes of others.
    MutateAgain(Reinvocation),
    Validate,
}

impl Reviews {
    /// Begins the reviews of a request, or returns `None` if no webhook or policy can apply to it.
    pub(crate) fn begin(ctx: &RequestContext) -> Option<Reviews> {
        let hooks = ctx.server.0.webhooks.current()?;
        let exempt = ctx.resource.group == GROUP && EXEMPT.contains(&ctx.resource.plural.as_str());
        (!exempt).then(|| Reviews {
            calls: Semaphore::new(MAX_CALLS),
            room: room(),
            hooks,
            seed: ctx.server.options().random.next_u64(),
            deadline: Instant::now() + REQUEST_TIMEOUT,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// A source of random values that gives the same ones in each repetition of the decision.
    pub(crate) fn random(&self) -> Random {
        Random::from_seed(self.seed)
    }

    /// The warnings of the webhooks.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.state().warnings.clone()
    }

    fn warn(&self, warnings: Vec<String>) {
        self.state().warnings.extend(warnings);
    }

    /// The answer, or a stop that fetches the answer if it is missing.
    fn answer(&self, stage: Stage, attributes: Attributes) -> Decision<Mutated> {
        let question = Question { stage, attributes };
        let mut state = self.state();
        if let Some((_, answer)) = state.answered.iter().find(|(own, _)| *own == question) {
            return Ok(answer.clone()?);
        }
        state.missing = Some(question);
        Err(Stop::NeedsReview)
    }

    /// Fetches the answer that stopped a decision.
    ///
    /// # Errors
    /// The request has taken too long.
    pub(crate) async fn fetch(&self, ctx: &RequestContext) -> Result<()> {
        let Some(question) = self.state().missing.take() else { return Ok(()) };
        let asked = tokio::time::timeout_at(self.deadline, self.ask(ctx, question.clone())).await;
        let answer = asked.map_err(|_| ApiError::timed_out())?;
        let mut state = self.state();
        state.answered.push((question, answer));
        if state.answered.len() > KEPT_ANSWERS {
            drop(state.answered.remove(0));
        }
        drop(state);
        Ok(())
    }

    async fn ask(&self, ctx: &RequestContext, question: Question) -> Result<Mutated> {
        let Question { stage, attributes } = question;
        let again = match stage {
            Stage::Validate => {
                let (warnings, result) = policy::evaluate(ctx, &self.hooks.policies, &attributes).await;
                self.warn(warnings);
                result?;
                if !is_exempt(&attributes) {
                    call::validate(ctx, &self.hooks.validating, &attributes, self).await?;
                }
                return Ok(Mutated::default());
            }
            Stage::Mutate => None,
            Stage::MutateAgain(again) => Some(again),
        };
        call::mutate(ctx, &self.hooks.mutating, attributes, again, self).await
    }
}

/// Whether one of the webhooks may match the request. Errors of a webhook's rules are found when the webhook is
/// called.
fn concerned(ctx: &RequestContext, hooks: &[Hook], attributes: &Attributes) -> bool {
    !is_exempt(attributes) && hooks.iter().any(|hook| hook.scope.concerns(ctx, attributes))
}

fn is_exempt(attributes: &Attributes) -> bool {
    attributes.group == GROUP && EXEMPT_FROM_WEBHOOKS.contains(&attributes.resource.as_str())
}

/// The object after the mutating webhooks, or `None` if they leave it unchanged. Built-in admission runs again on an
/// object that they changed.
pub(crate) fn mutate(
    ctx: &RequestContext,
    reviews: Option<&Reviews>,
    attributes: impl FnOnce() -> Attributes,
    admit: impl FnOnce(&mut Value) -> Result<()>,
) -> Decision<Option<Value>> {
    let Some(reviews) = reviews.filter(|reviews| !reviews.hooks.mutating.is_empty()) else {
        return Ok(None);
    };
    let attributes = attributes();
    if !concerned(ctx, &reviews.hooks.mutating, &attributes) {
        return Ok(None);
    }
    let mutated = reviews.answer(Stage::Mutate, attributes.clone())?;
    let Some(mut object) = mutated.object.filter(|_| mutated.changed) else { return Ok(None) };
    let before = object.clone();
    admit(&mut object)?;
    let mut again = mutated.reinvocation;
    if object != before {
        again.changed();
    }
    if !again.is_needed() {
        return Ok(Some(object));
    }
    let attributes = Attributes { object: Some(object), ..attributes };
    reviews.answer(Stage::MutateAgain(again), attributes).map(|mutated| mutated.object)
}

/// Runs the policies and the validating webhooks.
pub(crate) fn validate(
    ctx: &RequestContext,
    reviews: Option<&Reviews>,
    attributes: impl FnOnce() -> Attributes,
) -> Decision<()> {
    let Some(reviews) = reviews.filter(|reviews| reviews.hooks.has_validating()) else {
        return Ok(());
    };
    let attributes = attributes();
    let mut policies = reviews.hooks.policies.iter();
    if !policies.any(|policy| policy.scope.concerns(ctx, &attributes))
        && !concerned(ctx, &reviews.hooks.validating, &attributes)
    {
        return Ok(());
    }
    reviews.answer(Stage::Validate, attributes).map(|_| ())
}

/// Runs mutating and validating webhooks for a decision outside a transaction. Returns the object if the mutating
/// webhooks changed it.
pub(crate) async fn admit(
    ctx: &RequestContext,
    reviews: &Reviews,
    attributes: Attributes,
) -> Result<Option<Value>> {
    loop {
        let mutated = mutate(ctx, Some(reviews), || attributes.clone(), |_| Ok(()));
        let judged = mutated.and_then(|object| {
            let object = object.or_else(|| attributes.object.clone());
            validate(ctx, Some(reviews), || Attributes { object: object.clone(), ..attributes.clone() })?;
            Ok(object)
        });
        match judged {
            Ok(object) => return Ok(object),
            Err(Stop::Refused(error)) => return Err(error),
            Err(Stop::NeedsReview) => reviews.fetch(ctx).await?,
            Err(needs) => return Err(ApiError::internal(needs)),
        }
    }
}
