//! Volumes: who gets which, and what becomes of it.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::proxy::{MERGE, Proxy, until};
use super::{LOOKED_AT_WITHIN, Place};

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
/// A class without a StorageClass object: volumes and claims that name it match each other.
const STATIC: &str = "e2e-static";

/// Creates the StorageClass that `setpoint up` starts with, on servers without it.
pub fn default_class(api: &Proxy) -> Result<()> {
    if api.find(&format!("{CLASSES}/standard"))?.is_none() {
        api.create(
            CLASSES,
            &json!({ "provisioner": "simulated.setpoint.dev", "metadata": { "name": "standard",
            "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
            "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer" }),
        )?;
    }
    Ok(())
}

/// `object` with more in its spec.
fn with(mut object: Value, change: Value) -> Value {
    for (key, value) in change.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

fn volume(name: &str, size: &str, change: Value) -> Value {
    let volume = json!({ "metadata": { "name": name }, "spec": { "capacity": { "storage": size },
        "accessModes": ["ReadWriteOnce"], "storageClassName": STATIC, "persistentVolumeReclaimPolicy": "Retain",
        "nfs": { "server": "nowhere.example", "path": "/" } } });
    with(volume, change)
}

fn claim(name: &str, size: &str, change: Value) -> Value {
    let claim = json!({ "metadata": { "name": name }, "spec": { "accessModes": ["ReadWriteOnce"],
        "storageClassName": STATIC, "resources": { "requests": { "storage": size } } } });
    with(claim, change)
}

fn pod(name: &str, volume: Value) -> Value {
    let mut volume = volume;
    volume["name"] = json!("data");
    json!({ "metadata": { "name": name }, "spec": { "terminationGracePeriodSeconds": 0,
        "containers": [{ "name": "c", "image": "db:1" }], "volumes": [volume] } })
}

impl Place<'_> {
    fn claim(&self, claim: &Value) -> Result<Value> {
        self.api.create(&self.core("persistentvolumeclaims", ""), claim)
    }

    /// Waits until the claim is in a phase.
    fn claim_is(&self, name: &str, phase: &str) -> Result<Value> {
        until(&format!("the claim {name} is {phase}"), || {
            // The claim of an ephemeral volume is created when the controller has seen the pod.
            let claim = self.api.find(&self.core("persistentvolumeclaims", name))?;
            Ok(claim.filter(|claim| claim["status"]["phase"] == phase))
        })
    }

    /// Waits until every bound claim says whether a pod uses it.
    ///
    /// kube-controller-manager may be wrong for good. It judges by a cached claim, which may lack its own last write,
    /// and looks again only when a pod of the claim changes, or while the claim has no such condition. The test
    /// therefore removes the condition there, and kube-controller-manager looks again. Our controller must get there
    /// without.
    pub fn claims_tell(&self) -> Result<()> {
        let mut began = Instant::now();
        until("every bound claim tells whether it is used", || {
            let pods = self.pods()?;
            let mut wrong = self.api.items(&self.core("persistentvolumeclaims", ""))?;
            wrong.retain(|claim| !tells(claim, &pods));
            if self.real_controllers && began.elapsed() > LOOKED_AT_WITHIN {
                began = Instant::now();
                for claim in &wrong {
                    let name = claim["metadata"]["name"].as_str().unwrap_or_default();
                    let status = self.core("persistentvolumeclaims", &format!("{name}/status"));
                    self.api.patch(&status, MERGE, &json!({ "status": { "conditions": null } }))?;
                }
            }
            Ok(wrong.is_empty().then_some(()))
        })
    }

    fn volume_is(&self, name: &str, phase: &str) -> Result<Value> {
        until(&format!("the volume {name} is {phase}"), || {
            let volume = self.api.get(&format!("{VOLUMES}/{name}"))?;
            Ok((volume["status"]["phase"] == phase).then_some(volume))
        })
    }

    /// Waits until an event tells of this, and gives its words.
    fn told(&self, name: &str, reason: &str) -> Result<Value> {
        until(&format!("{name} is told {reason}"), || {
            let all = self.api.items("/api/v1/events")?;
            let about = |event: &&Value| {
                let namespace = event["involvedObject"]["namespace"].as_str();
                event["involvedObject"]["name"] == name
                    && event["reason"] == reason
                    && namespace.is_none_or(|namespace| namespace == self.namespace)
            };
            Ok(all.iter().find(about).map(|event| json!([event["type"], event["message"]])))
        })
    }
}

/// Whether a claim's condition is right, or absent because the claim is not bound.
fn tells(claim: &Value, pods: &[Value]) -> bool {
    let (name, status) = (&claim["metadata"]["name"], &claim["status"]);
    let is_its = |pod: &Value, volume: &Value| {
        let made = [&pod["metadata"]["name"], &volume["name"]].map(|name| name.as_str().unwrap_or_default());
        volume["persistentVolumeClaim"]["claimName"] == *name
            || !volume["ephemeral"].is_null() && *name == made.join("-")
    };
    let uses = |pod: &Value| {
        let has_ended = ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase);
        let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        !has_ended && volumes.any(|volume| is_its(pod, volume))
    };
    let unused = if pods.iter().any(uses) { "False" } else { "True" };
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    status["phase"] != "Bound"
        || !claim["metadata"]["deletionTimestamp"].is_null()
        || conditions.any(|one| one["type"] == "Unused" && one["status"] == unused)
}

/// The fields of a volume that are compared.
fn shown(volume: &Value) -> Value {
    let reference = &volume["spec"]["claimRef"];
    json!([
        volume["metadata"]["name"],
        volume["metadata"]["annotations"],
        volume["metadata"]["finalizers"],
        reference["name"],
        reference["kind"],
        reference["apiVersion"],
        reference["uid"].is_string(),
        volume["status"]["phase"],
        volume["status"]["message"]
    ])
}

/// Volumes that are there: the smallest, the one that is named, the one that asks; released, failed, lost.
pub fn bound(place: &Place<'_>) -> Result<Value> {
    let asking = json!({ "claimRef": { "namespace": place.namespace, "name": "asked-for" } });
    for volume in [
        volume("e2e-small", "1Gi", json!({})),
        volume("e2e-right", "3Gi", json!({})),
        volume("e2e-large", "9Gi", json!({})),
        volume("e2e-both", "3Gi", json!({ "accessModes": ["ReadWriteOnce", "ReadOnlyMany"] })),
        volume("e2e-asking", "20Gi", asking),
        volume("e2e-doomed", "30Gi", json!({ "persistentVolumeReclaimPolicy": "Delete" })),
        volume("e2e-lost", "40Gi", json!({})),
    ] {
        place.api.create(VOLUMES, &volume)?;
    }
    for name in ["small", "right", "large", "both", "asking", "doomed", "lost"] {
        place.volume_is(&format!("e2e-{name}"), "Available")?;
    }
    place.claim(&claim("none", "1Gi", json!({ "storageClassName": "" })))?;
    place.claim(&claim("mismatched", "5Gi", json!({ "volumeName": "e2e-small" })))?;
    place.claim(&claim("picked", "2Gi", json!({})))?;
    place.claim_is("picked", "Bound")?;
    place.claim(&claim("named", "2Gi", json!({ "volumeName": "e2e-large" })))?;
    place.claim(&claim("asked-for", "2Gi", json!({})))?;
    place.claim(&claim("going", "30Gi", json!({ "volumeName": "e2e-doomed" })))?;
    place.claim(&claim("losing", "40Gi", json!({ "volumeName": "e2e-lost" })))?;
    for name in ["named", "asked-for", "going", "losing"] {
        place.claim_is(name, "Bound")?;
    }
    // It is said of bound claims only, and one of them will be lost.
    place.claims_tell()?;
    place.claim(&claim("late-comer", "2Gi", json!({ "volumeName": "e2e-large" })))?;
    place.claim(&claim("choosy", "1Gi", json!({ "selector": { "matchLabels": { "no": "such" } } })))?;
    place.api.delete(&place.core("persistentvolumeclaims", "going"), &Value::Null)?;
    place.volume_is("e2e-doomed", "Failed")?;
    place.api.delete(&format!("{VOLUMES}/e2e-lost"), &Value::Null)?;
    place.api.patch(&format!("{VOLUMES}/e2e-lost"), MERGE, &json!({ "metadata": { "finalizers": null } }))?;
    place.claim_is("losing", "Lost")?;
    place.api.delete(&place.core("persistentvolumeclaims", "picked"), &Value::Null)?;
    place.volume_is("e2e-right", "Released")?;
    let mut told = Vec::new();
    for (name, reason) in [
        ("none", "FailedBinding"),
        ("mismatched", "VolumeMismatch"),
        ("late-comer", "FailedBinding"),
        ("choosy", "ProvisioningFailed"),
        ("losing", "ClaimLost"),
        ("e2e-doomed", "VolumeFailedDelete"),
    ] {
        told.push(place.told(name, reason)?);
    }
    for name in ["small", "right", "large", "both", "asking", "doomed"] {
        told.push(shown(&place.api.get(&format!("{VOLUMES}/e2e-{name}"))?));
    }
    Ok(json!(told))
}

/// Volumes that pods have bound or made: on the node, of a provisioner, described in the pod.
pub fn consumed(place: &Place<'_>) -> Result<Value> {
    for (name, provisioner, mode) in [
        ("e2e-local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
        ("e2e-outside", "example.com/nobody", "Immediate"),
    ] {
        let class =
            json!({ "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": mode });
        place.api.create(CLASSES, &class)?;
    }
    let nodes = place.api.items("/api/v1/nodes")?;
    let host = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "kubernetes.io/hostname",
        "operator": "In", "values": [nodes[0]["metadata"]["name"]] }] }] } });
    let local = json!({ "storageClassName": "e2e-local", "nodeAffinity": host });
    place.api.create(VOLUMES, &volume("e2e-here", "1Gi", local))?;
    place.volume_is("e2e-here", "Available")?;
    place.claim(&claim("here", "1Gi", json!({ "storageClassName": "e2e-local" })))?;
    place.claim(&claim("outside", "1Gi", json!({ "storageClassName": "e2e-outside" })))?;
    let told = [place.told("here", "WaitForFirstConsumer")?, place.told("outside", "ExternalProvisioning")?];
    let uses = |claim: &str| json!({ "persistentVolumeClaim": { "claimName": claim } });
    let template = json!({ "metadata": { "labels": { "from": "pod" } }, "spec": { "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } } } });
    for pod in [
        pod("here", uses("here")),
        pod("outside", uses("outside")),
        pod("missing", uses("missing")),
        pod("own", json!({ "ephemeral": { "volumeClaimTemplate": template } })),
    ] {
        place.api.create(&place.core("pods", ""), &pod)?;
    }
    place.claim_is("here", "Bound")?;
    place.claim_is("own-data", "Bound")?;
    for name in ["here", "own"] {
        until(&format!("{name} runs"), || {
            let pod = place.api.get(&place.core("pods", name))?;
            Ok((pod["status"]["phase"] == "Running").then_some(()))
        })?;
    }
    let made = place.api.get(&place.core("persistentvolumeclaims", "own-data"))?;
    let made = made["spec"]["volumeName"].as_str().unwrap_or_default().to_owned();
    let mut made = shown(&place.volume_is(&made, "Bound")?);
    made[0] = Value::Null;
    let here = shown(&place.volume_is("e2e-here", "Bound")?);
    Ok(json!([told, here, made]))
}
