//! Controllers of volumes and claims.

use serde_json::{Value, json};

use super::{Surroundings, controller, is_sound, object, pod};

fn claim(name: &str, class: &str) -> Value {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}},
    });
    object("v1", "PersistentVolumeClaim", name, json!({"spec": spec}))
}

fn volume(name: &str, policy: &str) -> Value {
    let spec = json!({
        "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual",
        "persistentVolumeReclaimPolicy": policy, "hostPath": {"path": "/data"},
    });
    object("v1", "PersistentVolume", name, json!({"spec": spec}))
}

#[test]
fn claims_are_bound_and_released() {
    let others = &["persistentvolumeclaim-protection", "persistentvolume-protection"];
    let life = controller("persistentvolume-binder", Surroundings { others, ..Surroundings::default() })
        .apply(claim("c", "manual"))
        .apply(volume("v", "Retain"))
        .delete("c")
        .delete("v");
    is_sound(life);
}

#[test]
fn claims_are_provisioned() {
    let class = object(
        "storage.k8s.io/v1",
        "StorageClass",
        "fast",
        json!({"provisioner": "simulated.setpoint.dev", "reclaimPolicy": "Delete"}),
    );
    let others =
        &["persistentvolume-binder", "persistentvolumeclaim-protection", "persistentvolume-protection"];
    let surroundings = Surroundings { others, objects: vec![class], nodes: 0 };
    is_sound(controller("persistentvolume-provisioner", surroundings).apply(claim("c", "fast")).delete("c"));
}

#[test]
fn ephemeral_volumes_get_their_claims() {
    let claim = json!({"volumeClaimTemplate": {"spec": claim("", "manual")["spec"]}});
    let volumes = json!({"volumes": [{"name": "scratch", "ephemeral": claim}]});
    let surroundings = Surroundings { others: &["garbage"], ..Surroundings::default() };
    let life = controller("ephemeral-volume", surroundings)
        .apply(pod("p", volumes.clone()))
        .apply(pod("q", volumes))
        .delete("p");
    is_sound(life);
}

#[test]
fn claims_are_protected_while_pods_use_them() {
    let volumes = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]});
    let life = controller("persistentvolumeclaim-protection", Surroundings::default())
        .apply(claim("c", "manual"))
        .apply(pod("p", volumes))
        .delete("c")
        .delete("p");
    is_sound(life);
}

#[test]
fn volumes_are_protected_while_claims_use_them() {
    let others = &["persistentvolume-binder", "persistentvolumeclaim-protection"];
    // Two claims in two namespaces compete for the one volume.
    let proof = controller("persistentvolume-protection", Surroundings { others, ..Surroundings::default() })
        .without("second namespace");
    let life = proof.apply(volume("v", "Retain")).apply(claim("c", "manual")).delete("v").delete("c");
    is_sound(life);
}

#[test]
fn classes_are_protected_while_claims_use_them() {
    let fields = json!({"driverName": "d", "parameters": {"iops": "100"}});
    let class = object("storage.k8s.io/v1", "VolumeAttributesClass", "gold", fields);
    let mut user = claim("c", "manual");
    user["spec"]["volumeAttributesClassName"] = "gold".into();
    let surroundings =
        Surroundings { others: &["persistentvolumeclaim-protection"], ..Surroundings::default() };
    let life = controller("volumeattributesclass-protection", surroundings)
        .apply(class)
        .apply(user)
        .delete("gold")
        .delete("c");
    is_sound(life);
}
