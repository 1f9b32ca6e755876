//! Deployments and their ReplicaSets.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::proxy::{MERGE, until};
use super::Place;

/// A Deployment of `image`.
pub fn deployment(name: &str, replicas: u32, image: &str, strategy: &Value) -> Value {
    json!({ "metadata": { "name": name, "annotations": { "note": "kept" } }, "spec": {
        "replicas": replicas, "strategy": strategy,
        "selector": { "matchLabels": { "app": name } },
        "template": { "metadata": { "labels": { "app": name } }, "spec": { "terminationGracePeriodSeconds": 1,
            "containers": [{ "name": "c", "image": image, "resources": { "requests": { "cpu": "10m" } },
                "ports": [{ "name": "http", "containerPort": 8080 }] }] } },
    } })
}

fn surge(surge: &Value, unavailable: &Value) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } })
}

/// Another image.
fn image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": image,
        "resources": { "requests": { "cpu": "10m" } },
        "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }] }] } } } })
}

/// Another image whose pods never become ready.
fn broken(name: &str) -> Value {
    let mut change = image(name);
    change["spec"]["template"]["metadata"]["annotations"] = json!({ "setpoint.dev/ready-delay": "10h" });
    change
}

pub fn rolling(place: &Place<'_>) -> Result<Value> {
    place.create_deployment(&deployment("web", 5, "web:1", &surge(&json!("25%"), &json!("25%"))))?;
    place.rolled_out("web")?;
    place.change_deployment("web", &image("web:2"))?;
    place.rolled_out("web")?;
    // Only the metadata of the newest ReplicaSet follows the Deployment's.
    place.change_deployment("web", &json!({ "metadata": { "annotations": { "note": "changed" } } }))?;
    place.change_deployment("web", &json!({ "spec": { "minReadySeconds": 1 } }))?;
    place.rolled_out("web")?;
    Ok(Value::Null)
}

pub fn recreate(place: &Place<'_>) -> Result<Value> {
    place.create_deployment(&deployment("web", 3, "web:1", &json!({ "type": "Recreate" })))?;
    place.rolled_out("web")?;
    place.change_deployment("web", &image("web:2"))?;
    until("the rollout is over", || {
        let pods = place.pods()?;
        let images: std::collections::BTreeSet<String> =
            pods.iter().map(|pod| pod["spec"]["containers"][0]["image"].to_string()).collect();
        ensure!(images.len() <= 1, "old and new pods at once: {images:?}");
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        Ok((images.contains("\"web:2\"") && ready == 3).then_some(()))
    })?;
    place.rolled_out("web")?;
    Ok(Value::Null)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

pub fn pause(place: &Place<'_>) -> Result<Value> {
    place.create_deployment(&deployment("web", 2, "web:1", &surge(&json!(1), &json!(0))))?;
    place.rolled_out("web")?;
    place.change_deployment("web", &json!({ "spec": { "paused": true } }))?;
    place.change_deployment("web", &image("web:2"))?;
    place.change_deployment("web", &json!({ "spec": { "replicas": 4 } }))?;
    until("it is scaled though paused", || {
        let sets = place.sets()?;
        ensure!(sets.len() == 1, "something rolls while paused");
        Ok((sets[0]["status"]["availableReplicas"] == 4).then_some(()))
    })?;
    let paused = condition(place, "Progressing", "DeploymentPaused")?;
    place.change_deployment("web", &json!({ "spec": { "paused": false } }))?;
    place.rolled_out("web")?;
    condition(place, "Progressing", "NewReplicaSetAvailable")?;
    Ok(paused)
}

/// Waits until a condition of `web` has this reason; its status and message.
fn condition(place: &Place<'_>, kind: &str, reason: &str) -> Result<Value> {
    until(&format!("{kind} because of {reason}"), || {
        let deployment = place.api.get(&place.deployment("web"))?;
        let conditions = deployment["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|c| c["type"] == kind && c["reason"] == reason);
        Ok(found.map(|found| json!([found["status"], found["reason"]])))
    })
}

/// The sizes of the ReplicaSets, smallest first, when they are these.
fn sizes(place: &Place<'_>, wanted: &[i64]) -> Result<()> {
    let what = format!("sizes {wanted:?}");
    until(&what, || {
        let mut sizes: Vec<i64> =
            place.sets()?.iter().filter_map(|set| set["status"]["replicas"].as_i64()).collect();
        sizes.sort_unstable();
        Ok((sizes == wanted).then_some(()))
    })
}

pub fn proportional(place: &Place<'_>) -> Result<Value> {
    place.create_deployment(&deployment("web", 10, "web:1", &surge(&json!(3), &json!(2))))?;
    place.rolled_out("web")?;
    place.change_deployment("web", &broken("web:2"))?;
    // Ten and three more, two of the old gone, and nothing moves any further.
    sizes(place, &[5, 8])?;
    place.change_deployment("web", &json!({ "spec": { "replicas": 15 } }))?;
    sizes(place, &[7, 11])?;
    place.change_deployment("web", &json!({ "spec": { "replicas": 6 } }))?;
    until("nine pods", || Ok((place.pods()?.len() == 9).then_some(())))?;
    Ok(Value::Null)
}

pub fn rollback(place: &Place<'_>) -> Result<Value> {
    place.create_deployment(&deployment("web", 2, "web:1", &surge(&json!(1), &json!(1))))?;
    place.rolled_out("web")?;
    place.change_deployment("web", &image("web:2"))?;
    place.rolled_out("web")?;
    let request = json!({ "metadata": { "annotations": { "deprecated.deployment.rollback.to": "1" } } });
    place.change_deployment("web", &request)?;
    until("the template of revision 1 is back", || {
        let deployment = place.api.get(&place.deployment("web"))?;
        Ok((deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "web:1").then_some(()))
    })?;
    place.rolled_out("web")?;
    // A revision that does not exist: said, and the request cleared.
    let request = json!({ "metadata": { "annotations": { "deprecated.deployment.rollback.to": "77" } } });
    place.change_deployment("web", &request)?;
    until("the request is cleared", || {
        let deployment = place.api.get(&place.deployment("web"))?;
        let asked = &deployment["metadata"]["annotations"]["deprecated.deployment.rollback.to"];
        Ok(asked.is_null().then_some(()))
    })?;
    Ok(Value::Null)
}

pub fn deadline(place: &Place<'_>) -> Result<Value> {
    let mut manifest = deployment("web", 2, "web:1", &surge(&json!(1), &json!(1)));
    manifest["spec"]["progressDeadlineSeconds"] = json!(2);
    manifest["spec"]["template"]["metadata"]["annotations"] = json!({ "setpoint.dev/ready-delay": "10h" });
    place.create_deployment(&manifest)?;
    condition(place, "Progressing", "ProgressDeadlineExceeded")
}

pub fn adoption(place: &Place<'_>) -> Result<Value> {
    let path = place.group("apps/v1", "replicasets", "");
    let set = |name: &str, version: &str| {
        json!({ "metadata": { "name": name, "labels": { "app": "web" } }, "spec": { "replicas": 1,
            "selector": { "matchLabels": { "app": "web", "v": version } },
            "template": { "metadata": { "labels": { "app": "web", "v": version } },
                "spec": { "containers": [{ "name": "c", "image": "old:1" }] } } } })
    };
    let pod = json!({ "metadata": { "name": "stray", "labels": { "app": "web", "v": "b" } },
        "spec": { "containers": [{ "name": "c", "image": "old:1" }] } });
    place.api.create(&place.core("pods", ""), &pod)?;
    place.api.create(&path, &set("orphan", "a"))?;
    // A controller that misses the stray when its set comes makes a second pod. Counting later pods shows that it has
    // seen the stray.
    until("the orphan has its pod", || {
        let orphan = place.api.get(&format!("{path}/orphan"))?;
        Ok((orphan["status"]["replicas"] == 1).then_some(()))
    })?;
    place.api.create(&path, &set("taker", "b"))?;
    owned(place, &place.core("pods", "stray"), true)?;
    place.create_deployment(&deployment("web", 2, "web:1", &surge(&json!(1), &json!(1))))?;
    owned(place, &place.group("apps/v1", "replicasets", "orphan"), true)?;
    owned(place, &place.group("apps/v1", "replicasets", "taker"), true)?;
    place.rolled_out("web")?;
    // No longer selected: released, without an owner.
    let relabel = json!({ "metadata": { "labels": { "app": "other" } } });
    place.api.patch(&place.group("apps/v1", "replicasets", "orphan"), MERGE, &relabel)?;
    owned(place, &place.group("apps/v1", "replicasets", "orphan"), false)?;
    Ok(Value::Null)
}

fn owned(place: &Place<'_>, path: &str, wanted: bool) -> Result<()> {
    until(&format!("{path} has an owner: {wanted}"), || {
        let object = place.api.find(path)?.unwrap_or_default();
        let owners = object["metadata"]["ownerReferences"].as_array();
        Ok((owners.is_some_and(|owners| !owners.is_empty()) == wanted).then_some(()))
    })
}

pub fn collision(place: &Place<'_>) -> Result<Value> {
    let manifest = deployment("web", 1, "web:1", &surge(&json!(1), &json!(1)));
    place.create_deployment(&manifest)?;
    place.rolled_out("web")?;
    let name = place.sets()?[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    place.api.delete(&place.deployment("web"), &json!({ "propagationPolicy": "Foreground" }))?;
    until("all of it is gone", || {
        Ok((place.sets()?.is_empty() && place.api.find(&place.deployment("web"))?.is_none()).then_some(()))
    })?;
    let stranger = json!({ "metadata": { "name": name }, "spec": { "replicas": 0,
        "selector": { "matchLabels": { "x": "y" } },
        "template": { "metadata": { "labels": { "x": "y" } },
            "spec": { "containers": [{ "name": "c", "image": "x" }] } } } });
    let sets = place.group("apps/v1", "replicasets", "");
    place.api.create(&sets, &stranger)?;
    place.create_deployment(&manifest)?;
    let rolled = place.rolled_out("web")?;
    ensure!(rolled["status"]["collisionCount"] == 1, "{}", rolled["status"]);
    // Its name is a hash, and hashes are not compared.
    place.api.delete(&format!("{sets}/{name}"), &Value::Null)?;
    Ok(Value::Null)
}

pub fn history(place: &Place<'_>) -> Result<Value> {
    let mut manifest = deployment("web", 1, "web:1", &surge(&json!(1), &json!(1)));
    manifest["spec"]["revisionHistoryLimit"] = json!(1);
    place.create_deployment(&manifest)?;
    place.rolled_out("web")?;
    for version in 2..5 {
        place.change_deployment("web", &image(&format!("web:{version}")))?;
        place.rolled_out("web")?;
    }
    until("two sets remain", || Ok((place.sets()?.len() == 2).then_some(())))?;
    Ok(Value::Null)
}
