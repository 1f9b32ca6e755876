//! `pods/eviction`: a deletion that disruption budgets may refuse.

use http::{Response, StatusCode};
use serde_json::{Value, json};
use setpoint_api::clock;
use setpoint_api::selector::LabelSelector;
use setpoint_store::KeyRange;

use crate::body::Body;
use crate::context::RequestContext;
use crate::decision::Decision;
use crate::error::{ApiError, Result};
use crate::key;
use crate::object;
use crate::registry::{self, meta};
use crate::respond;
use crate::write::delete_options::DeleteOptions;
use crate::write::{Change, Kind, Merge, State, Write, transaction};
use crate::write_options::WriteOptions;
use crate::writer::Writer;

/// Answers `POST …/pods/NAME/eviction`.
pub(crate) async fn route(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    let eviction = super::binding::decode(ctx, bytes, "policy", "v1", "Eviction")?;
    super::same_object(ctx, &eviction, "Eviction")?;
    let writer = Writer::new(ctx, "CreateOptions")?;
    let eviction = super::admit(&writer, eviction, ("policy", "v1", "Eviction")).await?;
    respond::warned(evict(&writer, &eviction).await, &writer.warnings())
}

async fn evict(writer: &Writer<'_>, eviction: &Value) -> Result<Response<Body>> {
    let ctx = writer.ctx;
    let options = eviction.get("deleteOptions").cloned().unwrap_or_else(|| json!({}));
    let options: DeleteOptions =
        serde_json::from_value(options).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let is_dry_run = writer.is_dry_run() || options.is_dry_run();
    let writer = Writer::with(ctx, WriteOptions::of_delete(is_dry_run));
    transaction::commit(&Write::deletion(&writer, Kind::Evict, &Evict, &options)).await?;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    respond::value(StatusCode::CREATED, &ctx.negotiated, &status)
}

struct Evict;

impl Merge for Evict {
    fn merge(&self, write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
        let Some(pod) = change.live_object() else {
            return Err(ApiError::not_found(write.resource(), write.name).into());
        };
        if !ignores_budgets(pod) {
            spend_budget(write.writer, state, pod)?;
        }
        Ok(())
    }
}

/// Pods that do no work may always go.
fn ignores_budgets(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or("");
    matches!(phase, "Succeeded" | "Failed" | "Pending") || object::is_terminating(pod)
}

fn spend_budget(writer: &Writer<'_>, state: &mut State<'_>, pod: &Value) -> Result<()> {
    let ctx = writer.ctx;
    let mut prefix = key::resource("policy", "poddisruptionbudgets");
    key::extend(&mut prefix, &ctx.info.namespace, "");
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
    let budgets: Vec<_> = state
        .snapshot
        .range(&KeyRange::prefix(prefix), None)
        .filter(|entry| {
            let budget = registry::value(entry);
            let selector = LabelSelector::from_json(&budget["spec"]["selector"]);
            selector.is_ok_and(|selector| selector.matches_by(|key| labels.get(key).and_then(Value::as_str)))
        })
        .cloned()
        .collect();
    let [entry] = budgets.as_slice() else {
        if budgets.is_empty() {
            return Ok(());
        }
        return Err(ApiError::internal_plain(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    };
    let mut budget = registry::value(entry);
    let name = meta(entry).name.clone();
    let Some(allowed) = allowed(&budget, &name, is_ready(pod))? else { return Ok(()) };
    budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
    budget["status"]["disruptedPods"][&ctx.info.name] = json!(clock::rfc3339_seconds(writer.now));
    let encoded = object::Encoded::new(&budget);
    state.txn.put_with(entry.key.clone(), move |revision| encoded.at(revision));
    Ok(())
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|known| known["type"] == "Ready" && known["status"] == "True")
}

/// How many evictions the budget allows, at least one; none if this one costs nothing, because the pod is not among
/// those that the budget counts.
fn allowed(budget: &Value, name: &str, ready: bool) -> Result<Option<i64>> {
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
    if !ready && (always || (healthy >= desired && desired > 0)) {
        return Ok(None);
    }
    let refused = |text: String, seconds: u32| {
        let text = format!("The disruption budget {name} {text}");
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        Err(ApiError::too_many_requests(message, seconds).with_cause("DisruptionBudget", text, ""))
    };
    // Counted for what the budget asked before.
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        return refused("is still being processed by the server.".to_owned(), 10);
    }
    let allowed = number("disruptionsAllowed");
    if allowed > 0 {
        return Ok(Some(allowed));
    }
    let conditions = status["conditions"].as_array();
    let failed = conditions.into_iter().flatten().find(|known| {
        known["type"] == "DisruptionAllowed" && known["status"] == "False" && known["reason"] == "SyncFailed"
    });
    let text = match failed {
        Some(failed) => {
            let why = failed["message"].as_str().unwrap_or_default();
            format!("does not allow evicting pods currently because it failed sync: {why}")
        }
        None if healthy <= desired => format!("needs {desired} healthy pods and has {healthy} currently"),
        None => "does not allow evicting pods currently".to_owned(),
    };
    refused(text, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kube-apiserver 1.37 answered.
    #[test]
    fn a_budget_guards_the_pods_that_it_counts() {
        let budget = |spec: Value, allowed: i64, healthy: i64, desired: i64| {
            json!({"metadata": {"generation": 1}, "spec": spec, "status": {"observedGeneration": 1,
                "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired}})
        };
        let plain = |allowed, healthy, desired| budget(json!({}), allowed, healthy, desired);
        let always = json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"});
        let with = |mut budget: Value, path: &str, value: Value| {
            *budget.pointer_mut(path).unwrap() = value;
            budget
        };
        let stale = |budget| with(budget, "/status/observedGeneration", json!(0));
        let mut failed = plain(0, 3, 2);
        failed["status"]["conditions"] = json!([{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "boom"}]);
        for (budget, ready, expected) in [
            (plain(1, 3, 2), true, Ok(Some(1))),
            (plain(0, 2, 2), true, Err("needs 2 healthy pods and has 2 currently")),
            (plain(0, 3, 2), true, Err("does not allow evicting pods currently")),
            (failed, true, Err("does not allow evicting pods currently because it failed sync: boom")),
            (stale(plain(1, 3, 2)), true, Err("is still being processed by the server.")),
            (plain(0, 2, 2), false, Ok(None)),
            (plain(1, 3, 2), false, Ok(None)),
            (stale(plain(0, 2, 2)), false, Ok(None)),
            (plain(0, 1, 2), false, Err("needs 2 healthy pods and has 1 currently")),
            (plain(0, 0, 0), false, Err("needs 0 healthy pods and has 0 currently")),
            (budget(always.clone(), 0, 1, 2), false, Ok(None)),
            (stale(budget(always, 0, 1, 2)), false, Ok(None)),
        ] {
            let judged = allowed(&budget, "b", ready).map_err(|error| {
                let details = error.status().details.clone().unwrap();
                let waits = details.causes[0].message.contains("processed");
                assert_eq!(
                    (error.code().as_u16(), details.retry_after_seconds),
                    (429, if waits { 10 } else { 0 })
                );
                details.causes[0].message.clone()
            });
            let expected = expected.map_err(|text| format!("The disruption budget b {text}"));
            assert_eq!(judged, expected, "{budget} {ready}");
        }
    }
}
