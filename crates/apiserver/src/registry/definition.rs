//! CustomResourceDefinitions as they are stored, and the resources that they serve.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use setpoint_api::clock;
use setpoint_kinds::facts::Facts;
use setpoint_store::{KeyRange, Snapshot};

use super::custom::{Custom, Version};
use super::version::storage_hash;
use super::{Resource, Rules, Subresource};
use crate::{entry, key};

/// The group of the definitions.
pub(crate) const GROUP: &str = "apiextensions.k8s.io";
/// Their name in paths.
pub(crate) const PLURAL: &str = "customresourcedefinitions";

/// Whether a condition of a definition is true.
pub(crate) fn is_true(definition: &Value, condition: &str) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    let mut found = conditions.into_iter().flatten().filter(|own| own["type"] == condition);
    found.any(|own| own["status"] == "True")
}

/// Sets a condition of a definition.
pub(crate) fn set_condition(
    definition: &mut Value,
    now: jiff::Timestamp,
    condition: &str,
    status: bool,
    reason: &str,
    message: &str,
) {
    let status = if status { "True" } else { "False" };
    if !definition["status"]["conditions"].is_array() {
        definition["status"]["conditions"] = json!([]);
    }
    let conditions = definition["status"]["conditions"].as_array_mut().expect("made a list just now");
    let changed = clock::rfc3339_seconds(now);
    let mut new = json!({"type": condition, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": changed});
    match conditions.iter_mut().find(|own| own["type"] == condition) {
        Some(own) => {
            if own["status"] == new["status"] {
                new["lastTransitionTime"] = own["lastTransitionTime"].clone();
            }
            *own = new;
        }
        None => conditions.push(new),
    }
}

/// Every definition in the store.
pub(crate) fn definitions(snapshot: &Snapshot) -> Vec<Value> {
    let range = KeyRange::prefix(key::resource(GROUP, PLURAL));
    snapshot.range(&range, None).map(|entry| entry::value(entry)).collect()
}

/// The resources that established definitions serve.
pub(super) fn served(snapshot: &Snapshot) -> BTreeMap<(String, String, String), Arc<Resource>> {
    let mut resources = BTreeMap::new();
    for definition in definitions(snapshot).iter().filter(|definition| is_true(definition, "Established")) {
        let Some(custom) = Custom::parse(definition).map(Arc::new) else { continue };
        for version in custom.versions.iter().filter(|version| version.served) {
            let resource = resource(definition, &custom, version);
            let name = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
            resources.insert(name, Arc::new(resource));
        }
    }
    resources
}

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

fn resource(definition: &Value, custom: &Arc<Custom>, version: &Version) -> Resource {
    let names = &definition["status"]["acceptedNames"];
    let text = |field: &str| names.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
    let texts = |field: &str| -> Vec<String> {
        let list = names.get(field).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (group, plural) = (custom.group.clone(), text("plural"));
    let namespaced = definition["spec"]["scope"] == "Namespaced";
    let stored = custom.versions.iter().find(|version| version.storage).unwrap_or(version);
    let owned = |verbs: &[&str]| verbs.iter().map(|&verb| verb.to_owned()).collect::<Vec<_>>();
    let mut subresources = Vec::new();
    if version.status {
        subresources.push(Subresource {
            name: "status".to_owned(),
            group_version: None,
            kind: text("kind"),
            verbs: owned(&["get", "patch", "update"]),
        });
    }
    if version.scale.is_some() {
        subresources.push(Subresource {
            name: "scale".to_owned(),
            group_version: Some(("autoscaling".to_owned(), "v1".to_owned())),
            kind: "Scale".to_owned(),
            verbs: owned(&["get", "patch", "update"]),
        });
    }
    Resource {
        version: version.name.clone(),
        kind: text("kind"),
        list_kind: text("listKind"),
        singular: text("singular"),
        namespaced,
        verbs: owned(&VERBS),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        storage_version_hash: storage_hash(&group, &stored.name, &text("kind")),
        subresources,
        // With a conversion webhook the server decides in the version of the request, and converts objects before it
        // stores them.
        storage_api_version: match custom.conversion {
            Some(_) => format!("{group}/{}", version.name),
            None => format!("{group}/{}", stored.name),
        },
        prefix: key::custom(&group, &plural),
        rules: Rules::default(),
        facts: Facts::custom(namespaced, version.status),
        custom: Some(custom.clone()),
        plural,
        group,
    }
}
