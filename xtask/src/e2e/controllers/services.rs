//! Services and the addresses behind them.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::proxy::{MERGE, until};
use super::Place;
use super::rollout::deployment;

pub fn services(place: &Place<'_>) -> Result<Value> {
    place.create_deployment(&deployment("web", 3, "web:1", &json!({ "type": "Recreate" })))?;
    let mut broken = deployment("slow", 1, "web:1", &json!({ "type": "Recreate" }));
    broken["spec"]["template"]["metadata"]["annotations"] = json!({ "setpoint.dev/ready-delay": "10h" });
    broken["spec"]["template"]["metadata"]["labels"]["tier"] = json!("front");
    place.create_deployment(&broken)?;
    let service = |name: &str, spec: Value| {
        let object = json!({ "metadata": { "name": name, "labels": { "team": "a" } }, "spec": spec });
        place.api.create(&place.core("services", ""), &object)
    };
    let ports = json!([
        { "name": "web", "port": 80, "targetPort": "http" }, { "name": "other", "port": 81, "targetPort": 9000 }]);
    service("plain", json!({ "selector": { "app": "web" }, "ports": ports }))?;
    service(
        "headless",
        json!({ "selector": { "app": "web" }, "clusterIP": "None", "ports": [{ "port": 80 }] }),
    )?;
    service("unready", json!({ "selector": { "app": "slow" }, "ports": [{ "port": 80 }] }))?;
    service(
        "early",
        json!({ "selector": { "app": "slow" }, "publishNotReadyAddresses": true, "ports": [{ "port": 80 }] }),
    )?;
    service("nobody", json!({ "selector": { "app": "nobody" }, "ports": [{ "port": 80 }] }))?;
    service("manual", json!({ "ports": [{ "port": 80 }] }))?;
    service("elsewhere", json!({ "type": "ExternalName", "externalName": "example.com" }))?;
    addresses(place, "plain", 3)?;
    addresses(place, "early", 1)?;
    // Fewer pods, another label on the Service, a port renamed: all of it follows.
    place.change_deployment("web", &json!({ "spec": { "replicas": 2 } }))?;
    let change = json!({ "metadata": { "labels": { "team": "b" } }, "spec": { "ports": [
        { "name": "http", "port": 80, "targetPort": "http", "protocol": "TCP" }] } });
    place.api.patch(&place.core("services", "plain"), MERGE, &change)?;
    addresses(place, "plain", 2)?;
    place.api.delete(&place.core("services", "headless"), &Value::Null)?;
    until("the slices of the deleted Service go", || {
        let slices = place.api.items(&place.group("discovery.k8s.io/v1", "endpointslices", ""))?;
        let of_headless =
            |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "headless";
        Ok(slices.iter().find(of_headless).is_none().then_some(()))
    })?;
    until("so do its endpoints", || {
        Ok(place.api.find(&place.core("endpoints", "headless"))?.is_none().then_some(()))
    })?;
    Ok(Value::Null)
}

/// Waits until a Service's slices and its Endpoints list so many ready addresses.
fn addresses(place: &Place<'_>, name: &str, wanted: usize) -> Result<()> {
    until(&format!("{wanted} addresses of {name}"), || {
        let slices = place.api.items(&place.group("discovery.k8s.io/v1", "endpointslices", ""))?;
        let ready = slices
            .iter()
            .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == name)
            .flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default())
            .filter(|endpoint| endpoint["conditions"]["ready"] == true)
            .count();
        let endpoints = place.api.find(&place.core("endpoints", name))?.unwrap_or_default();
        let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
        let listed: usize = subsets
            .iter()
            .map(|subset| subset["addresses"].as_array().map_or(0, Vec::len))
            .max()
            .unwrap_or(0);
        Ok((ready == wanted && listed == wanted).then_some(()))
    })
}
