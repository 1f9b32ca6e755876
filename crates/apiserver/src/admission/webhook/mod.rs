//! Admission webhooks: programs of others that change and judge what is about to be written.
//!
//! A decision is a function of a snapshot, and a webhook is far away. So a decision that needs an answer which is not
//! there stops ([`Stop::NeedsReview`]); the answer is fetched, with no lock held, and the decision is made again. An
//! answer counts for the very question that was asked: if somebody else wrote in between, the question is another one,
//! and is asked anew.

mod call;
pub(crate) mod answer;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use setpoint_api::Random;
use tokio::time::Instant;

use crate::admission::attributes::Attributes;
use crate::configured::{GROUP, Hook, Hooks};
use call::{Mutated, Reinvocation};

use crate::admission::policy;
use crate::context::RequestContext;
use crate::decision::{Decision, Stop};
use crate::error::{ApiError, Result};

/// How long a request may take with all its webhooks and all its beginnings.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Kinds that neither a webhook nor a policy sees: one that refused them could not be taken away again.
const EXEMPT: [&str; 4] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// Kinds that no webhook sees, and policies do.
const EXEMPT_FROM_WEBHOOKS: [&str; 2] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];

/// What webhooks were asked during one request, and what they answered.
pub(crate) struct Reviews {
    hooks: Arc<Hooks>,
    /// What is drawn while deciding is drawn from here, so that deciding again asks the same.
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
    /// Once more, for those who missed what others changed.
    MutateAgain(Reinvocation),
    Validate,
}

impl Reviews {
    /// For a request that may meet a webhook or a policy; none if there are none.
    pub(crate) fn begin(ctx: &RequestContext) -> Option<Reviews> {
        let hooks = ctx.server.0.webhooks.current()?;
        let exempt = ctx.resource.group == GROUP && EXEMPT.contains(&ctx.resource.plural.as_str());
        (!exempt).then(|| Reviews {
            hooks,
            seed: ctx.server.options().random.next_u64(),
            deadline: Instant::now() + REQUEST_TIMEOUT,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Numbers that are the same each time that something is decided.
    pub(crate) fn random(&self) -> Random {
        Random::from_seed(self.seed)
    }

    /// What the webhooks warned of.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.state().warnings.clone()
    }

    fn warn(&self, warnings: Vec<String>) {
        self.state().warnings.extend(warnings);
    }

    /// The answer, if it is there; else it must be fetched.
    fn answer(&self, stage: Stage, attributes: Attributes) -> Decision<Mutated> {
        let question = Question { stage, attributes };
        let mut state = self.state();
        if let Some((_, answer)) = state.answered.iter().find(|(own, _)| *own == question) {
            return Ok(answer.clone()?);
        }
        state.missing = Some(question);
        Err(Stop::NeedsReview)
    }

    /// Fetches the answer that a decision missed.
    ///
    /// # Errors
    /// The request has taken too long.
    pub(crate) async fn fetch(&self, ctx: &RequestContext) -> Result<()> {
        let Some(question) = self.state().missing.take() else { return Ok(()) };
        let asked = tokio::time::timeout_at(self.deadline, self.ask(ctx, question.clone())).await;
        let answer = asked.map_err(|_| ApiError::timed_out())?;
        self.state().answered.push((question, answer));
        Ok(())
    }

    async fn ask(&self, ctx: &RequestContext, question: Question) -> Result<Mutated> {
        let Question { stage, attributes } = question;
        let again = match stage {
            Stage::Validate => {
                let (warnings, judged) = policy::judge(ctx, &self.hooks.policies, &attributes).await;
                self.warn(warnings);
                judged?;
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

/// Whether one of the webhooks is for such a request. What is wrong with it is found when it is asked.
fn concerned(ctx: &RequestContext, hooks: &[Hook], attributes: &Attributes) -> bool {
    !is_exempt(attributes) && hooks.iter().any(|hook| hook.scope.concerns(ctx, attributes))
}

fn is_exempt(attributes: &Attributes) -> bool {
    attributes.group == GROUP && EXEMPT_FROM_WEBHOOKS.contains(&attributes.resource.as_str())
}

/// What the mutating webhooks make of the object; none if they leave it. What admission here does to objects is done
/// again to what they changed.
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

/// Lets the policies and the validating webhooks judge.
pub(crate) fn validate(
    ctx: &RequestContext,
    reviews: Option<&Reviews>,
    attributes: impl FnOnce() -> Attributes,
) -> Decision<()> {
    let Some(reviews) = reviews.filter(|reviews| reviews.hooks.judge()) else {
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

/// Both, for what is decided outside a transaction: what the mutating webhooks made of the object, if they changed it.
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
            Err(Stop::NeedsConversion) => return Err(ApiError::internal("no decision that converts")),
        }
    }
}
