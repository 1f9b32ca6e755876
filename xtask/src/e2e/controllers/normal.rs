//! The end state of a namespace, without what differs from run to run: names that end in random letters, uids, times,
//! addresses.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::{Value, json};

use super::super::proxy::Proxy;

/// Kinds in which a scenario may leave objects, in this order: sets are named before their pods.
const KINDS: &[(&str, &str)] = &[
    ("apps/v1", "deployments"),
    ("apps/v1", "replicasets"),
    ("apps/v1", "statefulsets"),
    ("apps/v1", "daemonsets"),
    ("apps/v1", "controllerrevisions"),
    ("batch/v1", "cronjobs"),
    ("batch/v1", "jobs"),
    ("v1", "pods"),
    ("v1", "persistentvolumeclaims"),
    ("v1", "services"),
    ("v1", "endpoints"),
    ("discovery.k8s.io/v1", "endpointslices"),
    ("v1", "configmaps"),
    ("v1", "serviceaccounts"),
    ("v1", "limitranges"),
    ("v1", "resourcequotas"),
    ("e2e.setpoint.dev/v1", "widgets"),
];

/// Set by servers or by chance, and of no meaning beyond one run.
const DROPPED: &[&str] = &[
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "startTime",
    "startedAt",
    "finishedAt",
    "completionTime",
    "lastScheduleTime",
    "lastSuccessfulTime",
    "batch.kubernetes.io/cronjob-scheduled-timestamp",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "lastUpdateTime",
    "lastTransitionTime",
    "lastProbeTime",
    "lastHeartbeatTime",
    "deletionTimestamp",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "ip",
    "addresses",
    "clusterIP",
    "clusterIPs",
    "ca.crt",
    "containerID",
    "endpoints.kubernetes.io/last-change-trigger-time",
];

/// The objects of a namespace and the reasons of its events, comparable between clusters.
pub fn end_state(api: &Proxy, namespace: &str) -> Result<Value> {
    let mut names = Names::default();
    let mut lists = Vec::new();
    for (version, plural) in KINDS {
        let root = if *version == "v1" { "/api/v1".into() } else { format!("/apis/{version}") };
        let objects = api.items(&format!("{root}/namespaces/{namespace}/{plural}"))?;
        names.learn(plural, &objects);
        lists.push((*plural, objects));
    }
    let mut state = BTreeMap::new();
    for (plural, objects) in lists {
        let mut shown: Vec<Value> = objects.into_iter().map(|object| names.plain(object)).collect();
        if !["deployments", "daemonsets"].contains(&plural) {
            shown.iter_mut().for_each(without_generations);
        }
        shown.sort_by_key(Value::to_string);
        state.insert(plural, Value::Array(shown));
    }
    state.insert("events", events(api, namespace)?);
    Ok(json!(state))
}

/// The number of a controller's writes before the end state is a matter of timing.
fn without_generations(object: &mut Value) {
    for (part, field) in [("metadata", "generation"), ("status", "observedGeneration")] {
        if let Some(part) = object[part].as_object_mut() {
            part.remove(field);
        }
    }
}

/// Which events there were, whatever their number: how many steps a rollout takes is a matter of timing.
fn events(api: &Proxy, namespace: &str) -> Result<Value> {
    let events = api.items(&format!("/api/v1/namespaces/{namespace}/events"))?;
    let reasons: BTreeMap<String, bool> = events
        .iter()
        .map(|event| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let source = [&event["reportingComponent"], &event["source"]["component"]];
            let source = source.into_iter().map(text).find(|name| !name.is_empty()).unwrap_or_default();
            let kind = text(&event["involvedObject"]["kind"]);
            (format!("{kind} {} {} {source}", text(&event["type"]), text(&event["reason"])), true)
        })
        .collect();
    Ok(json!(reasons))
}

/// Generated names and their replacements.
#[derive(Default)]
struct Names(Vec<(String, String)>);

impl Names {
    fn learn(&mut self, plural: &str, objects: &[Value]) {
        for object in objects {
            let meta = &object["metadata"];
            let name = meta["name"].as_str().unwrap_or_default().to_owned();
            match plural {
                "replicasets" => {
                    let Some(hash) = meta["labels"]["pod-template-hash"].as_str() else { continue };
                    let revision = meta["annotations"]["deployment.kubernetes.io/revision"].as_str();
                    self.0.push((hash.to_owned(), format!("HASH{}", revision.unwrap_or("?"))));
                }
                "controllerrevisions" => {
                    let Some(hash) = meta["labels"]["controller-revision-hash"].as_str() else { continue };
                    self.0.push((hash.to_owned(), format!("HASH{}", object["revision"])));
                }
                // The name ends in the minute that it was due.
                "jobs" => {
                    let Some((base, _)) = name.rsplit_once('-') else { continue };
                    let owner = &meta["ownerReferences"][0];
                    if owner["kind"] == "CronJob" && owner["name"] == base {
                        self.0.push((name.clone(), format!("{base}-MINUTE")));
                    }
                }
                // The volume is named after the claim's uid.
                "persistentvolumeclaims" => {
                    let volume = object["spec"]["volumeName"].as_str().unwrap_or_default();
                    if volume.starts_with("pvc-") {
                        self.0.push((volume.to_owned(), "pvc-UID".to_owned()));
                    }
                }
                "pods" | "endpointslices" => {
                    let Some(base) = meta["generateName"].as_str() else { continue };
                    if meta["ownerReferences"][0]["kind"] == "StatefulSet" {
                        continue;
                    }
                    self.0.push((name, format!("{}RANDOM", self.replace(base))));
                }
                _ => {}
            }
        }
    }

    fn replace(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // Longest first: the names of pods contain those of their sets.
        let mut names: Vec<&(String, String)> = self.0.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        for (name, shown) in names {
            text = text.replace(name.as_str(), shown);
        }
        let token = "kube-api-access-";
        match text.strip_prefix(token) {
            Some(_) => format!("{token}RANDOM"),
            None => text,
        }
    }

    fn plain(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.replace(&text)),
            Value::Array(items) => {
                let mut items: Vec<Value> = items.into_iter().map(|item| self.plain(item)).collect();
                // The order of conditions, endpoints and the like is the order in which things happened.
                if items.iter().all(|item| item.is_object()) {
                    items.sort_by_key(Value::to_string);
                }
                Value::Array(items)
            }
            Value::Object(fields) => {
                let kept = fields.into_iter().filter(|(key, _)| !DROPPED.contains(&key.as_str()));
                let shown = kept.map(|(key, value)| (self.replace(&key), self.plain(value)));
                // Whether there is an annotation that is not compared is not compared either.
                shown.filter(|(key, value)| !(key == "annotations" && *value == json!({}))).collect()
            }
            other => other,
        }
    }
}

/// Lists differences of two states, one line each, up to a limit.
pub fn differences(ours: &Value, theirs: &Value, path: &str, found: &mut Vec<String>) {
    match (ours, theirs) {
        (a, b) if a == b => {}
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let none = Value::Null;
                let (a, b) = (a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none));
                differences(a, b, &format!("{path}.{key}"), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{path}[{index}]"), found);
            }
        }
        (a, b) => found.push(format!("{path}: {a} and not {b}")),
    }
}
