//! Volumes, claims, storage classes.

use serde_json::Value;

use super::check::{Causes, no_backsteps};
use super::meta::IMMUTABLE;
use super::pod;
use crate::access::{at, copy, entries, is_empty, items, remove, text};
use crate::go_struct;
use crate::strategy::semantically_equal;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;
use setpoint_api::quantity::Quantity;

pub(super) fn claim(causes: &mut Causes, object: &Value) {
    pod::claim_spec(causes, at(object, "spec"), &Path::new("spec"));
}

pub(super) fn claim_update(causes: &mut Causes, new: &Value, old: &Value) {
    claim(causes, new);
    let (mut after, mut before) = (new.clone(), old.clone());
    if text(old, "spec.volumeName").is_empty() {
        copy(&mut before, new, "spec.volumeName");
    }
    if at(old, "spec.storageClassName").is_null() {
        copy(&mut before, new, "spec.storageClassName");
    }
    if text(new, "status.phase") == "Bound" {
        copy(&mut after, old, "spec.resources.requests.storage");
        copy(&mut after, old, "spec.volumeAttributesClassName");
    }
    if !semantically_equal(at(&after, "spec"), at(&before, "spec")) {
        let print = |claim: &Value| go_struct::pretty("core.PersistentVolumeClaimSpec", at(claim, "spec"));
        let difference = go_struct::unified(&print(&before), &print(&after));
        let detail = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{difference}"
        );
        causes.forbidden(&Path::new("spec"), &detail);
    }
    let size = |claim: &Value, path: &str| Quantity::from_json(at(claim, path)).unwrap_or(Quantity::whole(0));
    let wanted = size(new, "spec.resources.requests.storage");
    if wanted < size(old, "spec.resources.requests.storage") && wanted <= size(old, "status.capacity.storage")
    {
        let path = Path::new("spec.resources.requests.storage");
        causes.forbidden(&path, "field can not be less than status.capacity");
    }
    volume_mode(causes, new, old);
}

fn volume_mode(causes: &mut Causes, new: &Value, old: &Value) {
    let mode = at(new, "spec.volumeMode");
    if mode != at(old, "spec.volumeMode") {
        causes.invalid(&Path::new("volumeMode"), mode, IMMUTABLE);
    }
}

/// The sources of a volume, in the order in which the real server looks.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

pub(super) fn volume(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    if items(spec, "accessModes").is_empty() {
        causes.required(&path.child("accessModes"), "");
    }
    pod::access_modes(causes, items(spec, "accessModes"), &path.child("accessModes"));
    let capacity_path = path.child("capacity");
    if is_empty(spec, "capacity") {
        causes.required(&capacity_path, "");
    }
    if at(spec, "capacity.storage").is_null() || entries(spec, "capacity").count() > 1 {
        let shown = BadValue::raw(go_struct::line("{}quantity", at(spec, "capacity")));
        causes.push(Cause::not_supported(&capacity_path, shown, &["storage"]));
    }
    for (resource, amount) in entries(spec, "capacity") {
        if let Ok(amount) = Quantity::from_json(amount)
            && amount.signum() <= 0
        {
            causes.invalid(&capacity_path.key(resource), amount.to_string(), "must be greater than zero");
        }
    }
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    let policy_path = path.child("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        causes.one_of(&policy_path, policy, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = at(spec, "nodeAffinity");
    if at(affinity, "required").is_null() && !affinity.is_null() {
        let detail = "must specify required node constraints";
        causes.required(&path.child("nodeAffinity.required"), detail);
    } else if !affinity.is_null() {
        pod::node_selector(causes, at(affinity, "required"), &path.child("nodeAffinity.required"));
    }
    source(causes, spec, &path);
    if text(spec, "hostPath.path") == "/" && policy == "Recycle" {
        causes.forbidden(&policy_path, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        causes.wrong(&path.child("storageClassName"), class, &name::dns1123_subdomain(class));
    }
    if let Some(mode) = at(spec, "volumeMode").as_str() {
        causes.one_of(&path.child("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    attributes_class(causes, spec, &path);
}

/// The volume of an attachment, which has no object of its own.
pub(super) fn inline_volume(causes: &mut Causes, spec: &Value, path: &Path) {
    const CONTEXT: &str = "in the context of inline volumes";
    for field in ["claimRef", "capacity"] {
        if !is_empty(spec, field) {
            causes.forbidden(&path.child(field), &format!("may not be specified {CONTEXT}"));
        }
    }
    if at(spec, "csi").is_null() {
        causes.required(&path.child("csi"), &format!("has to be specified {CONTEXT}"));
    }
    if items(spec, "accessModes").is_empty() {
        causes.required(&path.child("accessModes"), "");
    }
    pod::access_modes(causes, items(spec, "accessModes"), &path.child("accessModes"));
    if !matches!(text(spec, "persistentVolumeReclaimPolicy"), "" | "Retain") {
        let detail = format!("may only be Retain {CONTEXT}");
        causes.forbidden(&path.child("persistentVolumeReclaimPolicy"), &detail);
    }
    if !at(spec, "nodeAffinity").is_null() {
        causes.forbidden(&path.child("nodeAffinity"), &format!("may not be specified {CONTEXT}"));
    }
    source(causes, spec, path);
    if !text(spec, "storageClassName").is_empty() {
        causes.forbidden(&path.child("storageClassName"), &format!("may not be specified {CONTEXT}"));
    }
    if !at(spec, "volumeMode").is_null() && text(spec, "volumeMode") != "Filesystem" {
        let detail = format!("may not specify volumeMode other than Filesystem {CONTEXT}");
        causes.forbidden(&path.child("volumeMode"), &detail);
    }
}

fn source(causes: &mut Causes, spec: &Value, path: &Path) {
    let mut found = 0;
    for kind in SOURCES.iter().filter(|kind| !at(spec, kind).is_null()) {
        found += 1;
        // The real server spells one source in its own way, and never counts another.
        let path = path.child(if *kind == "cephfs" { "cephFS" } else { kind });
        match *kind {
            "flexVolume" => {}
            _ if found > 1 => causes.forbidden(&path, "may not specify more than 1 volume type"),
            "hostPath" => pod::host_path(causes, at(spec, kind), &path),
            "local" => local(causes, spec, &path),
            _ => {}
        }
    }
    if found == 0 {
        causes.required(path, "must specify a volume type");
    }
}

/// A directory of a node, which is on that node only.
fn local(causes: &mut Causes, spec: &Value, path: &Path) {
    let target = text(spec, "local.path");
    if target.is_empty() {
        causes.required(&path.child("path"), "");
    } else {
        no_backsteps(causes, &path.child("path"), target);
    }
    if at(spec, "nodeAffinity").is_null() {
        causes.required(&Path::new("spec.nodeAffinity"), "Local volume requires node affinity");
    }
}

fn attributes_class(causes: &mut Causes, spec: &Value, path: &Path) {
    let Some(class) = at(spec, "volumeAttributesClassName").as_str() else { return };
    let at_class = path.child("volumeAttributesClassName");
    if class.is_empty() {
        causes.required(&at_class, "an empty string is disallowed");
    } else {
        causes.wrong(&at_class, class, &name::dns1123_subdomain(class));
    }
    if at(spec, "csi").is_null() {
        let detail = "has to be specified when using volumeAttributesClassName";
        causes.required(&path.child("csi"), detail);
    }
}

pub(super) fn volume_update(causes: &mut Causes, new: &Value, old: &Value) {
    volume(causes, new);
    let sources = |volume: &Value| {
        let mut spec = at(volume, "spec").clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|field, _| SOURCES.contains(&&**field));
        }
        spec
    };
    let (mut after, before) = (sources(new), sources(old));
    if at(&before, "csi.controllerExpandSecretRef").is_null() && !at(&before, "csi").is_null() {
        remove(&mut after, "csi.controllerExpandSecretRef");
    }
    if !semantically_equal(&after, &before) {
        let print = |spec: &Value| go_struct::pretty("core.PersistentVolumeSource", spec);
        let difference = go_struct::unified(&print(&before), &print(&after));
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        causes.forbidden(&Path::new("spec.persistentvolumesource"), &detail);
    }
    volume_mode(causes, new, old);
}

pub(super) fn class(causes: &mut Causes, object: &Value) {
    let provisioner = text(object, "provisioner");
    let path = Path::new("provisioner");
    if provisioner.is_empty() {
        causes.required(&path, "");
    } else {
        let lower = provisioner.to_lowercase();
        causes.wrong(&path, &lower, &name::qualified_name(&lower));
    }
    for (key, _) in entries(object, "parameters") {
        if key.is_empty() {
            causes.invalid(&Path::new("parameters"), key, "field can not be empty.");
        }
    }
    let policy = text(object, "reclaimPolicy");
    if !policy.is_empty() {
        causes.one_of(&Path::new("reclaimPolicy"), policy, &["Delete", "Retain"]);
    }
    let mode = text(object, "volumeBindingMode");
    let known = ["Immediate", "WaitForFirstConsumer"];
    causes.one_of(&Path::new("volumeBindingMode"), mode, &known);
}

pub(super) fn class_update(causes: &mut Causes, new: &Value, old: &Value) {
    class(causes, new);
    for field in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
        // The real server does not show the value here.
        causes.immutable(new, old, field, BadValue::raw("null"));
    }
}
