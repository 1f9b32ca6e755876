//! From a definition that is written to one that is served: names, conditions, stored versions.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_machinery::apply::{self, OneVersion, ResetFields, WriteContext};
use setpoint_store::{Event, KeyRange, Snapshot, Txn};

use crate::error::{ApiError, Result};
use crate::key;
use crate::object;
use crate::registry;
use crate::registry::definition::{GROUP, PLURAL, definitions, is_true, set_condition};
use crate::server::Server;

/// A definition that has just been written: nothing is accepted yet.
pub(crate) fn begin(definition: &mut Value) {
    definition["status"] =
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null});
    note_stored_version(definition);
}

/// Accepts the names of what a transaction has written.
pub(super) async fn accept_names_after(server: &Server, events: &[Arc<Event>]) {
    let prefix = key::resource(GROUP, PLURAL);
    for event in events.iter().filter(|event| event.key.starts_with(&prefix)) {
        match &event.new {
            Some(entry) => accept_names(server, &entry.key).await,
            None => accept_waiting_names(server).await,
        }
    }
}

/// A definition is gone and its names are free: whoever wanted them gets them now.
pub(super) async fn accept_waiting_names(server: &Server) {
    for key in waiting(server) {
        accept_names(server, &key).await;
    }
}

/// Definitions whose names others have.
fn waiting(server: &Server) -> Vec<Vec<u8>> {
    let range = KeyRange::prefix(key::resource(GROUP, PLURAL));
    let snapshot = server.store().snapshot();
    let entries = snapshot.range(&range, None);
    let conflicted = entries.filter(|entry| !is_true(&registry::value(entry), "NamesAccepted"));
    conflicted.map(|entry| entry.key.to_vec()).collect()
}

async fn accept_names(server: &Server, key: &[u8]) {
    let now = server.options().clock.now();
    let decide = |snapshot: &Snapshot, txn: &mut Txn| -> Result<()> {
        let Some(entry) = snapshot.get(key) else { return Ok(()) };
        let live = registry::value(&entry);
        let mut new = live.clone();
        establish(snapshot, &mut new, now);
        if new != live {
            track(server, &live, &mut new, now);
            let encoded = object::Encoded::new(&new);
            txn.put_with(key.to_vec(), move |revision| encoded.at(revision));
        }
        Ok(())
    };
    if let Err(error) = server.store().transact(decide).await.map_err(ApiError::from) {
        tracing::warn!(%error, "could not establish a definition");
    }
}

/// The status is the server's own.
fn track(server: &Server, live: &Value, new: &mut Value, now: Timestamp) {
    let Some(resource) = server.0.registry.find(GROUP, "v1", PLURAL) else { return };
    let (schema, kind) = (resource.schema(), resource.stored_kind());
    let context = WriteContext {
        schema: &schema,
        kind: &kind,
        manager: "kube-apiserver",
        subresource: "status",
        now,
        reset_fields: &ResetFields::exclude(&[&["spec"], &["metadata"]]),
        versions: &OneVersion,
    };
    apply::track_update(Some(live), new, &context);
}

/// Accepts the names of a definition, unless another one of its group has them, and establishes it.
fn establish(snapshot: &Snapshot, definition: &mut Value, now: Timestamp) {
    let others: Vec<Value> = definitions(snapshot)
        .into_iter()
        .filter(|other| {
            other["spec"]["group"] == definition["spec"]["group"]
                && object::name(other) != object::name(definition)
        })
        .collect();
    let wanted = definition["spec"]["names"].clone();
    let accepted = &definition["status"]["acceptedNames"];
    let mut names = if accepted.is_object() { accepted.clone() } else { json!({"kind": "", "plural": ""}) };
    let conflict = accept(&wanted, &mut names, &others);
    definition["status"]["acceptedNames"] = names;
    match conflict {
        None => {
            set_condition(definition, now, "NamesAccepted", true, "NoConflicts", "no conflicts found");
            if !is_true(definition, "Established") {
                let text = "the initial names have been accepted";
                set_condition(definition, now, "Established", true, "InitialNamesAccepted", text);
            }
        }
        Some((reason, message)) => {
            set_condition(definition, now, "NamesAccepted", false, reason, &message);
            if !is_true(definition, "Established") {
                let text = "not all names are accepted";
                set_condition(definition, now, "Established", false, "NotAccepted", text);
            }
        }
    }
    approve(definition, now);
}

/// A version that objects are stored in is remembered for good.
pub(crate) fn note_stored_version(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array();
    let storage = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let Some(storage) = storage.and_then(|version| version["name"].as_str()).map(str::to_owned) else {
        return;
    };
    if !definition["status"]["storedVersions"].is_array() {
        definition["status"]["storedVersions"] = json!([]);
    }
    let stored = definition["status"]["storedVersions"].as_array_mut().expect("made a list just now");
    if !stored.iter().any(|own| *own == json!(storage)) {
        stored.push(json!(storage));
    }
}

/// Takes over every wanted name that is free; the last conflict is reported.
fn accept(wanted: &Value, names: &mut Value, others: &[Value]) -> Option<(&'static str, String)> {
    let mut taken: Vec<String> = Vec::new();
    let mut kinds: Vec<String> = Vec::new();
    for other in others {
        let own = &other["status"]["acceptedNames"];
        let texts = |field: &str| own[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        taken.extend(texts("plural"));
        taken.extend(texts("singular"));
        let short = own["shortNames"].as_array();
        taken.extend(short.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
        kinds.extend(texts("kind"));
        kinds.extend(texts("listKind"));
    }
    let mut conflict = None;
    for (field, reason, known) in [
        ("plural", "PluralConflict", &taken),
        ("singular", "SingularConflict", &taken),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ] {
        let Some(name) = wanted[field].as_str() else { continue };
        if known.iter().any(|own| own == name) {
            conflict = Some((reason, format!("\"{name}\" is already in use")));
        } else {
            names[field] = json!(name);
        }
    }
    let short = wanted["shortNames"].as_array().cloned().unwrap_or_default();
    let used: Vec<String> = short
        .iter()
        .filter_map(Value::as_str)
        .filter(|name| taken.iter().any(|own| own == name))
        .map(|name| format!("\"{name}\" is already in use"))
        .collect();
    match (used.is_empty(), short.is_empty()) {
        // kube-apiserver looks at short names before kinds, and the last conflict counts.
        (false, _) if matches!(conflict, Some(("KindConflict" | "ListKindConflict", _))) => {}
        (false, _) => conflict = Some(("ShortNamesConflict", used.join(", "))),
        (true, false) => names["shortNames"] = json!(short),
        (true, true) => {
            if let Some(names) = names.as_object_mut() {
                names.remove("shortNames");
            }
        }
    }
    match wanted.get("categories") {
        Some(categories) => names["categories"] = categories.clone(),
        None => {
            if let Some(names) = names.as_object_mut() {
                names.remove("categories");
            }
        }
    }
    conflict
}

/// Groups of Kubernetes' own carry an annotation that says who approved them.
fn approve(definition: &mut Value, now: Timestamp) {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    let group = definition["spec"]["group"].as_str().unwrap_or("");
    let protected = group == "k8s.io" || group == "kubernetes.io";
    if !protected && !group.ends_with(".k8s.io") && !group.ends_with(".kubernetes.io") {
        return;
    }
    let value = definition["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or("").to_owned();
    let condition = "KubernetesAPIApprovalPolicyConformant";
    if value.is_empty() {
        let text = format!(
            "protected groups must have approval annotation \"{ANNOTATION}\", see https://github.com/kubernetes/enhancements/pull/1111"
        );
        set_condition(definition, now, condition, false, "MissingAnnotation", &text);
    } else if value.starts_with("unapproved") {
        let text = format!("not approved: {value:?}");
        set_condition(definition, now, condition, false, "UnapprovedAnnotation", &text);
    } else {
        let text = format!("approved in {value}");
        set_condition(definition, now, condition, true, "ApprovedAnnotation", &text);
    }
}
