//! Changes of kube-apiserver's built-in admission to an object, before webhooks see it.

use serde_json::{Value, json};

use crate::access::{at, copy, int, items, set, text};
use crate::facts::Facts;
use setpoint_api::kind::GroupResource;
use setpoint_api::status::Status;

/// The objects that admission may read.
pub trait Lookup {
    /// One object; the namespace is empty for kinds that live in none.
    fn get(&self, group: &str, kind: &str, namespace: &str, name: &str) -> Option<Value>;
    /// All objects of a kind.
    fn list(&self, group: &str, kind: &str) -> Vec<Value>;
}

/// Priority, default tolerations, default classes, protection finalizers.
pub fn admit(facts: &Facts, object: &mut Value, cluster: &dyn Lookup) -> Result<(), Status> {
    match facts.key() {
        ("", "Pod") => {
            priority(object, cluster)?;
            tolerate(object);
        }
        ("", "PersistentVolumeClaim") => {
            default_class(object, cluster, &STORAGE_CLASS);
            protect(object, "kubernetes.io/pvc-protection");
        }
        ("", "PersistentVolume") => protect(object, "kubernetes.io/pv-protection"),
        ("storage.k8s.io", "VolumeAttributesClass") => protect(object, "kubernetes.io/vac-protection"),
        ("", "Node") => taint(object),
        ("networking.k8s.io", "Ingress") => default_class(object, cluster, &INGRESS_CLASS),
        _ => {}
    }
    Ok(())
}

/// Applies admission's changes to a changed object, before [`super::update`].
pub fn admit_update(facts: &Facts, object: &mut Value, old: &Value) {
    if facts.key() == ("", "Pod") {
        for field in ["spec.priority", "spec.preemptionPolicy"] {
            if at(object, field).is_null() {
                copy(object, old, field);
            }
        }
        tolerate(object);
    }
}

/// The classes that every cluster has, though no object may stand for them.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

fn priority(pod: &mut Value, cluster: &dyn Lookup) -> Result<(), Status> {
    let refuse = |pod: &Value, why: &str| {
        Status::forbidden(&GroupResource::new("", "pods"), text(pod, "metadata.name"), why)
    };
    let name = text(pod, "spec.priorityClassName").to_owned();
    let class = if name.is_empty() {
        let classes = cluster.list("scheduling.k8s.io", "PriorityClass");
        let defaults = classes.into_iter().filter(|class| at(class, "globalDefault") == true);
        defaults.min_by_key(|class| int(class, "value").unwrap_or_default())
    } else {
        let known = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name);
        let known = known.map(|(name, value)| {
            json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"})
        });
        let class = known.or_else(|| cluster.get("scheduling.k8s.io", "PriorityClass", "", &name));
        Some(class.ok_or_else(|| refuse(pod, &format!("no PriorityClass with name {name} was found")))?)
    };
    let value = class.as_ref().and_then(|class| int(class, "value")).unwrap_or_default();
    let policy = class.as_ref().map_or("PreemptLowerPriority", |class| text(class, "preemptionPolicy"));
    let policy = if policy.is_empty() { "PreemptLowerPriority" } else { policy };
    if int(pod, "spec.priority").is_some_and(|given| given != value) {
        let why = "the integer value of priority (%) must not be provided in pod spec; priority admission controller computed % from the given PriorityClass name";
        let given = int(pod, "spec.priority").unwrap_or_default();
        let why = why.replacen('%', &given.to_string(), 1).replacen('%', &value.to_string(), 1);
        return Err(refuse(pod, &why));
    }
    if text(pod, "spec.preemptionPolicy") != policy && !text(pod, "spec.preemptionPolicy").is_empty() {
        let given = text(pod, "spec.preemptionPolicy");
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(refuse(pod, &why));
    }
    if let Some(class) = &class
        && name.is_empty()
    {
        set(pod, "spec.priorityClassName", text(class, "metadata.name").into());
    }
    set(pod, "spec.priority", value.into());
    set(pod, "spec.preemptionPolicy", policy.into());
    Ok(())
}

/// A pod stays five minutes on a node that is not ready, unless it says otherwise.
fn tolerate(pod: &mut Value) {
    let mut tolerations: Vec<Value> = items(pod, "spec.tolerations").to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let known = items(pod, "spec.tolerations").iter().any(|one| {
            let same_key = text(one, "key") == key || text(one, "key").is_empty();
            let same_effect = matches!(text(one, "effect"), "NoExecute" | "");
            same_key && same_effect
        });
        if !known {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
    if !tolerations.is_empty() {
        set(pod, "spec.tolerations", Value::Array(tolerations));
    }
}

/// Nothing is scheduled on a node before it says that it is ready.
fn taint(node: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    let mut taints = items(node, "spec.taints").to_vec();
    if !taints.iter().any(|one| text(one, "key") == KEY && text(one, "effect") == "NoSchedule") {
        taints.push(json!({"key": KEY, "effect": "NoSchedule"}));
        set(node, "spec.taints", Value::Array(taints));
    }
}

fn protect(object: &mut Value, finalizer: &str) {
    let mut finalizers = items(object, "metadata.finalizers").to_vec();
    if !finalizers.iter().any(|one| one == finalizer) {
        finalizers.push(finalizer.into());
        set(object, "metadata.finalizers", Value::Array(finalizers));
    }
}

struct Class {
    group: &'static str,
    kind: &'static str,
    field: &'static str,
    old_annotation: &'static str,
    default_annotations: &'static [&'static str],
}

const STORAGE_CLASS: Class = Class {
    group: "storage.k8s.io",
    kind: "StorageClass",
    field: "spec.storageClassName",
    old_annotation: "volume.beta.kubernetes.io/storage-class",
    default_annotations: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
};

const INGRESS_CLASS: Class = Class {
    group: "networking.k8s.io",
    kind: "IngressClass",
    field: "spec.ingressClassName",
    old_annotation: "kubernetes.io/ingress.class",
    default_annotations: &["ingressclass.kubernetes.io/is-default-class"],
};

/// The newest default class; of equally old ones the first by name.
fn default_class(object: &mut Value, cluster: &dyn Lookup, class: &Class) {
    let annotated =
        !at(object, "metadata.annotations").get(class.old_annotation).unwrap_or(&Value::Null).is_null();
    if annotated || !at(object, class.field).is_null() {
        return;
    }
    let classes = cluster.list(class.group, class.kind);
    let marked = classes.iter().filter(|one| {
        let annotations = at(one, "metadata.annotations");
        let is_marked = |name: &&str| annotations.get(*name).and_then(Value::as_str) == Some("true");
        class.default_annotations.iter().any(is_marked)
    });
    let newest = marked.min_by(|a, b| {
        let time = |one: &Value| text(one, "metadata.creationTimestamp").to_owned();
        time(b).cmp(&time(a)).then_with(|| text(a, "metadata.name").cmp(text(b, "metadata.name")))
    });
    if let Some(newest) = newest {
        set(object, class.field, text(newest, "metadata.name").into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster with these classes.
    struct Classes(Vec<Value>);

    impl Lookup for Classes {
        fn get(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Value> {
            None
        }

        fn list(&self, _: &str, _: &str) -> Vec<Value> {
            self.0.clone()
        }
    }

    #[test]
    fn a_claim_without_a_class_gets_the_newest_default() {
        let class = |name: &str, annotation: &str, created: &str| json!({ "metadata": { "name": name, "creationTimestamp": created, "annotations": { annotation: "true" } } });
        let [marked, marked_before] = STORAGE_CLASS.default_annotations else { panic!("two annotations") };
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        for (classes, claim, expected) in [
            (vec![class("a", "other", new)], json!({}), Value::Null),
            (vec![class("a", marked, old), class("b", marked_before, new)], json!({}), json!("b")),
            (vec![class("b", marked, new), class("a", marked, new)], json!({}), json!("a")),
            (vec![class("a", marked, new)], json!({ "spec": { "storageClassName": "" } }), json!("")),
            (
                vec![class("a", marked, new)],
                json!({ "metadata": { "annotations": { STORAGE_CLASS.old_annotation: "x" } } }),
                Value::Null,
            ),
        ] {
            let mut claim = claim;
            default_class(&mut claim, &Classes(classes), &STORAGE_CLASS);
            assert_eq!(claim["spec"]["storageClassName"], expected, "{claim}");
        }
    }
}
