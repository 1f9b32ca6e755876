//! StatefulSets: pods and claims in order.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::proxy::{MERGE, until};
use super::Place;

fn stateful_set(name: &str, replicas: u32, change: &Value) -> Value {
    let mut set = json!({ "metadata": { "name": name, "annotations": { "note": "a<b" } }, "spec": {
        "replicas": replicas, "serviceName": name,
        "selector": { "matchLabels": { "app": name } },
        "template": { "metadata": { "labels": { "app": name } }, "spec": { "terminationGracePeriodSeconds": 1,
            "containers": [{ "name": "c", "image": "db:1", "args": ["--when=a<b&c>d"],
                "resources": { "requests": { "cpu": "10m" } } }] } },
    } });
    for (key, value) in change.as_object().into_iter().flatten() {
        set["spec"][key] = value.clone();
    }
    set
}

fn image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": image,
        "resources": { "requests": { "cpu": "10m" } } }] } } } })
}

fn claims() -> Value {
    json!([{ "metadata": { "name": "data", "labels": { "kept": "yes" } },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }])
}

impl Place<'_> {
    fn stateful_set(&self, name: &str) -> String {
        self.group("apps/v1", "statefulsets", name)
    }

    fn change_stateful_set(&self, name: &str, change: &Value) -> Result<Value> {
        self.api.patch(&self.stateful_set(name), MERGE, change)
    }

    /// All pods are there, ready and, but for those below the partition, of the newest revision; none is too many.
    fn all_stateful(&self, name: &str, updated: u64) -> Result<()> {
        until(&format!("{name} has its pods"), || {
            let set = self.api.get(&self.stateful_set(name))?;
            let (wanted, status) = (set["spec"]["replicas"].as_u64().unwrap_or(0), &set["status"]);
            let count = |field: &str| status[field].as_u64().unwrap_or(0);
            let done = status["observedGeneration"] == set["metadata"]["generation"]
                && ["replicas", "readyReplicas", "availableReplicas"]
                    .iter()
                    .all(|field| count(field) == wanted)
                && count("updatedReplicas") == updated
                && self.pods()?.len() as u64 == wanted;
            Ok(done.then_some(()))
        })
    }
}

/// In order, with claims that stay: come, change, go back, fewer, more.
pub fn ordered(place: &Place<'_>) -> Result<Value> {
    place.api.create(
        &place.stateful_set(""),
        &stateful_set("db", 3, &json!({ "volumeClaimTemplates": claims() })),
    )?;
    place.all_stateful("db", 3)?;
    place.change_stateful_set("db", &image("db:2"))?;
    until("the rollout begins at the last", || {
        let pods = place.pods()?;
        let image = |name: &str| {
            let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name);
            pod.map(|pod| pod["spec"]["containers"][0]["image"].clone()).unwrap_or_default()
        };
        ensure!(image("db-0") != "db:2" || image("db-2") == "db:2", "the first came before the last");
        Ok((image("db-0") == "db:2").then_some(()))
    })?;
    place.all_stateful("db", 3)?;
    let args = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "db:1",
        "args": ["--when=a<b&c>d"], "resources": { "requests": { "cpu": "10m" } } }] } } } });
    place.change_stateful_set("db", &args)?;
    place.all_stateful("db", 3)?;
    place.change_stateful_set("db", &json!({ "spec": { "replicas": 1 } }))?;
    place.all_stateful("db", 1)?;
    place.change_stateful_set("db", &json!({ "spec": { "replicas": 2 } }))?;
    place.all_stateful("db", 2)?;
    Ok(Value::Null)
}

/// Parallel pods, claims that are deleted with their pods, and at most one old revision.
pub fn parallel(place: &Place<'_>) -> Result<Value> {
    let change = json!({ "podManagementPolicy": "Parallel", "revisionHistoryLimit": 1, "volumeClaimTemplates": claims(),
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 2 } },
        "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete", "whenDeleted": "Delete" } });
    place.api.create(&place.stateful_set(""), &stateful_set("db", 4, &change))?;
    place.all_stateful("db", 4)?;
    for version in ["db:2", "db:3", "db:4"] {
        place.change_stateful_set("db", &image(version))?;
        place.all_stateful("db", 4)?;
    }
    place.change_stateful_set("db", &json!({ "spec": { "replicas": 2 } }))?;
    place.all_stateful("db", 2)?;
    until("the claims go", || {
        let claims = place.api.items(&place.core("persistentvolumeclaims", ""))?;
        Ok((claims.len() == 2).then_some(()))
    })?;
    Ok(Value::Null)
}

/// Updates only above the partition, or only on delete, with a first ordinal that is not zero.
pub fn partitioned(place: &Place<'_>) -> Result<Value> {
    let partition =
        |partition: u64| json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": partition } });
    let change = json!({ "updateStrategy": partition(2), "ordinals": { "start": 5 } });
    place.api.create(&place.stateful_set(""), &stateful_set("db", 3, &change))?;
    place.all_stateful("db", 3)?;
    place.change_stateful_set("db", &image("db:2"))?;
    place.all_stateful("db", 1)?;
    place.api.delete(&place.core("pods", "db-5"), &Value::Null)?;
    until("the first comes back", || {
        let pod = place.api.find(&place.core("pods", "db-5"))?;
        Ok(pod.filter(|pod| {
            pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] == "Running"
        }))
    })?;
    place.all_stateful("db", 1)?;
    place.change_stateful_set(
        "db",
        &json!({ "spec": { "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } } }),
    )?;
    place.change_stateful_set("db", &image("db:3"))?;
    until("the revision is known", || {
        let set = place.api.get(&place.stateful_set("db"))?;
        Ok((set["status"]["observedGeneration"] == set["metadata"]["generation"]).then_some(()))
    })?;
    place.api.delete(&place.core("pods", "db-6"), &Value::Null)?;
    place.all_stateful("db", 1)?;
    Ok(Value::Null)
}
