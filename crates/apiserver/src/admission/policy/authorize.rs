//! Params are shown to whoever a policy refuses: nobody binds a policy to params that they may not read.

use std::fmt::Write;

use serde_json::Value;
use setpoint_api::cause::{Cause, Path};
use setpoint_store::Snapshot;

use crate::auth::access::Access;
use crate::auth::authz::Attributes;
use crate::configured::GROUP;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::key;
use crate::object;
use crate::registry;
use crate::user::UserInfo;

/// Refuses a policy or a binding whose writer may not read its params; `live` is what it replaces.
pub(crate) fn authorize(
    ctx: &RequestContext,
    snapshot: &Snapshot,
    new: &Value,
    live: Option<&Value>,
) -> Result<()> {
    if ctx.resource.group != GROUP || !ctx.info.subresource.is_empty() {
        return Ok(());
    }
    let spec = &new["spec"];
    let (field, refused) = match ctx.resource.plural.as_str() {
        "validatingadmissionpolicies" if !spec["paramKind"].is_null() => {
            if live.is_some_and(|live| live["spec"]["paramKind"] == spec["paramKind"]) {
                return Ok(());
            }
            ("paramKind", of_policy(ctx, snapshot, &spec["paramKind"]))
        }
        "validatingadmissionpolicybindings" if !spec["paramRef"].is_null() => {
            ("paramRef", of_binding(ctx, snapshot, spec))
        }
        _ => return Ok(()),
    };
    refused.map_or(Ok(()), |why| {
        let cause = Cause::forbidden(&Path::new("spec").child(field), &why);
        Err(ApiError::invalid(&ctx.resource, object::name(new), vec![cause]))
    })
}

/// Group and resource of a kind; `*` is a resource that nobody serves.
fn resolved(ctx: &RequestContext, kind: &Value) -> (String, Option<String>) {
    let version = kind["apiVersion"].as_str().unwrap_or("");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let found = ctx.server.0.registry.find_kind(group, version, kind["kind"].as_str().unwrap_or(""));
    (group.to_owned(), found.map(|resource| resource.plural.clone()))
}

fn of_policy(ctx: &RequestContext, snapshot: &Snapshot, kind: &Value) -> Option<String> {
    let (group, resource) = resolved(ctx, kind);
    let wanted = Attributes {
        verb: "get",
        is_resource: true,
        group: &group,
        resource: resource.as_deref().unwrap_or("*"),
        namespace: "*",
        name: "*",
        ..Attributes::default()
    };
    let text = |field: &str| kind[field].as_str().unwrap_or("");
    (!Access::of(ctx).allows(snapshot, &ctx.user, &wanted)).then(|| {
        format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            shown(&ctx.user),
            text("kind"),
            text("apiVersion")
        )
    })
}

fn of_binding(ctx: &RequestContext, snapshot: &Snapshot, spec: &Value) -> Option<String> {
    let param = |field: &str| spec["paramRef"][field].as_str().unwrap_or("");
    let policy_name = spec["policyName"].as_str().unwrap_or("");
    let policy = snapshot.get(&key::object(GROUP, "validatingadmissionpolicies", "", policy_name));
    let policy = policy.map(|entry| registry::value(&entry));
    let kind = policy.as_ref().map(|policy| &policy["spec"]["paramKind"]).filter(|kind| !kind.is_null());
    let (group, resource) = match kind {
        Some(kind) => resolved(ctx, kind),
        None => ("*".to_owned(), Some("*".to_owned())),
    };
    let verb = if param("name").is_empty() { "list" } else { "get" };
    let wanted = Attributes {
        verb,
        is_resource: true,
        group: &group,
        resource: resource.as_deref().unwrap_or("*"),
        namespace: param("namespace"),
        name: param("name"),
        ..Attributes::default()
    };
    if Access::of(ctx).allows(snapshot, &ctx.user, &wanted) {
        return None;
    }
    let user = shown(&ctx.user);
    let unsure = match (&policy, kind) {
        (None, _) => format!("unable to get policy {policy_name}"),
        (_, Some(kind)) if resource.is_none() => {
            let text = |field: &str| kind[field].as_str().unwrap_or("");
            format!("unable to resolve paramKind &{{{} {}}}", text("apiVersion"), text("kind"))
        }
        _ => {
            return Some(format!(
                "user {user} does not have \"{verb}\" permission on the object referenced by paramRef"
            ));
        }
    };
    Some(format!(
        "{unsure} to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all \
         groups, versions and resources"
    ))
}

/// A user as Go prints the struct that holds them.
fn shown(user: &UserInfo) -> String {
    let mut extra = String::new();
    for (key, values) in &user.extra {
        let space = if extra.is_empty() { "" } else { " " };
        let _ = write!(extra, "{space}{key}:[{}]", values.join(" "));
    }
    format!("&{{{} {} [{}] map[{extra}]}}", user.name, user.uid, user.groups.join(" "))
}
