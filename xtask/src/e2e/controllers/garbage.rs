//! Owners that go, and what becomes of their dependents.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::proxy::{MERGE, Proxy, until};
use super::Place;
use super::rollout::deployment;

/// A kind of our own, there before any controller: kube-controller-manager looks for new kinds twice a minute.
pub fn define(api: &Proxy) -> Result<()> {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({ "metadata": { "name": "widgets.e2e.setpoint.dev" }, "spec": {
        "group": "e2e.setpoint.dev", "scope": "Namespaced",
        "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
        "versions": [{ "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
    } });
    api.create(definitions, &definition)?;
    until("the kind is served", || {
        // kube-apiserver answers 429 for a moment while it makes room for a new kind.
        let widgets = "/apis/e2e.setpoint.dev/v1/namespaces/default/widgets";
        let (code, _) = api.call("GET", widgets, "application/json", "")?;
        Ok((code == 200).then_some(()))
    })
}

/// A ConfigMap with these owners. `blocks` sets `blockOwnerDeletion`.
fn child(name: &str, owners: &[&Value], blocks: bool) -> Value {
    let reference = |owner: &&Value| {
        let api_version = owner["apiVersion"].as_str().unwrap_or("v1");
        let kind = owner["kind"].as_str().unwrap_or("ConfigMap");
        json!({ "apiVersion": api_version, "kind": kind, "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks })
    };
    json!({ "metadata": { "name": name, "ownerReferences": owners.iter().map(reference).collect::<Vec<_>>() } })
}

fn config(place: &Place<'_>, object: &Value) -> Result<Value> {
    place.api.create(&place.core("configmaps", ""), object)
}

fn plain(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

fn gone(place: &Place<'_>, path: &str) -> Result<()> {
    until(&format!("{path} is gone"), || Ok(place.api.find(path)?.is_none().then_some(())))
}

pub fn background(place: &Place<'_>) -> Result<Value> {
    let (first, second) = (config(place, &plain("first"))?, config(place, &plain("second"))?);
    config(place, &child("of-first", &[&first], false))?;
    config(place, &child("of-both", &[&first, &second], false))?;
    let middle = config(place, &child("middle", &[&first], false))?;
    config(place, &child("grandchild", &[&middle], false))?;
    // An owner that never was.
    let mut absent = plain("absent");
    absent["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    config(place, &child("of-absent", &[&absent], false))?;
    place.create_deployment(&deployment("web", 2, "web:1", &json!({ "type": "Recreate" })))?;
    place.rolled_out("web")?;
    place.api.delete(&place.core("configmaps", "first"), &json!({ "propagationPolicy": "Background" }))?;
    place.api.delete(&place.deployment("web"), &json!({ "propagationPolicy": "Background" }))?;
    for name in ["first", "of-first", "middle", "grandchild", "of-absent"] {
        gone(place, &place.core("configmaps", name))?;
    }
    until("sets and pods are gone", || {
        Ok((place.sets()?.is_empty() && place.pods()?.is_empty()).then_some(()))
    })?;
    until("the reference to the lost owner is gone", || {
        let both = place.api.get(&place.core("configmaps", "of-both"))?;
        Ok((both["metadata"]["ownerReferences"].as_array().map(Vec::len) == Some(1)).then_some(()))
    })?;
    Ok(Value::Null)
}

/// Owners of the wrong scope. A reference to another namespace names no owner. A cluster-scoped object that names a
/// namespaced owner is left alone. Both get an event.
pub fn misplaced(place: &Place<'_>) -> Result<Value> {
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let owner = config(place, &plain("owner"))?;
    let class = place.api.create(classes, &json!({ "metadata": { "name": "e2e-owner" }, "value": 1 }))?;
    let class_owner = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": class["metadata"] });
    config(place, &child("of-class", &[&class_owner], false))?;
    let elsewhere = until("the bundle of another namespace", || {
        place.api.find("/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
    })?;
    config(place, &child("of-elsewhere", &[&elsewhere], false))?;
    let mut outside = child("e2e-misplaced", &[&owner], false);
    outside["value"] = json!(1);
    place.api.create(classes, &outside)?;
    gone(place, &place.core("configmaps", "of-elsewhere"))?;
    let told = until("both are told", || {
        let mut told = Vec::new();
        for namespace in ["default", &place.namespace] {
            let events = place.api.items(&format!("/api/v1/namespaces/{namespace}/events"))?;
            let invalid = |event: &&Value| event["reason"] == "OwnerRefInvalidNamespace";
            let Some(event) = events.iter().find(invalid) else { return Ok(None) };
            let message = event["message"].as_str().unwrap_or_default();
            let message: Vec<&str> = message.split(", ").filter(|part| !part.starts_with("uid")).collect();
            told.push(json!([event["type"], event["involvedObject"]["name"], message]));
        }
        Ok(Some(told))
    })?;
    let left = place.api.find(&format!("{classes}/e2e-misplaced"))?;
    ensure!(left.is_some_and(|left| left["metadata"]["deletionTimestamp"].is_null()), "it is not left alone");
    // One outside all namespaces is a good owner.
    place.api.get(&place.core("configmaps", "of-class"))?;
    place.api.delete(&format!("{classes}/e2e-owner"), &Value::Null)?;
    gone(place, &place.core("configmaps", "of-class"))?;
    place.api.delete(&format!("{classes}/e2e-misplaced"), &Value::Null)?;
    Ok(json!(told))
}

pub fn foreground(place: &Place<'_>) -> Result<Value> {
    let owner = config(place, &plain("owner"))?;
    let mut held = child("held", &[&owner], true);
    held["metadata"]["finalizers"] = json!(["e2e.setpoint.dev/hold"]);
    config(place, &held)?;
    config(place, &child("free", &[&owner], true))?;
    let mut loose = child("loose", &[&owner], false);
    loose["metadata"]["finalizers"] = json!(["e2e.setpoint.dev/hold"]);
    config(place, &loose)?;
    place.api.delete(&place.core("configmaps", "owner"), &json!({ "propagationPolicy": "Foreground" }))?;
    gone(place, &place.core("configmaps", "free"))?;
    until("the held dependent is going", || {
        let held = place.api.get(&place.core("configmaps", "held"))?;
        Ok((!held["metadata"]["deletionTimestamp"].is_null()).then_some(()))
    })?;
    let waiting = place.api.get(&place.core("configmaps", "owner"))?;
    ensure!(!waiting["metadata"]["deletionTimestamp"].is_null(), "the owner does not wait");
    let told = waiting["metadata"]["finalizers"].clone();
    let release = json!({ "metadata": { "finalizers": null } });
    place.api.patch(&place.core("configmaps", "held"), MERGE, &release)?;
    gone(place, &place.core("configmaps", "owner"))?;
    // A dependent that does not block is not waited for. It is deleted, and its own finalizer holds it.
    place.api.patch(&place.core("configmaps", "loose"), MERGE, &release)?;
    gone(place, &place.core("configmaps", "loose"))?;
    // Two that own each other: one going in the foreground takes both.
    let one = config(place, &plain("one"))?;
    let two = config(place, &child("two", &[&one], true))?;
    let back = json!({ "metadata": { "ownerReferences": child("one", &[&two], true)["metadata"]["ownerReferences"] } });
    place.api.patch(&place.core("configmaps", "one"), MERGE, &back)?;
    place.api.delete(&place.core("configmaps", "one"), &json!({ "propagationPolicy": "Foreground" }))?;
    gone(place, &place.core("configmaps", "one"))?;
    gone(place, &place.core("configmaps", "two"))?;
    place.create_deployment(&deployment("web", 2, "web:1", &json!({ "type": "Recreate" })))?;
    place.rolled_out("web")?;
    place.api.delete(&place.deployment("web"), &json!({ "propagationPolicy": "Foreground" }))?;
    gone(place, &place.deployment("web"))?;
    ensure!(place.sets()?.is_empty() && place.pods()?.is_empty(), "the Deployment went before its pods");
    Ok(told)
}

pub fn orphan(place: &Place<'_>) -> Result<Value> {
    let owner = config(place, &plain("owner"))?;
    config(place, &child("left", &[&owner], true))?;
    place.create_deployment(&deployment("web", 2, "web:1", &json!({ "type": "Recreate" })))?;
    place.rolled_out("web")?;
    place.api.delete(&place.core("configmaps", "owner"), &json!({ "propagationPolicy": "Orphan" }))?;
    place.api.delete(&place.deployment("web"), &json!({ "propagationPolicy": "Orphan" }))?;
    gone(place, &place.core("configmaps", "owner"))?;
    gone(place, &place.deployment("web"))?;
    let left = place.api.get(&place.core("configmaps", "left"))?;
    ensure!(left["metadata"]["ownerReferences"].is_null(), "{left}");
    ensure!(place.sets()?[0]["metadata"]["ownerReferences"].is_null(), "the set still names its Deployment");
    Ok(Value::Null)
}

pub fn custom_owner(place: &Place<'_>) -> Result<Value> {
    let widgets = place.group("e2e.setpoint.dev/v1", "widgets", "");
    let widget = |name: &str| json!({ "apiVersion": "e2e.setpoint.dev/v1", "kind": "Widget", "metadata": { "name": name } });
    let owner = place.api.create(&widgets, &widget("owner"))?;
    config(place, &child("of-widget", &[&owner], true))?;
    let mut nested = widget("nested");
    nested["metadata"]["ownerReferences"] =
        child("x", &[&owner], true)["metadata"]["ownerReferences"].clone();
    let nested = place.api.create(&widgets, &nested)?;
    config(place, &child("of-nested", &[&nested], true))?;
    place.api.delete(&format!("{widgets}/owner"), &json!({ "propagationPolicy": "Foreground" }))?;
    gone(place, &format!("{widgets}/owner"))?;
    ensure!(place.api.items(&widgets)?.is_empty(), "a widget is left");
    gone(place, &place.core("configmaps", "of-widget"))?;
    gone(place, &place.core("configmaps", "of-nested"))?;
    Ok(Value::Null)
}
