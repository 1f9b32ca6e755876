//! Pods and templates of pods.

use serde_json::Value;

use crate::access::{at, items, text};
use setpoint_api::cause::Path;
use setpoint_api::go_format::quote;
use setpoint_api::quantity::Quantity;

/// Volumes that nobody mounts any more, and since when.
const OLD_VOLUMES: [(&str, &str); 8] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Labels of nodes that have newer names.
const OLD_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
];

/// Warnings about a pod or a template that stands at `path`.
pub(super) fn warnings(path: &Path, pod: &Value) -> Vec<String> {
    let (spec, at_spec) = (at(pod, "spec"), path.child("spec"));
    let mut warnings = Vec::new();
    let mut warn = |path: &Path, words: &str| warnings.push(format!("{path}: {words}"));
    for (label, words) in OLD_LABELS {
        if at(spec, "nodeSelector").get(label).is_some() {
            warn(&at_spec.child("nodeSelector").key(label), words);
        }
    }
    for (index, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = at_spec.child("topologySpreadConstraints").index(index);
        let key = text(constraint, "topologyKey");
        if let Some((_, words)) = OLD_LABELS.iter().find(|(label, _)| *label == key) {
            warn(&path.child("topologyKey"), &format!("{key} is {words}"));
        }
        if at(constraint, "labelSelector").is_null() {
            warn(&path.child("labelSelector"), "a null labelSelector results in matching no pod");
        }
    }
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        for (name, words) in OLD_VOLUMES.iter().filter(|(name, _)| !at(volume, name).is_null()) {
            let name = if *name == "storageos" { "storageOS" } else { name };
            warn(&at_spec.child("volumes").index(index).child(name), words);
        }
    }
    doubled(spec, &at_spec, "hostAliases", "ip", &mut warn);
    doubled(spec, &at_spec, "imagePullSecrets", "name", &mut warn);
    for (index, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            warn(&at_spec.child("imagePullSecrets").index(index).child("name"), "invalid empty name \"\"");
        }
    }
    let containers = containers(spec, &at_spec);
    fractions(at(spec, "overhead"), &at_spec.child("overhead"), &mut warn);
    profiles(path, pod, &containers, &mut warn);
    containers.iter().for_each(|(path, container)| environment(container, path, &mut warn));
    ports(&containers, &mut warn);
    if at(spec, "terminationGracePeriodSeconds").as_i64().is_some_and(|seconds| seconds < 0) {
        let words = "must be >= 0; negative values are invalid and will be treated as 1";
        warn(&at_spec.child("terminationGracePeriodSeconds"), words);
    }
    warnings
}

fn containers<'v>(spec: &'v Value, path: &Path) -> Vec<(Path, &'v Value)> {
    let of = |field: &'static str| {
        let path = path.child(field);
        items(spec, field).iter().enumerate().map(move |(at, container)| (path.index(at), container))
    };
    of("initContainers").chain(of("containers")).chain(of("ephemeralContainers")).collect()
}

/// Amounts of bytes that are no whole number.
fn fractions(amounts: &Value, path: &Path, warn: &mut dyn FnMut(&Path, &str)) {
    for resource in ["memory", "ephemeral-storage"] {
        fraction(amounts, path, resource, warn);
    }
}

fn fraction(amounts: &Value, path: &Path, resource: &str, warn: &mut dyn FnMut(&Path, &str)) {
    let Some(Ok(amount)) = amounts.get(resource).map(Quantity::from_json) else { return };
    if amount.milli_value() % 1000 != 0 {
        let shown = quote(&amount.to_string());
        warn(&path.key(resource), &format!("fractional byte value {shown} is invalid, must be an integer"));
    }
}

const POD_SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Annotations that fields have replaced, and fractions of bytes, container by container.
fn profiles(path: &Path, pod: &Value, containers: &[(Path, &Value)], warn: &mut dyn FnMut(&Path, &str)) {
    let annotations = at(pod, "metadata.annotations");
    let at_annotations = path.child("metadata").child("annotations");
    let old_seccomp = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    if at(pod, "spec.securityContext.seccompProfile").is_null() && annotations.get(POD_SECCOMP).is_some() {
        warn(&at_annotations.key(POD_SECCOMP), old_seccomp);
    }
    for (path, container) in containers {
        let key = format!("{SECCOMP}{}", text(container, "name"));
        if at(container, "securityContext.seccompProfile").is_null() && annotations.get(&key).is_some() {
            warn(&at_annotations.key(&key), old_seccomp);
        }
        let key = format!("{APP_ARMOR}{}", text(container, "name"));
        let named = annotations.get(&key).and_then(Value::as_str);
        if at(container, "securityContext.appArmorProfile").is_null()
            && named.is_some_and(|named| !is_profile(at(pod, "spec.securityContext.appArmorProfile"), named))
        {
            let words = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
            warn(&at_annotations.key(&key), words);
        }
        for resource in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                let path = path.child("resources").child(list);
                fraction(at(container, &format!("resources.{list}")), &path, resource, warn);
            }
        }
    }
}

/// Whether an annotation says what the field of the pod says already.
fn is_profile(field: &Value, annotation: &str) -> bool {
    match text(field, "type") {
        "RuntimeDefault" => annotation == "runtime/default",
        "Unconfined" => annotation == "unconfined",
        "Localhost" => annotation.strip_prefix("localhost/") == Some(text(field, "localhostProfile")),
        _ => false,
    }
}

fn doubled(spec: &Value, path: &Path, list: &str, key: &str, warn: &mut dyn FnMut(&Path, &str)) {
    let all = items(spec, list);
    for (index, item) in all.iter().enumerate() {
        let value = text(item, key);
        if all[..index].iter().any(|earlier| text(earlier, key) == value) {
            let words = format!("duplicate {key} {}", quote(value));
            warn(&path.child(list).index(index).child(key), &words);
        }
    }
}

/// A variable that is set again, unless the second value builds on the first.
fn environment(container: &Value, path: &Path, warn: &mut dyn FnMut(&Path, &str)) {
    let all = items(container, "env");
    for (index, variable) in all.iter().enumerate() {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        if !all[..index].iter().any(|earlier| text(earlier, "name") == name) {
            continue;
        }
        let earlier = format!("$({name})");
        if !at(variable, "valueFrom").is_null() || value == earlier || !value.contains(&earlier) {
            let words = format!(
                "hides previous definition of {}, which may be dropped when using apply",
                quote(name)
            );
            warn(&path.child("env").index(index), &words);
        }
    }
}

fn ports(containers: &[(Path, &Value)], warn: &mut dyn FnMut(&Path, &str)) {
    let mut seen: Vec<(Path, &Value)> = Vec::new();
    let number = |port: &Value, field: &str| at(port, field).as_i64().unwrap_or(0);
    for (path, container) in containers {
        for (index, port) in items(container, "ports").iter().enumerate() {
            let path = path.child("ports").index(index);
            for (other_path, other) in &seen {
                let same = number(port, "containerPort") == number(other, "containerPort")
                    && text(port, "protocol") == text(other, "protocol");
                let (host, other_host) = (number(port, "hostPort"), number(other, "hostPort"));
                let (ip, other_ip) = (text(port, "hostIP"), text(other, "hostIP"));
                let how = match same {
                    false => continue,
                    true if ip == other_ip && host == other_host => "duplicate",
                    true if host == 0 || other_host == 0 => "overlapping",
                    true if host == other_host && ip.is_empty() != other_ip.is_empty() => {
                        "dangerously ambiguous"
                    }
                    true => continue,
                };
                warn(&path, &format!("{how} port definition with {other_path}"));
            }
            seen.push((path, port));
        }
    }
    let mut named: Vec<(&str, &Path)> = Vec::new();
    for (path, port) in &seen {
        let name = text(port, "name");
        match named.iter().find(|(other, _)| *other == name && !name.is_empty()) {
            Some((_, other)) => {
                let words = format!(
                    "duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                    quote(name)
                );
                warn(path, &words);
            }
            None => named.push((name, path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn old_annotations_and_fractions_of_bytes_are_told() {
        let template = json!({
            "metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "runtime/default",
                "container.apparmor.security.beta.kubernetes.io/c": "runtime/default",
                "container.apparmor.security.beta.kubernetes.io/d": "localhost/x"}},
            "spec": {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}},
                "containers": [{"name": "c", "resources": {"requests": {"memory": "1.5", "cpu": "100m"}}},
                    {"name": "d", "resources": {"limits": {"ephemeral-storage": "1m", "memory": "1Gi"}}}]}});
        let expected = [
            "t.metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \
             \"seccompProfile\" field instead",
            "t.metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the \
             \"appArmorProfile\" field instead",
            "t.spec.containers[0].resources.requests[memory]: fractional byte value \"1500m\" is invalid, must be an \
             integer",
            "t.spec.containers[1].resources.limits[ephemeral-storage]: fractional byte value \"1m\" is invalid, must be \
             an integer",
        ];
        assert_eq!(warnings(&Path::new("t"), &template), expected);
    }

    #[test]
    fn what_is_set_twice_is_told() {
        let pod = json!({"spec": {"containers": [
            {"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "A", "value": "$(A)3"}],
             "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP", "hostPort": 8}]}]}});
        let found = warnings(&Path::default(), &pod);
        let expected = [
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
            "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
        ];
        assert_eq!(found, expected);
    }
}
