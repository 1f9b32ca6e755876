//! Holds the object against the rules of its kind.

use serde_json::Value;
use setpoint_api::cause::{Cause, Path};
use setpoint_kinds::validate::{self, Policy};

use super::change::{Change, State, Write};
use super::strategy;
use crate::context::RequestContext;
use crate::decision::Decision;
use crate::error::{ApiError, Result};
use crate::key;
use crate::object;
use crate::registry::{self, Candidate, Resource};

pub(super) fn run(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let ctx = write.ctx();
    match change.old() {
        None => create(ctx, &change.sent_empty, &change.new)?,
        Some(old) => {
            let tolerated = update(ctx, &change.sent_empty, &change.new, old)?;
            change.warnings.extend(tolerated);
        }
    }
    Ok(())
}

fn refuse(resource: &Resource, sent_empty: &[&str], object: &Value, mut causes: Vec<Cause>) -> Result<()> {
    if causes.is_empty() {
        return Ok(());
    }
    for cause in causes.iter_mut().filter(|cause| sent_empty.contains(&cause.field.as_str())) {
        if let Some(detail) = cause.message.strip_prefix("Invalid value: null: ") {
            cause.message = format!("Invalid value: {{}}: {detail}");
        }
    }
    Err(ApiError::invalid(resource, object::name(object), causes))
}

/// The rules that the administrator set.
fn policy_of(ctx: &RequestContext) -> Policy {
    Policy { forbids_privileged: !ctx.server.options().allow_privileged }
}

/// Devices that are in use by others are for claims in namespaces that an administrator has labelled.
fn admin_access(ctx: &RequestContext, object: &Value) -> Vec<Cause> {
    const LABEL: &str = "resource.kubernetes.io/admin-access";
    if !matches!(ctx.resource.facts.key(), ("resource.k8s.io", "ResourceClaim" | "ResourceClaimTemplate")) {
        return Vec::new();
    }
    let spec = object.pointer("/spec/spec").unwrap_or(&object["spec"]);
    let requests = spec.pointer("/devices/requests").and_then(Value::as_array);
    let wants = |request: &Value| request.pointer("/exactly/adminAccess") == Some(&Value::Bool(true));
    let asking = requests.into_iter().flatten().enumerate().filter(|(_, request)| wants(request));
    let mut asking = asking.map(|(index, _)| index).peekable();
    if asking.peek().is_none() {
        return Vec::new();
    }
    let namespace =
        ctx.server.store().snapshot().get(&key::object("", "namespaces", "", &ctx.info.namespace));
    let labelled = namespace
        .is_some_and(|entry| registry::value(&entry)["metadata"]["labels"][LABEL].as_str() == Some("true"));
    let path = Path::new("spec.devices.requests");
    let detail =
        format!("admin access to devices requires the `{LABEL}: true` label on the containing namespace");
    let cause = |index: usize| Cause::forbidden(&path.index(index).child("adminAccess"), &detail);
    if labelled { Vec::new() } else { asking.map(cause).collect() }
}

fn create(ctx: &RequestContext, sent_empty: &[&str], new: &Value) -> Result<()> {
    let (resource, subresource) = (&*ctx.resource, ctx.info.subresource.as_str());
    let strategy = strategy::of(resource);
    let mut causes = validate::create(&resource.facts, &strategy.as_validated(resource, new), policy_of(ctx));
    causes.splice(0..0, admin_access(ctx, new));
    let candidate = Candidate { subresource, new, old: None, interrupt: &ctx.work.interrupt };
    strategy.validate(resource, &candidate, &mut causes);
    refuse(resource, sent_empty, new, causes)
}

/// Returns the place behind the causes about the change of an immutable object. Causes about its data come after them.
fn behind_what_is_frozen(causes: &[Cause]) -> usize {
    let frozen =
        causes.iter().rposition(|cause| cause.message.ends_with(validate::FROZEN)).map(|last| last + 1);
    frozen.unwrap_or_else(|| {
        causes.iter().take_while(|cause| cause.field.starts_with("metadata") || cause.field == "type").count()
    })
}

/// Validates a changed object. What rules have against what did not change comes back as warnings.
fn update(ctx: &RequestContext, sent_empty: &[&str], new: &Value, live: &Value) -> Result<Vec<String>> {
    let (resource, subresource) = (&*ctx.resource, ctx.info.subresource.as_str());
    let strategy = strategy::of(resource);
    let mut causes = match subresource {
        "" | "scale" => {
            let (new, live) = (strategy.as_validated(resource, new), strategy.as_validated(resource, live));
            validate::update(&resource.facts, &new, &live, policy_of(ctx))
        }
        subresource => validate::update_subresource(&resource.facts, subresource, new, live, policy_of(ctx)),
    };
    if live.get("immutable").is_some_and(|immutable| immutable == true) {
        let empty = sent_empty.iter().filter(|field| live.get(**field).is_none());
        let empty: Vec<Cause> =
            empty.map(|field| Cause::forbidden(&Path::new(*field), validate::FROZEN)).collect();
        let place = behind_what_is_frozen(&causes);
        causes.splice(place..place, empty);
    }
    let candidate = Candidate { subresource, new, old: Some(live), interrupt: &ctx.work.interrupt };
    let tolerated = strategy.validate(resource, &candidate, &mut causes);
    let tolerated: Vec<String> = tolerated.iter().map(ToString::to_string).collect();
    refuse(resource, sent_empty, new, causes).map_err(|error| error.with_warnings(&tolerated))?;
    Ok(tolerated)
}

/// The warnings about a stored object that an apply leaves as it is. Such an apply ends before this stage.
pub(crate) fn warnings_of_unchanged(write: &Write<'_>, live: &Value) -> Vec<String> {
    let (ctx, resource) = (write.ctx(), write.resource());
    let strategy = strategy::of(resource);
    let mut warnings = Vec::new();
    if strategy.warns_of_unchanged(resource) {
        warnings = update(ctx, &[], live, live).unwrap_or_default();
    }
    if ctx.info.subresource.is_empty() {
        warnings.extend(strategy.warnings(resource, "", live, Some(live)));
    }
    warnings
}
