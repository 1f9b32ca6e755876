//! Nobody grants through RBAC what they do not hold: who writes a role must hold its rules or have the verb `escalate`
//! on it, who writes a binding must hold the role's rules or have the verb `bind` on the role.

use serde_json::{Map, Value};
use setpoint_store::Snapshot;

use super::access::Access;
use super::authz::{self, Attributes, RBAC, Rule};
use super::covers;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::object;
use crate::user::MASTERS;

const NO_AGGREGATION: &str = "must have cluster-admin privileges to use the aggregationRule";

/// Refuses a role that grants more than its writer holds; `live` is what it replaces.
pub(crate) fn check_role(
    ctx: &RequestContext,
    snapshot: &Snapshot,
    new: &Value,
    live: Option<&Value>,
) -> Result<()> {
    if ctx.user.is_in(MASTERS) {
        return Ok(());
    }
    // The name is the path's: whoever may escalate one role by name cannot create it by `POST`.
    let escalate = Attributes {
        verb: "escalate",
        is_resource: true,
        group: RBAC,
        resource: &ctx.resource.plural,
        namespace: &ctx.info.namespace,
        name: &ctx.info.name,
        ..Attributes::default()
    };
    if Access::of(ctx).allows(snapshot, &ctx.user, &escalate)
        || live.is_some_and(|live| grants_the_same(new, live))
    {
        return Ok(());
    }
    let rules = authz::rules_of(new).map_err(|error| ApiError::internal_plain(error.to_string()))?;
    confirm(ctx, snapshot, new, &rules)?;
    // Whatever it gathers later is not known now; and without it rules that it took away could stay.
    if aggregates(new) || live.is_some_and(aggregates) {
        let held = authz::held(snapshot, &ctx.user, &ctx.info.namespace);
        if covers::missing(&held.rules, &everything()) != Ok(Vec::new()) {
            return Err(refused(ctx, new, NO_AGGREGATION));
        }
    }
    Ok(())
}

/// Refuses a binding to a role that grants more than its writer holds; `live` is what it replaces.
pub(crate) fn check_binding(
    ctx: &RequestContext,
    snapshot: &Snapshot,
    new: &Value,
    live: Option<&Value>,
) -> Result<()> {
    if ctx.user.is_in(MASTERS) || live.is_some_and(|live| grants_the_same(new, live)) {
        return Ok(());
    }
    let role = authz::role_ref_of(new).map_err(|error| ApiError::internal_plain(error.to_string()))?;
    let namespace = ctx.info.namespace.as_str();
    let resource = match role.kind.as_str() {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        other => {
            let kind = setpoint_api::go_format::quote(other);
            return Err(ApiError::internal_plain(format!("unsupported role reference kind: {kind}")));
        }
    };
    let bind = Attributes {
        verb: "bind",
        is_resource: true,
        group: &role.api_group,
        resource,
        namespace,
        name: &role.name,
        ..Attributes::default()
    };
    if Access::of(ctx).allows(snapshot, &ctx.user, &bind) {
        return Ok(());
    }
    if resource == "roles" && namespace.is_empty() {
        return Err(ApiError::bad_request("Namespace parameter required."));
    }
    // The binding's own resource, not the role's: that is what kube-apiserver says.
    let rules = role.rules(snapshot, namespace);
    let rules = rules.ok_or_else(|| ApiError::not_found(&ctx.resource, &role.name))?;
    confirm(ctx, snapshot, new, &rules)
}

/// Refuses rules that the writer does not hold.
fn confirm(ctx: &RequestContext, snapshot: &Snapshot, new: &Value, rules: &[Rule]) -> Result<()> {
    let held = authz::held(snapshot, &ctx.user, &ctx.info.namespace);
    let missing = covers::missing(&held.rules, rules);
    let missing = missing.map_err(|error| refused(ctx, new, &error.to_string()))?;
    if missing.is_empty() {
        return Ok(());
    }
    let mut text = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        setpoint_api::go_format::quote(&ctx.user.name),
        covers::quoted(&ctx.user.groups),
        covers::describe(&missing)
    );
    let absent = held.absent.iter();
    let absent = absent.map(|name| ApiError::not_found(&ctx.resource, name).status().message.clone());
    match absent.collect::<Vec<String>>().as_slice() {
        [] => {}
        [one] => text += &format!("; resolution errors: [{one}]"),
        several => text += &format!("; resolution errors: [[{}]]", several.join(", ")),
    }
    Err(refused(ctx, new, &text))
}

fn refused(ctx: &RequestContext, new: &Value, text: &str) -> ApiError {
    // kube-apiserver decides before it draws a name, and names nothing then.
    let drawn = ctx.info.name.is_empty() && !object::meta_text(new, "generateName").is_empty();
    let name = if drawn { "" } else { object::name(new) };
    ApiError::forbidden(&ctx.resource.group_resource(), name, text)
}

fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
    ]
}

fn aggregates(role: &Value) -> bool {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
    selectors.is_some_and(|selectors| !selectors.is_empty())
}

/// Whether a change is only about what the garbage collector needs: it must be able to let go of an object whose rules
/// nobody there holds. A label is more than that, for roles are aggregated by their labels.
fn grants_the_same(new: &Value, live: &Value) -> bool {
    const COLLECTORS: [&str; 4] = ["ownerReferences", "finalizers", "selfLink", "managedFields"];
    let rest = |object: &Value| {
        let mut object = object.clone();
        let metadata = object::metadata_mut(&mut object);
        metadata.retain(|field, _| !COLLECTORS.contains(&field.as_str()));
        without_empty(object)
    };
    rest(new) == rest(live)
}

/// Without fields that hold nothing: an empty list and none are the same, an empty text in a map is not.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, without_empty(value)));
            let kept = fields.filter(|(_, value)| match value {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(fields) => !fields.is_empty(),
                _ => true,
            });
            Value::Object(kept.collect::<Map<String, Value>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_empty).collect()),
        other => other,
    }
}
