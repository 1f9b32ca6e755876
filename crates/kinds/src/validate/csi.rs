//! CSI drivers, nodes and capacities; attached volumes; classes of volume attributes.

use serde_json::Value;

use super::check::{Causes, NOT_NEGATIVE};
use super::meta::{self, IMMUTABLE};
use super::storage;
use crate::access::{at, entries, int, items, remove, text};
use crate::go_struct;
use crate::strategy::semantically_equal;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;
use setpoint_api::quantity::Quantity;

const LONGEST_DRIVER_NAME: usize = 63;
const LONGEST_NODE_ID: usize = 256;
const LONGEST_ERROR: usize = 1024;
const MOST_PARAMETERS: usize = 512;
const MOST_PARAMETER_BYTES: usize = 256 * 1024;

pub(super) fn driver(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    // The real server has its own spelling of the first.
    for (field, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if at(spec, field).is_null() {
            causes.required(&path.child(shown), "");
        }
    }
    if let Some(policy) = at(spec, "fsGroupPolicy").as_str() {
        let known = ["File", "None", "ReadWriteOnceWithFSType"];
        causes.one_of(&path.child("fsGroupPolicy"), policy, &known);
    }
    token_requests(causes, items(spec, "tokenRequests"), &path.child("tokenRequests"));
    for mode in items(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str) {
        causes.one_of(&path.child("volumeLifecycleModes"), mode, &["Persistent", "Ephemeral"]);
    }
    if at(spec, "seLinuxMount").is_null() {
        causes.required(&path.child("seLinuxMount"), "");
    }
    if let Some(period) = int(spec, "nodeAllocatableUpdatePeriodSeconds").filter(|period| *period < 10) {
        let detail = "must be greater than or equal to 10 seconds";
        causes.invalid(&path.child("nodeAllocatableUpdatePeriodSeconds"), period, detail);
    }
    let in_secrets = at(spec, "serviceAccountTokenInSecrets");
    if !in_secrets.is_null() && items(spec, "tokenRequests").is_empty() {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        causes.invalid(&path.child("serviceAccountTokenInSecrets"), in_secrets, detail);
    }
}

fn token_requests(causes: &mut Causes, requests: &[Value], path: &Path) {
    let mut audiences: Vec<&str> = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let path = path.index(index);
        let audience = text(request, "audience");
        if audiences.contains(&audience) {
            causes.push(Cause::duplicate(&path.child("audience"), audience));
            continue;
        }
        audiences.push(audience);
        let Some(seconds) = int(request, "expirationSeconds") else { continue };
        let path = path.child("expirationSeconds");
        if seconds < 600 {
            causes.invalid(&path, seconds, "may not specify a duration less than 10 minutes");
        }
        if seconds > 1 << 32 {
            causes.invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
}

pub(super) fn driver_update(causes: &mut Causes, new: &Value, old: &Value) {
    driver(causes, new);
    for (field, shown) in
        [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
    {
        let (is, was) = (at(&new["spec"], field), at(&old["spec"], field));
        if !semantically_equal(is, was) {
            causes.invalid(&Path::new("spec").child(shown), is, IMMUTABLE);
        }
    }
}

/// The name of a CSI driver.
pub(super) fn driver_name(causes: &mut Causes, driver: &str, path: &Path) {
    if driver.is_empty() {
        return causes.required(path, "");
    }
    if driver.len() > LONGEST_DRIVER_NAME {
        causes.push(Cause::too_long(path, LONGEST_DRIVER_NAME));
    }
    causes.wrong(path, driver, &name::dns1123_subdomain(&driver.to_lowercase()));
}

/// The name of a CSI driver, as declarative validation words its faults.
pub(super) fn declared_driver_name(causes: &mut Causes, driver: &str, path: &Path) {
    if driver.is_empty() {
        return causes.required(path, "");
    }
    if driver.chars().count() > LONGEST_DRIVER_NAME {
        causes.push(Cause::too_many_characters(path, LONGEST_DRIVER_NAME));
    }
    causes.wrong(path, driver, &name::caseless_subdomain(driver));
}

pub(super) fn node(causes: &mut Causes, object: &Value) {
    let mut names: Vec<&str> = Vec::new();
    for (index, driver) in items(object, "spec.drivers").iter().enumerate() {
        let path = Path::new("spec.drivers").index(index);
        let (name, id) = (text(driver, "name"), text(driver, "nodeID"));
        driver_name(causes, name, &path.child("name"));
        if id.is_empty() {
            causes.required(&path.child("nodeID"), "");
        }
        if id.len() > LONGEST_NODE_ID {
            let detail = format!("must be {LONGEST_NODE_ID} characters or less");
            causes.invalid(&path.child("nodeID"), id, &detail);
        }
        causes.non_negative(&path.child("allocatable.count"), int(driver, "allocatable.count"));
        if names.contains(&name) {
            causes.push(Cause::duplicate(&path.child("name"), name));
        }
        names.push(name);
        let keys: Vec<&str> = items(driver, "topologyKeys").iter().filter_map(Value::as_str).collect();
        for (at, key) in keys.iter().enumerate() {
            if key.is_empty() {
                causes.required(&path, "");
            }
            if keys[..at].contains(key) {
                causes.push(Cause::duplicate(&path, *key));
            }
            causes.wrong(&path, key, &name::qualified_name(key));
        }
    }
}

pub(super) fn node_update(causes: &mut Causes, new: &Value, old: &Value) {
    node(causes, new);
    for was in items(old, "spec.drivers") {
        for is in items(new, "spec.drivers").iter().filter(|is| text(is, "name") == text(was, "name")) {
            let (mut is, mut was) = (is.clone(), was.clone());
            remove(&mut is, "allocatable");
            remove(&mut was, "allocatable");
            if !semantically_equal(&is, &was) {
                let shown = BadValue::raw(go_struct::line("storage.CSINodeDriver", &is));
                causes.invalid(&Path::new("spec.drivers"), shown, IMMUTABLE);
            }
        }
    }
}

pub(super) fn capacity(causes: &mut Causes, object: &Value) {
    causes.extend(meta::label_selector(at(object, "nodeTopology"), &Path::new("nodeTopology")));
    let class = text(object, "storageClassName");
    causes.wrong(&Path::new("storageClassName"), class, &name::dns1123_subdomain(class));
    if let Ok(amount) = Quantity::from_json(at(object, "capacity"))
        && amount.signum() < 0
    {
        causes.invalid(&Path::new("capacity"), amount.to_string(), NOT_NEGATIVE);
    }
}

pub(super) fn capacity_update(causes: &mut Causes, new: &Value, old: &Value) {
    let topology = at(new, "nodeTopology");
    let shown = if topology.is_null() { "null".to_owned() } else { meta::show_selector(topology) };
    causes.immutable(new, old, "nodeTopology", BadValue::raw(shown));
    causes.immutable(new, old, "storageClassName", text(new, "storageClassName"));
}

pub(super) fn attachment(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let (volume, inline) = (at(spec, "source.persistentVolumeName"), at(spec, "source.inlineVolumeSpec"));
    let source = path.child("source");
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (volume.as_str(), inline.is_null()) {
        (None, true) => causes.required(&source, ONE),
        (Some(_), false) => causes.forbidden(&source, ONE),
        (Some(""), true) => {
            let detail = "must specify non empty persistentVolumeName";
            causes.required(&source.child("persistentVolumeName"), detail);
        }
        (Some(_), true) => {}
        (None, false) => storage::inline_volume(causes, inline, &source.child("inlineVolumeSpec")),
    }
    let node = text(spec, "nodeName");
    causes.wrong(&path.child("nodeName"), node, &name::dns1123_subdomain(node));
    attachment_status(causes, object);
    if let Some(volume) = volume.as_str() {
        let path = source.child("persistentVolumeName");
        causes.wrong(&path, volume, &name::dns1123_subdomain(volume));
    }
    declared_driver_name(causes, text(spec, "attacher"), &path.child("attacher"));
}

/// The status of an attachment, which is judged with all of the object.
fn attachment_status(causes: &mut Causes, object: &Value) {
    let (path, status) = (Path::new("status"), at(object, "status"));
    let bytes = |(key, value): (&String, &Value)| key.len() + value.as_str().unwrap_or_default().len();
    if entries(status, "attachmentMetadata").map(bytes).sum::<usize>() > MOST_PARAMETER_BYTES {
        causes.push(Cause::too_long(&path.child("attachmentMetadata"), MOST_PARAMETER_BYTES));
    }
    for field in ["attachError", "detachError"] {
        let (path, error) = (path.child(field), at(status, field));
        if text(error, "message").len() > LONGEST_ERROR {
            causes.push(Cause::too_long(&path.child("message"), LONGEST_ERROR));
        }
        if let Some(code) = int(error, "errorCode").filter(|code| *code < 0) {
            causes.wrong_number(&path.child("errorCode"), code, &name::in_range(code, 0, i32::MAX.into()));
        }
    }
}

pub(super) fn attachment_update(causes: &mut Causes, new: &Value, old: &Value) {
    attachment(causes, new);
    causes.immutable(new, old, "spec", BadValue::raw("null"));
}

pub(super) fn attributes_class(causes: &mut Causes, object: &Value) {
    let driver = text(object, "driverName");
    let path = Path::new("driverName");
    if driver.is_empty() {
        causes.required(&path, "");
    } else {
        let lower = driver.to_lowercase();
        causes.wrong(&path, &lower, &name::qualified_name(&lower));
    }
    parameters(causes, object);
    if crate::access::is_empty(object, "parameters") {
        causes.required(&Path::new("parameters"), "must contain at least one key/value pair");
    }
}

/// The parameters of a class.
pub(super) fn parameters(causes: &mut Causes, object: &Value) {
    let path = Path::new("parameters");
    if entries(object, "parameters").count() > MOST_PARAMETERS {
        return causes.push(Cause::too_long(&path, MOST_PARAMETERS));
    }
    let mut bytes = 0;
    for (key, value) in entries(object, "parameters") {
        if key.is_empty() {
            causes.invalid(&path, key, "field can not be empty.");
        }
        bytes += key.len() + value.as_str().unwrap_or_default().len();
    }
    if bytes > MOST_PARAMETER_BYTES {
        causes.push(Cause::too_long(&path, MOST_PARAMETER_BYTES));
    }
}

pub(super) fn attributes_class_update(causes: &mut Causes, new: &Value, old: &Value) {
    for field in ["driverName", "parameters"] {
        if at(new, field) != at(old, field) {
            causes.forbidden(&Path::new(field), &format!("updates to {field} are forbidden."));
        }
    }
    attributes_class(causes, new);
}
