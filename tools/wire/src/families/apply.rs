//! Two versions of a part of an object (`one`, `two`) and every way in which appliers can meet over it.

use serde_json::{Value, json};

use super::objects::{Kind, config_map, deployment, install, overlay, pod, service, widget};
use crate::scenario::{Scenario, Step};

const GROUP: &str = "apply.wire";

/// A part of an object in two versions.
struct Part {
    name: &'static str,
    kind: Kind,
    one: Value,
    two: Value,
}

pub fn scenarios() -> Vec<Scenario> {
    let mut all = vec![install(GROUP)];
    for part in parts() {
        let meetings: [(&str, Vec<Step>); 5] = [
            ("shared", shared(&part)),
            ("conflict", conflict(&part)),
            ("again", again(&part)),
            ("edited", edited(&part)),
            ("created", created(&part)),
        ];
        for (meeting, steps) in meetings {
            all.push(Scenario { name: format!("apply-{}-{meeting}", part.name), steps });
        }
    }
    all
}

fn parts() -> Vec<Part> {
    let part = |name, kind: Kind, one: Value, two: Value| Part { name, kind, one, two };
    let mut all = vec![
        part("data", config_map(), json!({"data": {"k": "1", "l": "1"}}), json!({"data": {"k": "2"}})),
        part("labels", config_map(), labels(json!({"x": "1", "y": "1"})), labels(json!({"x": "2"}))),
        part(
            "finalizers",
            config_map(),
            finalizers(&["e.com/a", "e.com/b"]),
            finalizers(&["e.com/b", "e.com/c"]),
        ),
        part("owners", config_map(), owner("1", "o"), owner("1", "p")),
        part("replicas", deployment(), json!({"spec": {"replicas": 2}}), json!({"spec": {"replicas": 3}})),
        part(
            "strategy",
            deployment(),
            json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}),
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 2}}}}),
        ),
    ];
    all.extend(container_parts());
    all.extend(template_parts());
    all.extend(service_parts());
    all.extend(widget_parts());
    all
}

fn labels(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}})
}

fn finalizers(names: &[&str]) -> Value {
    json!({"metadata": {"finalizers": names}})
}

fn owner(uid: &str, name: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}]}})
}

fn container(fields: Value) -> Value {
    let container = overlay(&json!({"name": "c"}), &fields);
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

fn template(fields: Value) -> Value {
    json!({"spec": {"template": {"spec": fields}}})
}

/// Parts of a container: scalars, keyed lists with and without default keys, atomic lists, quantities.
fn container_parts() -> Vec<Part> {
    let part = |name, one: Value, two: Value| Part {
        name,
        kind: deployment(),
        one: container(one),
        two: container(two),
    };
    vec![
        part("image", json!({"image": "nginx:2"}), json!({"image": "nginx:3"})),
        part(
            "env",
            json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]}),
            json!({"env": [{"name": "B", "value": "2"}, {"name": "C", "value": "2"}]}),
        ),
        part(
            "env-source",
            json!({"env": [{"name": "A", "value": "1"}]}),
            json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
        ),
        part(
            "ports",
            json!({"ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]}),
            json!({"ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}]}),
        ),
        part("args", json!({"args": ["a", "b"]}), json!({"args": ["b"]})),
        part(
            "resources",
            json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}),
            json!({"resources": {"limits": {"cpu": "1000m", "memory": "2Gi"}, "requests": {"cpu": "0.5"}}}),
        ),
        part(
            "mounts",
            json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}),
            json!({"volumeMounts": [{"name": "v", "mountPath": "/a", "readOnly": true}]}),
        ),
        part(
            "probe",
            json!({"livenessProbe": {"httpGet": {"port": 80, "path": "/a"}}}),
            json!({"livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 3}}),
        ),
    ]
}

/// Parts of a pod template: granular and atomic maps, keyed lists, unions, several keys.
fn template_parts() -> Vec<Part> {
    let part = |name, one: Value, two: Value| Part {
        name,
        kind: deployment(),
        one: template(one),
        two: template(two),
    };
    let spread = |skew: u32, key: &str| {
        json!({"topologySpreadConstraints": [{"maxSkew": skew, "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}}]})
    };
    vec![
        part("node-selector", json!({"nodeSelector": {"x": "1"}}), json!({"nodeSelector": {"y": "2"}})),
        part(
            "tolerations",
            json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
            json!({"tolerations": [{"key": "b", "operator": "Exists"}]}),
        ),
        part("spread", spread(1, "zone"), spread(2, "zone")),
        part(
            "volumes",
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "configMap": {"name": "m"}}, {"name": "w", "emptyDir": {}}]}),
        ),
        part(
            "sidecar",
            json!({"containers": [{"name": "side", "image": "s:1"}]}),
            json!({"containers": [{"name": "side", "image": "s:2"}], "initContainers": [{"name": "i", "image": "i"}]}),
        ),
        part(
            "grace",
            json!({"terminationGracePeriodSeconds": 5}),
            json!({"terminationGracePeriodSeconds": 6}),
        ),
        part(
            "pull-secrets",
            json!({"imagePullSecrets": [{"name": "a"}]}),
            json!({"imagePullSecrets": [{"name": "b"}]}),
        ),
        part(
            "aliases",
            json!({"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}]}),
            json!({"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["b"]}]}),
        ),
    ]
}

fn service_parts() -> Vec<Part> {
    let part = |name, one: Value, two: Value| Part {
        name,
        kind: service(),
        one: json!({"spec": one}),
        two: json!({"spec": two}),
    };
    vec![
        part("selector", json!({"selector": {"a": "b", "x": "1"}}), json!({"selector": {"x": "2"}})),
        part(
            "service-ports",
            json!({"ports": [{"name": "web", "port": 80, "targetPort": 8080}]}),
            json!({"ports": [{"name": "web", "port": 80, "protocol": "TCP", "targetPort": "http"},
                {"name": "dns", "port": 53, "protocol": "UDP"}]}),
        ),
        part("session", json!({"sessionAffinity": "ClientIP"}), json!({"sessionAffinity": "None"})),
        Part {
            name: "pod-labels",
            kind: pod(),
            one: labels(json!({"x": "1"})),
            two: labels(json!({"x": "2", "y": "1"})),
        },
    ]
}

/// Parts of our own kind: sets, keyed lists with a default in the key, atomics, untyped parts.
fn widget_parts() -> Vec<Part> {
    let part = |name, one: Value, two: Value| Part {
        name,
        kind: widget(GROUP),
        one: json!({"spec": one}),
        two: json!({"spec": two}),
    };
    vec![
        part("w-set", json!({"tags": ["a", "b"]}), json!({"tags": ["b", "c"]})),
        part(
            "w-keyed",
            json!({"ports": [{"port": 1, "name": "x"}, {"port": 2, "protocol": "UDP"}]}),
            json!({"ports": [{"port": 1, "protocol": "TCP", "name": "y"}, {"port": 3}]}),
        ),
        part("w-atomic", json!({"args": ["a", "b"]}), json!({"args": ["a"]})),
        part("w-plain", json!({"plain": [{"x": 1}]}), json!({"plain": [{"x": 1}, {"x": 2}]})),
        part("w-atomic-map", json!({"sel": {"a": "1"}}), json!({"sel": {"b": "1"}})),
        part("w-map", json!({"labels": {"a": "1", "b": "1"}}), json!({"labels": {"b": "2"}})),
        part("w-nested", json!({"nested": {"a": {"b": "x"}}}), json!({"nested": {"a": {"c": 4}}})),
        part("w-either", json!({"size": 1}), json!({"size": "1"})),
        part(
            "w-free",
            json!({"free": {"a": {"b": 1}, "l": [1, 2]}}),
            json!({"free": {"a": {"c": 1}, "l": [2]}}),
        ),
        part("w-null", json!({"maybe": null}), json!({"maybe": "x"})),
        part("w-default", json!({"replicas": 1, "mode": "A"}), json!({"replicas": 2, "mode": "B"})),
    ]
}

fn create(part: &Part) -> Step {
    Step::with(format!("POST {}?fieldManager=creator", part.kind.path), part.kind.least("o"))
}

fn apply(part: &Part, manager: &str, force: bool, fields: &Value) -> Step {
    Step::apply(format!("{}/o", part.kind.path), manager, force, part.kind.object("o", fields))
}

/// Two managers own the same field. A field that one of them stops applying stays until the other stops too.
fn shared(part: &Part) -> Vec<Step> {
    let nothing = json!({});
    vec![
        create(part),
        apply(part, "m1", false, &part.one),
        apply(part, "m2", false, &part.one),
        apply(part, "m1", false, &nothing),
        apply(part, "m2", false, &nothing),
    ]
}

/// Two want different things.
fn conflict(part: &Part) -> Vec<Step> {
    vec![
        create(part),
        apply(part, "m1", true, &part.one),
        apply(part, "m2", false, &part.two),
        apply(part, "m2", true, &part.two),
        apply(part, "m1", false, &part.one),
        apply(part, "m1", false, &json!({})),
    ]
}

/// One changes its mind, and repeats itself.
fn again(part: &Part) -> Vec<Step> {
    vec![
        create(part),
        apply(part, "m1", true, &part.one),
        apply(part, "m1", true, &part.two),
        apply(part, "m1", false, &part.two),
        Step::patch(
            format!("{}/o?fieldManager=m1&force=true&dryRun=All", part.kind.path),
            "apply",
            part.kind.object("o", &part.one),
        ),
    ]
}

/// Another client edits an applied field.
fn edited(part: &Part) -> Vec<Step> {
    let kind = if part.kind.built_in { "strategic" } else { "merge" };
    let path = format!("{}/o", part.kind.path);
    vec![
        create(part),
        apply(part, "m1", true, &part.one),
        Step::patch(format!("{path}?fieldManager=editor"), kind, part.two.clone()),
        apply(part, "m1", false, &part.one),
        apply(part, "m1", true, &part.one),
        Step::new(format!("GET {path}")),
    ]
}

/// Apply creates the object, a second manager joins, the first gives up its fields.
fn created(part: &Part) -> Vec<Step> {
    vec![
        apply(part, "m1", false, &overlay(&part.kind.base, &part.one)),
        apply(part, "m2", true, &part.two),
        apply(part, "m1", true, &part.kind.base),
        apply(part, "m2", false, &json!({})),
        Step::new(format!("GET {}/o", part.kind.path)),
    ]
}
