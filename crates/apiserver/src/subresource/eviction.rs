//! `pods/eviction`: a deletion that disruption budgets may refuse.

use http::{Response, StatusCode};
use serde_json::{Value, json};
use setpoint_api::clock;
use setpoint_api::selector::LabelSelector;
use setpoint_store::{KeyRange, Snapshot, Txn};

use crate::error::{ApiError, Result};
use crate::object;
use crate::registry::{self, key, meta};
use crate::respond;
use crate::server::{Ask, Body};
use crate::verb::delete::{self, DeleteOptions};
use crate::write::{Writer, commit};

/// Answers `POST …/pods/NAME/eviction`.
pub(crate) async fn route(ask: &Ask, bytes: &[u8]) -> Result<Response<Body>> {
    let eviction = super::binding::decode(ask, bytes, "policy", "v1", "Eviction")?;
    let options = eviction.get("deleteOptions").cloned().unwrap_or_else(|| json!({}));
    let options: DeleteOptions =
        serde_json::from_value(options).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let writer = Writer::new(ask, "CreateOptions")?;
    let dry = writer.dry_run || options.is_dry();
    let decide = |snapshot: &Snapshot, txn: &mut Txn| {
        let key = ask.resource.key(&ask.info.namespace, &ask.info.name);
        let entry = snapshot.get(&key).ok_or_else(|| ApiError::not_found(&ask.resource, &ask.info.name))?;
        let pod = registry::value(&entry);
        if !ignores_budgets(&pod) {
            spend_budget(&writer, snapshot, txn, &pod)?;
        }
        delete::decide(&writer, snapshot, txn, &entry, &options).map(|_| ())
    };
    commit(ask, dry, decide).await?;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    respond::value(StatusCode::CREATED, &ask.negotiated, &status)
}

/// Pods that do no work may always go.
fn ignores_budgets(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or("");
    matches!(phase, "Succeeded" | "Failed" | "Pending") || object::is_terminating(pod)
}

fn spend_budget(writer: &Writer<'_>, snapshot: &Snapshot, txn: &mut Txn, pod: &Value) -> Result<()> {
    let ask = writer.ask;
    let mut prefix = key::resource("policy", "poddisruptionbudgets");
    key::extend(&mut prefix, &ask.info.namespace, "");
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
    let budgets: Vec<_> = snapshot
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
    let allowed = budget.pointer("/status/disruptionsAllowed").and_then(Value::as_i64).unwrap_or(0);
    if allowed <= 0 {
        let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
        let text = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number("desiredHealthy"),
            number("currentHealthy")
        );
        let error = ApiError::too_many_requests(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            0,
        );
        return Err(error.with_cause("DisruptionBudget", text, ""));
    }
    budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
    budget["status"]["disruptedPods"][&ask.info.name] = json!(clock::rfc3339_seconds(writer.now));
    let encoded = object::Encoded::new(&budget);
    txn.put_with(entry.key.clone(), move |revision| encoded.at(revision));
    Ok(())
}
