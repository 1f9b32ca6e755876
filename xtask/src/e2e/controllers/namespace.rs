//! Namespaces: their initial objects, and their deletion.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::proxy::{MERGE, until};
use super::Place;
use super::rollout::deployment;

pub fn deletion(place: &Place<'_>) -> Result<Value> {
    let name = format!("{}-going", place.namespace);
    let path = format!("/api/v1/namespaces/{name}");
    place.api.create("/api/v1/namespaces", &json!({ "metadata": { "name": name } }))?;
    let there = Place { namespace: name, ..*place };
    until("the account", || place.api.find(&there.core("serviceaccounts", "default")))?;
    let held = json!({ "metadata": { "name": "held", "finalizers": ["e2e.setpoint.dev/hold"] } });
    place.api.create(&there.core("configmaps", ""), &held)?;
    place.api.create(&there.core("secrets", ""), &json!({ "metadata": { "name": "s" } }))?;
    there.create_deployment(&deployment("web", 2, "web:1", &json!({ "type": "Recreate" })))?;
    there.rolled_out("web")?;
    place.api.delete(&path, &Value::Null)?;
    let told = until("it says what remains", || {
        let namespace = place.api.get(&path)?;
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let remaining = conditions.iter().any(|c| {
            c["type"] == "NamespaceFinalizersRemaining"
                && c["status"] == "True"
                && c["message"].as_str().is_some_and(|text| text.contains("e2e.setpoint.dev/hold"))
        });
        let emptied = there.pods()?.is_empty() && there.sets()?.is_empty();
        Ok((remaining && emptied).then_some(namespace["status"]["conditions"].clone()))
    })?;
    let (code, refused) = place.api.call(
        "POST",
        &there.core("configmaps", ""),
        "application/json",
        r#"{"metadata":{"name":"late"}}"#,
    )?;
    ensure!(code == 403, "{code}: {refused}");
    place.api.patch(
        &there.core("configmaps", "held"),
        MERGE,
        &json!({ "metadata": { "finalizers": null } }),
    )?;
    until("it is gone", || Ok(place.api.find(&path)?.is_none().then_some(())))?;
    let told: Vec<Value> = told
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| json!([c["type"], c["status"], c["reason"], c["message"]]))
        .collect();
    Ok(json!(told))
}

pub fn accounts(place: &Place<'_>) -> Result<Value> {
    let account = place.core("serviceaccounts", "default");
    let before = place.api.get(&account)?["metadata"]["uid"].clone();
    place.api.delete(&account, &Value::Null)?;
    until("another account", || {
        let found = place.api.find(&account)?;
        Ok(found.filter(|found| found["metadata"]["uid"] != before))
    })?;
    let bundle = place.core("configmaps", "kube-root-ca.crt");
    let right = place.api.get(&bundle)?["data"]["ca.crt"].clone();
    ensure!(right.as_str().is_some_and(|text| text.contains("BEGIN CERTIFICATE")), "{right}");
    place.api.patch(&bundle, MERGE, &json!({ "data": { "ca.crt": "wrong", "other": "x" } }))?;
    until("the bundle is put right", || {
        Ok((place.api.get(&bundle)?["data"] == json!({ "ca.crt": right })).then_some(()))
    })?;
    place.api.delete(&bundle, &Value::Null)?;
    until("the bundle is back", || place.api.find(&bundle))?;
    Ok(Value::Null)
}
