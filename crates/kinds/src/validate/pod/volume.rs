//! Volumes.

use std::collections::BTreeSet;

use std::collections::BTreeMap;

use serde_json::Value;

use super::env;
use crate::access::{at, int, items, text};
use crate::go_struct;
use crate::validate::check::{Causes, no_backsteps};
use crate::validate::{certificates, meta, trust};
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;
use setpoint_api::quantity::Quantity;

/// Volumes by name, with their sources.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// The volumes that are good, by name.
pub(super) fn volumes<'a>(causes: &mut Causes, volumes: &'a [Value], pod: &str, path: &Path) -> Volumes<'a> {
    let mut known = Volumes::new();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let mut found = Causes::default();
        source(&mut found, volume, &path);
        let name = text(volume, "name");
        if !at(volume, "ephemeral").is_null() && !pod.is_empty() && !name.is_empty() {
            // The claim that the volume makes is named after both.
            let claim = format!("{pod}-{name}");
            for wrong in name::dns1123_subdomain(&claim) {
                let detail = format!("PVC name {}: {wrong}", setpoint_api::go_format::quote(&claim));
                found.invalid(&path.child("name"), name, &detail);
            }
        }
        found.named(&path.child("name"), name, name::dns1123_label);
        if known.contains_key(name) {
            found.push(Cause::duplicate(&path.child("name"), name));
        }
        if found.0.is_empty() {
            known.insert(name, volume);
        }
        causes.extend(found.0);
    }
    known
}

/// In the order in which the real server looks.
const SOURCES: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
];

fn source(causes: &mut Causes, volume: &Value, path: &Path) {
    let mut found = 0;
    for kind in SOURCES.iter().chain(&["image"]) {
        let source = at(volume, kind);
        if source.is_null() {
            continue;
        }
        if found > 0 {
            // The real server spells two sources in its own way here.
            let shown = match *kind {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                kind => kind,
            };
            causes.forbidden(&path.child(shown), "may not specify more than 1 volume type");
            continue;
        }
        found += 1;
        known_source(causes, kind, source, &path.child(kind));
    }
    if found == 0 {
        causes.required(path, "must specify a volume type");
    }
}

fn known_source(causes: &mut Causes, kind: &str, source: &Value, path: &Path) {
    let must = |causes: &mut Causes, fields: &[&str]| {
        for field in fields.iter().filter(|field| text(source, field).is_empty()) {
            causes.required(&path.child(field), "");
        }
    };
    match kind {
        "emptyDir" => {
            let limit = Quantity::from_json(at(source, "sizeLimit"));
            if limit.is_ok_and(|limit| limit.signum() < 0) {
                let detail = "SizeLimit field must be a valid resource quantity";
                causes.forbidden(&path.child("sizeLimit"), detail);
            }
        }
        "hostPath" => host_path(causes, source, path),
        "secret" => {
            must(causes, &["secretName"]);
            keys(causes, source, path);
        }
        "configMap" => {
            must(causes, &["name"]);
            keys(causes, source, path);
        }
        "downwardAPI" => {
            mode(causes, source, "defaultMode", path);
            downward_items(causes, source, path);
        }
        "nfs" => nfs(causes, source, path),
        "persistentVolumeClaim" => must(causes, &["claimName"]),
        "projected" => projected(causes, source, path),
        "ephemeral" => ephemeral(causes, source, path),
        "csi" => must(causes, &["driver"]),
        "iscsi" => iscsi(causes, source, path),
        "image" => {
            must(causes, &["reference"]);
            let policy = text(source, "pullPolicy");
            let known = ["Always", "IfNotPresent", "Never"];
            causes.required_one_of(&path.child("pullPolicy"), policy, &known);
        }
        _ => {}
    }
}

/// A path on the host.
pub(in crate::validate) fn host_path(causes: &mut Causes, source: &Value, path: &Path) {
    let target = text(source, "path");
    if target.is_empty() {
        return causes.required(&path.child("path"), "");
    }
    no_backsteps(causes, &path.child("path"), target);
    if let Some(kind) = at(source, "type").as_str() {
        causes.one_of(
            &path.child("type"),
            kind,
            &[
                "",
                "BlockDevice",
                "CharDevice",
                "Directory",
                "DirectoryOrCreate",
                "File",
                "FileOrCreate",
                "Socket",
            ],
        );
    }
}

fn iscsi(causes: &mut Causes, source: &Value, path: &Path) {
    if text(source, "targetPortal").is_empty() {
        causes.required(&path.child("targetPortal"), "");
    }
    let name = text(source, "iqn");
    if name.is_empty() {
        causes.required(&path.child("iqn"), "");
    } else if !["iqn", "eui", "naa"].iter().any(|kind| name.starts_with(kind)) {
        let detail = "must be valid format starting with iqn, eui, or naa";
        causes.invalid(&path.child("iqn"), name, detail);
    }
    let unit = int(source, "lun").unwrap_or_default();
    causes.wrong_number(&path.child("lun"), unit, &name::in_range(unit, 0, 255));
}

fn nfs(causes: &mut Causes, source: &Value, path: &Path) {
    if text(source, "server").is_empty() {
        causes.required(&path.child("server"), "");
    }
    let target = text(source, "path");
    if target.is_empty() {
        causes.required(&path.child("path"), "");
    }
    if !target.starts_with('/') {
        causes.invalid(&path.child("path"), target, "must be an absolute path");
    }
}

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

fn mode(causes: &mut Causes, source: &Value, field: &str, path: &Path) {
    if let Some(mode) = int(source, field).filter(|mode| !(0..=0o777).contains(mode)) {
        causes.invalid(&path.child(field), mode, MODE);
    }
}

fn keys(causes: &mut Causes, source: &Value, path: &Path) {
    mode(causes, source, "defaultMode", path);
    items_of(causes, source, path);
}

fn items_of(causes: &mut Causes, source: &Value, path: &Path) {
    for (index, item) in items(source, "items").iter().enumerate() {
        let path = path.child("items").index(index);
        if text(item, "key").is_empty() {
            causes.required(&path.child("key"), "");
        }
        let target = text(item, "path");
        if target.is_empty() {
            causes.required(&path.child("path"), "");
        }
        non_reserved_path(causes, &path.child("path"), target);
        mode(causes, item, "mode", &path);
    }
}

/// A relative path that leads nowhere outside.
fn non_reserved_path(causes: &mut Causes, path: &Path, target: &str) {
    let before = causes.0.len();
    crate::validate::check::descending_path(causes, path, target);
    if causes.0.len() == before && target.starts_with("..") {
        causes.invalid(path, target, "must not start with '..'");
    }
}

/// The fields that a downward volume may show.
fn downward_items(causes: &mut Causes, source: &Value, path: &Path) {
    const ALLOWED: [&str; 5] =
        ["metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"];
    // The real server's paths do not say which item.
    for item in items(source, "items") {
        let target = text(item, "path");
        if target.is_empty() {
            causes.required(&path.child("path"), "");
        }
        non_reserved_path(causes, &path.child("path"), target);
        let (field, resource) = (at(item, "fieldRef"), at(item, "resourceFieldRef"));
        match (field.is_null(), resource.is_null()) {
            (false, true) => env::field_ref(causes, field, &path.child("fieldRef"), &ALLOWED),
            (true, false) => env::resource_field_ref(causes, resource, &path.child("resourceFieldRef"), true),
            (false, false) => {
                causes.invalid(
                    path,
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                );
            }
            (true, true) => causes.required(path, "one of fieldRef and resourceFieldRef is required"),
        }
    }
}

fn projected(causes: &mut Causes, source: &Value, path: &Path) {
    mode(causes, source, "defaultMode", path);
    let volume = path;
    let mut paths: BTreeSet<&str> = BTreeSet::new();
    for (index, one) in items(source, "sources").iter().enumerate() {
        let path = path.child("sources").index(index);
        let mut found = 0;
        for kind in ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle"] {
            let part = at(one, kind);
            if part.is_null() {
                continue;
            }
            found += 1;
            projection(causes, kind, part, volume, &path.child(kind));
            let target = text(part, "path");
            if !paths.insert(target) && !target.is_empty() {
                causes.invalid(volume, target, "conflicting duplicate paths");
            }
            for target in items(part, "items").iter().map(|item| text(item, "path")) {
                if !paths.insert(target) && !target.is_empty() {
                    let shown = if kind == "downwardAPI" { target } else { text(part, "name") };
                    causes.invalid(volume, shown, "conflicting duplicate paths");
                }
            }
        }
        if found > 1 {
            causes.forbidden(&path, "may not specify more than 1 volume type per source");
        }
    }
}

fn projection(causes: &mut Causes, kind: &str, part: &Value, volume: &Path, path: &Path) {
    match kind {
        "secret" | "configMap" => {
            if text(part, "name").is_empty() {
                causes.required(&path.child("name"), "");
            }
            items_of(causes, part, path);
        }
        "downwardAPI" => downward_items(causes, part, path),
        "serviceAccountToken" => {
            let seconds = int(part, "expirationSeconds").unwrap_or_default();
            if seconds < 600 {
                let detail = "may not specify a duration less than 10 minutes";
                causes.invalid(&path.child("expirationSeconds"), seconds, detail);
            } else if seconds > 1 << 32 {
                let detail = "may not specify a duration larger than 2^32 seconds";
                causes.invalid(&path.child("expirationSeconds"), seconds, detail);
            }
            if text(part, "path").is_empty() {
                causes.required(&volume.child("path"), "");
            } else {
                non_reserved_path(causes, &volume.child("path"), text(part, "path"));
            }
        }
        "clusterTrustBundle" => trust_bundle(causes, part, path),
        _ => {}
    }
}

/// Trust anchors are those of one bundle, or of the bundles of a signer.
fn trust_bundle(causes: &mut Causes, part: &Value, path: &Path) {
    let selector = at(part, "labelSelector");
    match (at(part, "name").as_str(), at(part, "signerName").as_str()) {
        (Some(_), Some(_)) => {
            let shown = BadValue::raw(go_struct::line("core.ClusterTrustBundleProjection", part));
            causes.invalid(path, shown, "only one of name and signerName may be used");
        }
        (Some(name), None) => {
            let at_name = path.child("name");
            if name.is_empty() {
                causes.required(&at_name, "must be a valid object name");
            }
            let signer = name.rsplit_once(':').map_or(String::new(), |(signer, _)| signer.replace(':', "/"));
            for wrong in trust::bundle_name_of(&signer, name, false) {
                causes.invalid(&at_name, name, &format!("not a valid clustertrustbundlename: {wrong}"));
            }
            if !selector.is_null() {
                let shown = BadValue::raw(meta::show_selector(selector));
                let detail = "labelSelector must be unset if name is specified";
                causes.invalid(&path.child("labelSelector"), shown, detail);
            }
        }
        (None, Some(signer)) => {
            let at_signer = path.child("signerName");
            if signer.is_empty() {
                causes.required(&at_signer, "must be a valid signer name");
            }
            certificates::signer(causes, signer, &at_signer);
            causes.extend(meta::label_selector(selector, &path.child("labelSelector")));
        }
        (None, None) => causes.required(path, "either name or signerName must be specified"),
    }
    if text(part, "path").is_empty() {
        causes.required(&path.child("path"), "");
    }
    non_reserved_path(causes, &path.child("path"), text(part, "path"));
}

fn ephemeral(causes: &mut Causes, source: &Value, path: &Path) {
    let template = at(source, "volumeClaimTemplate");
    if template.is_null() {
        return causes.required(&path.child("volumeClaimTemplate"), "");
    }
    let path = path.child("volumeClaimTemplate");
    causes.extend(meta::labels(at(template, "metadata.labels"), &path.child("metadata.labels")));
    claim_spec(causes, at(template, "spec"), &path.child("spec"));
}

/// The spec of a claim, wherever it stands.
pub(in crate::validate) fn claim_spec(causes: &mut Causes, spec: &Value, path: &Path) {
    let modes = items(spec, "accessModes");
    if modes.is_empty() {
        causes.required(&path.child("accessModes"), "at least 1 access mode is required");
    }
    causes.extend(meta::label_selector(at(spec, "selector"), &path.child("selector")));
    access_modes(causes, modes, &path.child("accessModes"));
    let storage_path = path.child("resources").key("storage");
    match at(spec, "resources.requests.storage") {
        Value::Null => causes.required(&storage_path, ""),
        amount => {
            if let Ok(amount) = Quantity::from_json(amount)
                && amount.signum() <= 0
            {
                causes.invalid(&storage_path, amount.to_string(), "must be greater than zero");
            }
        }
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        causes.wrong(&path.child("storageClassName"), class, &name::dns1123_subdomain(class));
    }
    if let Some(mode) = at(spec, "volumeMode").as_str() {
        causes.one_of(&path.child("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    data_sources(causes, spec, path);
    let class = text(spec, "volumeAttributesClassName");
    if !class.is_empty() {
        causes.wrong(&path.child("volumeAttributesClassName"), class, &name::dns1123_subdomain(class));
    }
}

fn data_sources(causes: &mut Causes, spec: &Value, path: &Path) {
    let (source, reference) = (at(spec, "dataSource"), at(spec, "dataSourceRef"));
    for (field, one) in [("dataSource", source), ("dataSourceRef", reference)] {
        if !one.is_null() {
            data_source(causes, one, &path.child(field));
        }
    }
    if source.is_null() || reference.is_null() {
        return;
    }
    // The real server shows the path itself, which prints as an empty object.
    let shown = || setpoint_api::cause::BadValue::raw("{}");
    if !text(reference, "namespace").is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        causes.invalid(path, shown(), detail);
    } else if ["kind", "name", "apiGroup"].iter().any(|field| text(source, field) != text(reference, field)) {
        causes.invalid(path, shown(), "must match dataSourceRef");
    }
}

fn data_source(causes: &mut Causes, source: &Value, path: &Path) {
    for field in ["name", "kind"] {
        if text(source, field).is_empty() {
            causes.required(&path.child(field), "");
        }
    }
    let (kind, group) = (text(source, "kind"), text(source, "apiGroup"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        causes.invalid(path, kind, detail);
    }
    if !group.is_empty() {
        causes.wrong(&path.child("apiGroup"), group, &name::dns1123_subdomain(group));
    }
    let namespace = text(source, "namespace");
    if !namespace.is_empty() {
        causes.wrong(&path.child("namespace"), namespace, &name::dns1123_label(namespace));
    }
}

/// Ways to reach a volume.
pub(in crate::validate) fn access_modes(causes: &mut Causes, modes: &[Value], path: &Path) {
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes.iter().filter_map(Value::as_str) {
        causes.one_of(path, mode, &known);
    }
    let alone = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    if alone && modes.iter().any(|mode| mode != "ReadWriteOncePod") {
        causes.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}
