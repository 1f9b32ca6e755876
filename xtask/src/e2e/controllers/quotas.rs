//! Use of quotas: of pods that begin, end and go, and of kinds that are only counted.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::proxy::{MERGE, until};
use super::{LOOKED_AT_WITHIN, Place};

/// `kube-root-ca.crt` is in every namespace.
const MAPS: &str = "1";

pub fn quotas(place: &Place<'_>) -> Result<Value> {
    let limits =
        json!([{ "type": "Container", "default": { "cpu": "200m" }, "defaultRequest": { "cpu": "100m" } }]);
    let range = json!({ "metadata": { "name": "range" }, "spec": { "limits": limits } });
    place.api.create(&place.core("limitranges", ""), &range)?;
    let hard = json!({ "pods": "2", "count/pods": "3", "requests.cpu": "1", "count/configmaps": "2",
        "count/widgets.e2e.setpoint.dev": "1" });
    let quota = json!({ "metadata": { "name": "quota" }, "spec": { "hard": hard } });
    place.api.create(&place.core("resourcequotas", ""), &quota)?;
    used(place, &["0", "0", "0", MAPS, "0"])?;
    let pod = |name: &str, ends: bool| {
        let annotations = if ends { json!({ "setpoint.dev/run-for": "1s" }) } else { json!({}) };
        json!({ "metadata": { "name": name, "annotations": annotations }, "spec": { "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": "web:1" }] } })
    };
    let pods = place.core("pods", "");
    place.api.create(&pods, &pod("stays", false))?;
    place.api.create(&pods, &pod("ends", true))?;
    used(place, &["1", "2", "100m", MAPS, "0"])?;
    fits(place, &pods, &pod("goes", false))?;
    used(place, &["2", "3", "200m", MAPS, "0"])?;
    let mut told = vec![refused(place, &pods, &pod("late", false))?];
    place.api.delete(&place.core("pods", "goes"), &json!({ "gracePeriodSeconds": 0 }))?;
    used(place, &["1", "2", "100m", MAPS, "0"])?;
    let map = |name: &str| json!({ "metadata": { "name": name } });
    let maps = place.core("configmaps", "");
    place.api.create(&maps, &map("m"))?;
    told.push(refused(place, &maps, &map("n"))?);
    let widget = |name: &str| json!({ "apiVersion": "e2e.setpoint.dev/v1", "kind": "Widget", "metadata": { "name": name } });
    let widgets = place.group("e2e.setpoint.dev/v1", "widgets", "");
    place.api.create(&widgets, &widget("one"))?;
    told.push(refused(place, &widgets, &widget("two"))?);
    place.api.delete(&place.core("configmaps", "m"), &Value::Null)?;
    place.api.delete(&place.group("e2e.setpoint.dev/v1", "widgets", "one"), &Value::Null)?;
    used(place, &["1", "2", "100m", MAPS, "0"])?;
    Ok(json!(told))
}

/// Waits until the given use is reported: pods, pods in any state, CPUs, ConfigMaps and widgets.
///
/// kube-controller-manager may be wrong until its full resync every five minutes. It compares its count with a cached
/// quota, which may lack the last charge, and no event reports a change of the status. It does follow changes of the
/// limits, so the test limits another resource for a moment there. Our controller must get there without.
fn used(place: &Place<'_>, expected: &[&str; 5]) -> Result<()> {
    let names = ["pods", "count/pods", "requests.cpu", "count/configmaps", "count/widgets.e2e.setpoint.dev"];
    let path = place.core("resourcequotas", "quota");
    let mut began = Instant::now();
    until(&format!("{expected:?} are used"), || {
        let quota = place.api.get(&path)?;
        let used = names.map(|name| quota["status"]["used"][name].clone());
        if place.real_controllers && began.elapsed() > LOOKED_AT_WITHIN {
            began = Instant::now();
            for limit in [json!("9"), Value::Null] {
                place.api.patch(&path, MERGE, &json!({ "spec": { "hard": { "count/secrets": limit } } }))?;
            }
        }
        Ok((used == expected.map(Value::from)).then_some(()))
    })
}

/// Creates what fits by the quota's status. kube-apiserver judges by a cache of its own, which may lag behind that.
fn fits(place: &Place<'_>, path: &str, object: &Value) -> Result<()> {
    until("what fits is taken", || {
        let (code, answer) = place.api.call("POST", path, "application/json", &object.to_string())?;
        ensure!(code == 201 || code == 403, "{code}: {answer}");
        Ok((code == 201).then_some(()))
    })
}

/// Returns the refusal of a write that does not fit.
fn refused(place: &Place<'_>, path: &str, object: &Value) -> Result<Value> {
    let (code, answer) = place.api.call("POST", path, "application/json", &object.to_string())?;
    ensure!(code == 403, "{code}: {answer}");
    Ok(answer["message"].clone())
}
