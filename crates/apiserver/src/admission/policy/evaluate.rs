//! Evaluation of admission policies for a request.

use serde_json::{Map, Value, json};
use setpoint_api::kind::GroupResource;
use setpoint_api::status::Reason;

use super::params::{self, ParamError};
use crate::admission::review::{self, EquivalentResource};
use crate::admission::{Attributes, webhook_versions};
use crate::configured::{Action, Binding, Policy, Validation};
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::key;
use crate::object;
use crate::registry;
use setpoint_cel::{Evaluation, Facts};
use setpoint_machinery::Interrupt;
use setpoint_machinery::apply::ConversionError;

/// The longest message that a `messageExpression` may compute.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// The denial of a request by one policy.
#[derive(Clone, Debug, PartialEq)]
struct Denial {
    message: String,
    reason: Reason,
}

impl Denial {
    fn because(message: impl Into<String>) -> Self {
        Denial { message: message.into(), reason: Reason::Invalid }
    }
}

/// The result of all policies: warnings for the client, and the first denial.
#[derive(Default)]
struct Verdict {
    warnings: Vec<String>,
    denial: Option<Denial>,
}

impl Verdict {
    fn deny(&mut self, policy: &Policy, binding: Option<&Binding>, denial: Denial) {
        let Denial { message, reason } = denial;
        let bound = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        let message = format!("ValidatingAdmissionPolicy '{}'{bound} denied request: {message}", policy.name);
        self.denial.get_or_insert(Denial { message, reason });
    }

    /// Denies the request because the policy or its binding cannot be evaluated for it. `failurePolicy: Ignore`
    /// passes over it.
    fn misconfigured(&mut self, policy: &Policy, binding: Option<&Binding>, error: &str) {
        if policy.ignores_failures {
            return;
        }
        let what = if binding.is_some() { "binding" } else { "policy" };
        self.deny(policy, binding, Denial::because(format!("failed to configure {what}: {error}")));
    }

    fn take(&mut self, policy: &Policy, binding: &Binding, found: Found) {
        for denial in found.denials {
            for action in &binding.actions {
                match action {
                    Action::Deny => self.deny(policy, Some(binding), denial.clone()),
                    Action::Warn => self.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        policy.name, binding.name, denial.message
                    )),
                }
            }
        }
        for error in found.annotations {
            self.deny(policy, Some(binding), Denial::because(error));
        }
    }
}

/// Evaluates the policies for a request. The warnings come back beside the refusal.
///
/// # Errors
/// A policy refuses the request.
pub(crate) async fn evaluate(
    ctx: &RequestContext,
    policies: &[Policy],
    attributes: &Attributes,
) -> (Vec<String>, Result<()>) {
    let mut verdict = Verdict::default();
    for policy in policies {
        if let Err(error) = ctx.work.check() {
            return (verdict.warnings, Err(error));
        }
        match policy.scope.equivalent(ctx, attributes) {
            Err(error) => verdict.misconfigured(policy, None, &error.status().message),
            Ok(None) => {}
            Ok(Some(equivalent)) => {
                if let Err(error) = evaluate_one(ctx, policy, attributes, &equivalent, &mut verdict).await {
                    return (verdict.warnings, Err(error));
                }
            }
        }
    }
    let result = verdict.denial.map_or(Ok(()), |denial| {
        let resource = GroupResource::new(&*attributes.group, &*attributes.resource);
        Err(ApiError::refused_by_policy(&resource, name(attributes), &denial.message, denial.reason))
    });
    (verdict.warnings, result)
}

/// The object's name in a refusal.
fn name(attributes: &Attributes) -> &str {
    let object = attributes.object.as_ref();
    let names = [
        attributes.name.as_str(),
        object.map_or("", object::name),
        object.map_or("", |object| object::meta_text(object, "generateName")),
    ];
    names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
}

async fn evaluate_one(
    ctx: &RequestContext,
    policy: &Policy,
    attributes: &Attributes,
    equivalent: &EquivalentResource,
    verdict: &mut Verdict,
) -> Result<()> {
    let resource = match &policy.param_kind {
        None => None,
        Some(kind) => match ctx.server.0.registry.find_kind(&kind.group, &kind.version, &kind.kind) {
            Some(resource) => Some(resource),
            None => {
                verdict.misconfigured(policy, None, &params::unknown(kind));
                return Ok(());
            }
        },
    };
    let mut shown = None;
    for binding in &policy.bindings {
        match binding.scope.as_ref().map(|scope| scope.equivalent(ctx, attributes)) {
            Some(Err(error)) => {
                verdict.misconfigured(policy, Some(binding), &error.status().message);
                continue;
            }
            Some(Ok(None)) => continue,
            Some(Ok(Some(_))) | None => {}
        }
        let mut all = vec![Value::Null];
        if let (Some(resource), Some(param)) = (&resource, &binding.params) {
            let collected = {
                let snapshot = ctx.server.store().snapshot();
                params::collect(&snapshot, resource, param, &attributes.namespace)
            };
            match in_version(ctx, resource, collected).await {
                Ok(found) => all = found,
                Err(error) => {
                    verdict.misconfigured(policy, Some(binding), &error.to_string());
                    continue;
                }
            }
        }
        if all.is_empty() {
            continue;
        }
        if shown.is_none() {
            shown = Some(PolicyInput::of(ctx, attributes, equivalent).await);
        }
        let shown = match &shown {
            Some(Ok(shown)) => shown,
            Some(Err(error)) => {
                let error = format!("failed to convert object version: {error}");
                verdict.misconfigured(policy, Some(binding), &error);
                continue;
            }
            None => continue,
        };
        let namespace = namespace(ctx, attributes)?;
        for params in &all {
            ctx.work.check()?;
            verdict.take(
                policy,
                binding,
                found(policy, &shown.facts(&namespace, params, &ctx.work.interrupt)),
            );
        }
    }
    Ok(())
}

async fn in_version(
    ctx: &RequestContext,
    resource: &registry::Resource,
    collected: Result<Vec<Value>, ParamError>,
) -> Result<Vec<Value>, ParamError> {
    let mut all = Vec::new();
    for param in collected? {
        all.push(params::shown(ctx, resource, param).await?);
    }
    Ok(all)
}

/// The request in the version that a policy asks for.
struct PolicyInput {
    object: Value,
    old: Value,
    request: Value,
}

impl PolicyInput {
    async fn of(
        ctx: &RequestContext,
        attributes: &Attributes,
        equivalent: &EquivalentResource,
    ) -> Result<Self, ConversionError> {
        let shown = async |value: &Option<Value>| match value {
            None => Ok(Value::Null),
            Some(value) => webhook_versions::shown(ctx, attributes, equivalent, value).await,
        };
        let (object, old) = (shown(&attributes.object).await?, shown(&attributes.old).await?);
        let mut review = review::review("v1", "", attributes, equivalent, (None, None), &ctx.user.to_value());
        Ok(PolicyInput { object, old, request: review["request"].take() })
    }

    fn facts<'a>(&'a self, namespace: &'a Value, params: &'a Value, interrupt: &'a Interrupt) -> Facts<'a> {
        let PolicyInput { object, old, request } = self;
        Facts { object, old, request, namespace, params, interrupt }
    }
}

/// The namespace of the request as expressions see it; null for cluster-scoped objects.
fn namespace(ctx: &RequestContext, attributes: &Attributes) -> Result<Value> {
    let kind = &attributes.kind;
    let is_namespace = (&*kind.group, &*kind.version, &*kind.kind) == ("", "v1", "Namespace");
    if is_namespace || attributes.namespace.is_empty() {
        return Ok(Value::Null);
    }
    let snapshot = ctx.server.store().snapshot();
    let entry = snapshot.get(&key::object("", "namespaces", "", &attributes.namespace));
    let entry = entry.ok_or_else(|| ApiError::namespace_not_found(&attributes.namespace))?;
    let mut stored = registry::value(&entry);
    let hidden = ["managedFields", "ownerReferences", "selfLink"];
    let metadata: Map<String, Value> = std::mem::take(object::metadata_mut(&mut stored));
    let metadata = metadata.into_iter().filter(|(field, _)| !hidden.contains(&field.as_str()));
    let part = |field: &str| stored.get(field).cloned().unwrap_or_else(|| json!({}));
    Ok(json!({"metadata": metadata.collect::<Map<_, _>>(), "spec": part("spec"), "status": part("status")}))
}

/// The violations of a policy by a request, with one of the policy's params.
#[derive(Debug, Default, PartialEq)]
struct Found {
    denials: Vec<Denial>,
    /// The errors of annotations. They deny the request whatever the actions of the binding are.
    annotations: Vec<String>,
}

fn found(policy: &Policy, facts: &Facts<'_>) -> Found {
    let failed = |error: String| {
        let denials = if policy.ignores_failures { Vec::new() } else { vec![Denial::because(error)] };
        Found { denials, annotations: Vec::new() }
    };
    let evaluation = Evaluation::new(&policy.variables, facts);
    match evaluation.hold(&policy.conditions) {
        Ok(true) => {}
        Ok(false) => return Found::default(),
        Err(error) => return failed(error),
    }
    let mut found = Found::default();
    for validation in &policy.validations {
        match evaluation.is_true(&validation.expression) {
            Ok(true) => {}
            Ok(false) => {
                let message = message(validation, &evaluation);
                found.denials.push(Denial { message, reason: validation.reason });
            }
            Err(error) if Evaluation::is_spent(&error) => return failed(error),
            Err(_) if policy.ignores_failures => {}
            Err(error) => found.denials.push(Denial::because(error)),
        }
    }
    // The server keeps no audit annotations, but an error in them denies the request.
    if !policy.annotations.is_empty() && !policy.ignores_failures {
        let evaluation = Evaluation::new(&policy.variables, facts);
        let errors = policy.annotations.iter().filter_map(|annotation| evaluation.text(annotation).err());
        found.annotations.extend(errors);
    }
    found
}

/// The message of a validation that is false.
fn message(validation: &Validation, evaluation: &Evaluation<'_>) -> String {
    let made = validation.message_expression.as_ref().and_then(|expression| {
        let text = evaluation.text(expression).ok().flatten()?;
        let text = text.trim();
        let fits = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
        fits.then(|| text.to_owned())
    });
    made.unwrap_or_else(|| match validation.message.trim() {
        "" => format!("failed expression: {}", validation.text.trim()),
        message => message.to_owned(),
    })
}
