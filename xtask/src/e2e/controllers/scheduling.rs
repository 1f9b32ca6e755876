//! Pods that cannot be placed say why, and are placed once they can.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::proxy::{MERGE, until};
use super::Place;

pub fn constraints(place: &Place<'_>) -> Result<Value> {
    let pod = |name: &str, spec: Value| {
        let mut object = json!({ "metadata": { "name": name }, "spec": spec });
        let mut container = json!({ "name": "c", "image": "web:1" });
        if name == "greedy" {
            container["resources"] = json!({ "requests": { "cpu": "1000" } });
        }
        object["spec"]["containers"] = json!([container]);
        place.api.create(&place.core("pods", ""), &object)
    };
    let affinity = |key: &str, operator: &str| {
        json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [{ "key": key, "operator": operator }] }] } } } })
    };
    pod("greedy", json!({}))?;
    pod("selective", json!({ "nodeSelector": { "e2e/disk": "ssd" } }))?;
    pod("attached", affinity("e2e/disk", "Exists"))?;
    pod("averse", affinity("e2e/disk", "DoesNotExist"))?;
    pod("gated", json!({ "schedulingGates": [{ "name": "e2e/wait" }] }))?;
    pod("elsewhere", json!({ "schedulerName": "another" }))?;
    phase(place, "averse", "Running")?;
    let mut told = Vec::new();
    for name in ["greedy", "selective", "attached"] {
        told.push(refusal(place, name)?);
    }
    // The node gets the label: pods that waited for it are scheduled at once.
    let nodes = place.api.items("/api/v1/nodes")?;
    let node = nodes[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let label = |value: Value| json!({ "metadata": { "labels": { "e2e/disk": value } } });
    place.api.patch(&format!("/api/v1/nodes/{node}"), MERGE, &label(json!("ssd")))?;
    phase(place, "selective", "Running")?;
    phase(place, "attached", "Running")?;
    place.api.patch(&format!("/api/v1/nodes/{node}"), MERGE, &label(Value::Null))?;
    let ungated = json!({ "spec": { "schedulingGates": null } });
    place.api.patch(&place.core("pods", "gated"), MERGE, &ungated)?;
    phase(place, "gated", "Running")?;
    phase(place, "elsewhere", "Pending")?;
    Ok(json!(told))
}

fn phase(place: &Place<'_>, name: &str, wanted: &str) -> Result<()> {
    until(&format!("{name} is {wanted}"), || {
        let pod = place.api.get(&place.core("pods", name))?;
        Ok((pod["status"]["phase"] == wanted).then_some(()))
    })
}

/// Returns the reason why the pod cannot be placed.
fn refusal(place: &Place<'_>, name: &str) -> Result<Value> {
    until(&format!("{name} says why it waits"), || {
        let pod = place.api.get(&place.core("pods", name))?;
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|c| c["type"] == "PodScheduled" && c["status"] == "False");
        Ok(found.map(|found| json!([found["reason"], found["message"]])))
    })
}
