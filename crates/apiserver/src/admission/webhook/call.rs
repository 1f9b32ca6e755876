//! Calls of admission webhooks: mutating webhooks in turn, validating webhooks all at once.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::Value;
use setpoint_machinery::patch::{PatchError, apply_json_patch};

use super::Reviews;
use super::answer::{self, Answer};
use crate::admission::review::{self, EquivalentResource};
use crate::admission::{Attributes, webhook_versions};
use crate::configured::Hook;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::object;
use crate::webhook::Patience;
use setpoint_cel as cel;

/// Go's error for a call that took longer than its context.
const EXCEEDED: &str = "context deadline exceeded";

/// The webhooks to reinvoke, because others changed the object after they saw it. By place in the list.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reinvocation {
    /// Webhooks that will be called again.
    again: BTreeSet<usize>,
    /// Webhooks that were called since the last change, and that a change would call again.
    called: BTreeSet<usize>,
}

impl Reinvocation {
    /// Marks every webhook that has reviewed the object to be called again.
    pub(crate) fn changed(&mut self) {
        self.again.append(&mut self.called);
    }

    pub(crate) fn is_needed(&self) -> bool {
        !self.again.is_empty()
    }
}

/// The object after the mutating webhooks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mutated {
    pub(crate) object: Option<Value>,
    pub(crate) changed: bool,
    pub(crate) reinvocation: Reinvocation,
}

/// The reason why a call failed, or refuses the request.
enum Failed {
    /// The webhook gave no valid answer: `failurePolicy` decides.
    Call(String),
    /// The request is refused whatever `failurePolicy` is.
    Refused(ApiError),
}

/// One call of a webhook, with the request as that webhook sees it.
struct Invocation<'h> {
    hook: &'h Hook,
    equivalent: EquivalentResource,
    object: Option<Value>,
    old: Option<Value>,
}

async fn invocation<'h>(
    ctx: &RequestContext,
    hook: &'h Hook,
    attributes: &Attributes,
) -> Result<Option<Invocation<'h>>> {
    let Some(equivalent) = hook.scope.equivalent(ctx, attributes)? else { return Ok(None) };
    let shown = async |value: &Option<Value>| match value {
        None => Ok(None),
        Some(value) => webhook_versions::shown(ctx, attributes, &equivalent, value)
            .await
            .map(Some)
            .map_err(ApiError::internal),
    };
    let (object, old) = (shown(&attributes.object).await?, shown(&attributes.old).await?);
    let invocation = Invocation { hook, equivalent, object, old };
    if hook.conditions.is_empty() {
        return Ok(Some(invocation));
    }
    let mut request =
        review::review("v1", "", attributes, &invocation.equivalent, (None, None), &ctx.user.to_value());
    let request = request["request"].take();
    let null = Value::Null;
    let object = invocation.object.as_ref().unwrap_or(&null);
    let old = invocation.old.as_ref().unwrap_or(&null);
    match cel::hold(&hook.conditions, object, old, &request, &ctx.work.interrupt) {
        Ok(true) => Ok(Some(invocation)),
        Ok(false) => Ok(None),
        Err(_) if hook.ignores_failures => Ok(None),
        Err(error) => Err(ApiError::forbidden(&ctx.resource.group_resource(), &attributes.name, &error)),
    }
}

/// Calls the mutating webhooks in turn. A second round calls only those to be reinvoked.
pub(super) async fn mutate(
    ctx: &RequestContext,
    hooks: &[Hook],
    mut attributes: Attributes,
    again: Option<Reinvocation>,
    reviews: &Reviews,
) -> Result<Mutated> {
    let is_again = again.is_some();
    let mut mutated = Mutated { reinvocation: again.unwrap_or_default(), ..Mutated::default() };
    for (at, hook) in hooks.iter().enumerate() {
        let Some(invocation) = invocation(ctx, hook, &attributes).await? else { continue };
        if is_again && !mutated.reinvocation.again.contains(&at) {
            continue;
        }
        let asked = ask_one(ctx, &invocation, &attributes, true, reviews).await;
        let patched = match asked {
            Ok(answer) => patch(ctx, &invocation, &attributes, answer.patch).await,
            Err(failed) => Err(failed),
        };
        match patched {
            Ok(None) => {}
            Ok(Some((object, changed))) => {
                attributes.object = Some(object);
                mutated.changed |= changed;
                if changed {
                    mutated.reinvocation.changed();
                }
            }
            Err(failed) => apply_failure_policy(hook, failed)?,
        }
        if hook.reinvoked {
            mutated.reinvocation.called.insert(at);
        }
    }
    mutated.object = attributes.object;
    Ok(mutated)
}

/// Calls the validating webhooks all at once.
pub(super) async fn validate(
    ctx: &RequestContext,
    hooks: &[Hook],
    attributes: &Attributes,
    reviews: &Reviews,
) -> Result<()> {
    let mut invocations = Vec::new();
    for hook in hooks {
        invocations.extend(invocation(ctx, hook, attributes).await?);
    }
    let asked = invocations.iter().map(|invocation| ask_one(ctx, invocation, attributes, false, reviews));
    let answers = join_all(asked).await;
    for (invocation, answer) in invocations.iter().zip(answers) {
        if let Err(failed) = answer {
            apply_failure_policy(invocation.hook, failed)?;
        }
    }
    Ok(())
}

async fn ask_one(
    ctx: &RequestContext,
    invocation: &Invocation<'_>,
    attributes: &Attributes,
    mutating: bool,
    reviews: &Reviews,
) -> Result<Answer, Failed> {
    let hook = invocation.hook;
    if attributes.dry_run && !hook.takes_dry_runs {
        let text = format!("admission webhook \"{}\" does not support dry run", hook.name);
        return Err(Failed::Refused(ApiError::bad_request(text)));
    }
    let Some(version) = review::version(&hook.review_versions) else {
        let text = "could not create admission objects: webhook does not accept known AdmissionReview versions \
                    (v1, v1beta1)";
        return Err(Failed::Call(text.to_owned()));
    };
    let _call = reviews.calls.acquire().await.map_err(|error| Failed::Call(error.to_string()))?;
    let uid = ctx.server.options().random.uid();
    let objects = (invocation.object.clone(), invocation.old.clone());
    let review =
        review::review(version, &uid, attributes, &invocation.equivalent, objects, &ctx.user.to_value());
    let patience = Patience { time: hook.timeout, exceeded: EXCEEDED };
    let called = hook.client.call(&ctx.server, &review, patience, &reviews.room).await;
    let reply = called.map_err(|error| Failed::Call(format!("failed to call webhook: {error}")))?;
    let mut answer = answer::read(&reply, version, &uid, mutating).map_err(Failed::Call)?;
    reviews.warn(std::mem::take(&mut answer.warnings));
    if answer.allowed {
        return Ok(answer);
    }
    let refusal = answer::refusal(&hook.name, &answer.status);
    Err(Failed::Refused(ApiError::refused_by_webhook(&refusal)))
}

/// The object after the patch, and whether the patch changed it. `None` if the answer has no patch.
async fn patch(
    ctx: &RequestContext,
    invocation: &Invocation<'_>,
    attributes: &Attributes,
    operations: Option<Value>,
) -> Result<Option<(Value, bool)>, Failed> {
    let Some(operations) = operations.filter(|all| all.as_array().is_some_and(|all| !all.is_empty())) else {
        return Ok(None);
    };
    let internal = |error: String| Failed::Refused(ApiError::internal(error));
    let Some(before) = &invocation.object else {
        return Err(internal(format!(
            "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
            invocation.hook.name
        )));
    };
    let mut patched = before.clone();
    apply_json_patch(&mut patched, &operations, &ctx.work.interrupt).map_err(|error| match error {
        PatchError::Unprocessable(why) => internal(why),
        other => internal(other.to_string()),
    })?;
    if object::depth(&patched) > object::READABLE {
        return Err(internal(PatchError::TooDeep.to_string()));
    }
    if let Some(refused) = other_kind(ctx, before, &patched) {
        return Err(Failed::Refused(refused));
    }
    let read = webhook_versions::read(ctx, attributes, &invocation.equivalent, patched)
        .await
        .map_err(|error| internal(error.to_string()))?;
    let changed = read.shown != *before;
    Ok(Some((read.object, changed)))
}

/// Refuses a patch that makes an object of another built-in kind, in the words of Go's conversion.
fn other_kind(ctx: &RequestContext, before: &Value, patched: &Value) -> Option<ApiError> {
    let text = |field: &str| patched[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let is_same = patched["apiVersion"] == before["apiVersion"] && patched["kind"] == before["kind"];
    if is_same || ctx.resource.custom.is_some() || version.is_empty() || kind.is_empty() {
        return None;
    }
    let version = version.rsplit('/').next().unwrap_or_default();
    let group = ctx.resource.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
    let own = before["kind"].as_str().unwrap_or_default();
    let why = format!("converting ({version}.{kind}) to ({group}.{own}): unknown conversion");
    Some(ApiError::internal_plain(why))
}

/// The result of a failed call for the request, by `failurePolicy`.
fn apply_failure_policy(hook: &Hook, failed: Failed) -> Result<()> {
    match failed {
        Failed::Refused(error) => Err(error),
        Failed::Call(reason) if hook.ignores_failures => {
            tracing::warn!(
                webhook = hook.name,
                reason,
                "webhook call failed, ignored because failurePolicy is Ignore"
            );
            Ok(())
        }
        Failed::Call(reason) => {
            Err(ApiError::internal(format!("failed calling webhook \"{}\": {reason}", hook.name)))
        }
    }
}
