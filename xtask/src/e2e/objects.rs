//! Compares the objects of two clusters, except for values that every cluster generates.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::cluster::Kubectl;

/// Every object of these kinds in a namespace, normalised and in order of kind and name.
pub fn read(kubectl: &Kubectl, kinds: &str, namespace: &str) -> Result<Vec<Value>> {
    let text =
        kubectl.ok(&["get", kinds, "--namespace", namespace, "-o", "json", "--show-managed-fields"])?;
    let mut list: Value = serde_json::from_str(&text)?;
    let items = list["items"].as_array_mut().context("no list")?;
    let mut objects: Vec<Value> = items.drain(..).filter(|object| !is_the_clusters(object)).collect();
    objects.iter_mut().for_each(normalise);
    objects.sort_by_key(name);
    Ok(objects)
}

/// Fails with the first difference.
pub fn equal(what: &str, left: &[Value], right: &[Value]) -> Result<()> {
    let names = |objects: &[Value]| objects.iter().map(name).collect::<Vec<_>>();
    ensure!(names(left) == names(right), "{what}: {:?} and {:?}", names(left), names(right));
    for (left, right) in left.iter().zip(right) {
        if let Some(difference) = difference("", left, right) {
            anyhow::bail!("{what}: {}: {difference}", name(left));
        }
    }
    Ok(())
}

fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// Objects that a cluster creates in every namespace.
fn is_the_clusters(object: &Value) -> bool {
    ["ConfigMap/kube-root-ca.crt", "Service/kubernetes"].contains(&name(object).as_str())
}

/// Takes away names of managers, uids, versions, times and addresses.
fn normalise(object: &mut Value) {
    match object {
        Value::Object(fields) => {
            for made_up in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "lastTransitionTime",
                "lastUpdateTime",
                "time",
                "manager",
                "clusterIP",
                "clusterIPs",
            ] {
                fields.remove(made_up);
            }
            if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
                entries.iter_mut().for_each(normalise);
                entries.sort_by_key(Value::to_string);
            }
            // A condition that changes goes to the end of its list: the order tells which of two changed last.
            if let Some(Value::Array(conditions)) = fields.get_mut("conditions") {
                conditions.sort_by_key(|condition| condition["type"].to_string());
            }
            // Owner references are known by uid in managedFields.
            let by_uid: Vec<String> =
                fields.keys().filter(|key| key.starts_with("k:{\"uid\":")).cloned().collect();
            for (number, key) in by_uid.iter().enumerate() {
                let value = fields.remove(key).unwrap_or_default();
                fields.insert(format!("k:uid-{number}"), value);
            }
            fields.values_mut().for_each(normalise);
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        // A ReplicaSet's name contains a hash of its template, whose defaults come from the cluster's version.
        Value::String(text) if text.starts_with("ReplicaSet \"") => {
            *text = without_hash(text);
        }
        _ => {}
    }
}

fn without_hash(message: &str) -> String {
    let Some((before, rest)) = message.split_once('"') else { return message.to_owned() };
    let Some((name, after)) = rest.split_once('"') else { return message.to_owned() };
    let stem = name.rsplit_once('-').map_or(name, |(stem, _)| stem);
    format!("{before}\"{stem}\"{after}")
}

fn difference(path: &str, left: &Value, right: &Value) -> Option<String> {
    match (left, right) {
        (Value::Object(one), Value::Object(other)) => {
            let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
            keys.sort();
            keys.dedup();
            keys.into_iter().find_map(|key| difference(&format!("{path}.{key}"), &left[key], &right[key]))
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => one
            .iter()
            .zip(other)
            .enumerate()
            .find_map(|(number, (one, other))| difference(&format!("{path}[{number}]"), one, other)),
        _ if left == right => None,
        _ => Some(format!("{path}: {left} and {right}")),
    }
}
