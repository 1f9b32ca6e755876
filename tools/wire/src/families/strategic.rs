//! Strategic merges of rich objects, each patch on an object of its own.

use serde_json::{Value, json};

use super::objects::{config_map, deployment, overlay, service};
use crate::scenario::{Scenario, Step};

/// Every patch goes to a fresh object, then again: the second changes nothing.
pub fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (name, patch) in container_patches().into_iter().chain(template_patches()).chain(list_patches()) {
        all.push(scenario(&name, &deployment().path, rich_deployment(), patch));
    }
    for (name, patch) in service_patches() {
        all.push(scenario(&name, &service().path, rich_service(), patch));
    }
    for (name, patch) in map_patches() {
        all.push(scenario(&name, &config_map().path, rich_map(), patch));
    }
    all
}

fn scenario(name: &str, path: &str, object: Value, patch: Value) -> Scenario {
    let change = Step::patch(format!("{path}/o"), "strategic", patch);
    let steps = vec![Step::with(format!("POST {path}"), object), change.clone(), change];
    Scenario { name: format!("smp-{name}"), steps }
}

fn rich_deployment() -> Value {
    let container = json!({"name": "c", "image": "nginx:1", "args": ["a", "b"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}],
        "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}],
        "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}],
        "resources": {"limits": {"cpu": "1"}}});
    let spec = json!({"containers": [container, {"name": "side", "image": "side:1"}],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "m"}}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "s1"}, {"name": "s2"}],
        "nodeSelector": {"x": "1", "y": "2"}});
    let object = overlay(
        &deployment().least("o"),
        &json!({"spec": {"replicas": 2, "template": {"spec": {}}},
        "metadata": {"labels": {"l": "1", "m": "2"}, "finalizers": ["e.com/a", "e.com/b"]}}),
    );
    let mut object = object;
    object["spec"]["template"]["spec"] = spec;
    object
}

fn rich_service() -> Value {
    overlay(
        &service().least("o"),
        &json!({"spec": {"ports": [
        {"name": "tls", "port": 443}, {"name": "dns", "port": 53, "protocol": "UDP"}]}}),
    )
}

fn rich_map() -> Value {
    overlay(
        &config_map().least("o"),
        &json!({"data": {"a": "1", "b": "2"},
        "metadata": {"labels": {"l": "1"}, "annotations": {"n": "1"}}}),
    )
}

fn named(prefix: &str, patches: Vec<Value>, wrap: fn(Value) -> Value) -> Vec<(String, Value)> {
    let number = |(at, patch): (usize, Value)| (format!("{prefix}-{:02}", at + 1), wrap(patch));
    patches.into_iter().enumerate().map(number).collect()
}

/// Within the container `c`.
fn container_patches() -> Vec<(String, Value)> {
    let patches = vec![
        json!({"image": "nginx:2"}),
        json!({"env": [{"name": "B", "value": "9"}]}),
        json!({"env": [{"name": "D", "value": "4"}]}),
        json!({"env": [{"name": "B", "$patch": "delete"}]}),
        json!({"env": [{"name": "absent", "$patch": "delete"}]}),
        json!({"env": [{"$patch": "replace"}, {"name": "Z", "value": "z"}]}),
        json!({"env": null}),
        json!({"env": []}),
        json!({"env": [{"name": "A", "value": null, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
        json!({"$setElementOrder/env": [{"name": "C"}, {"name": "A"}, {"name": "B"}]}),
        json!({"$setElementOrder/env": [{"name": "D"}, {"name": "A"}], "env": [{"name": "D", "value": "4"}]}),
        json!({"$setElementOrder/env": [{"name": "A"}], "env": [{"name": "D", "value": "4"}]}),
        json!({"args": ["x"]}),
        json!({"args": null}),
        json!({"ports": [{"containerPort": 80, "name": "http"}]}),
        json!({"ports": [{"containerPort": 81}]}),
        json!({"ports": [{"containerPort": 53, "$patch": "delete"}]}),
        json!({"ports": [{"name": "nokey"}]}),
        json!({"volumeMounts": [{"mountPath": "/a", "name": "w"}]}),
        json!({"volumeMounts": [{"mountPath": "/b", "$patch": "delete"}]}),
        json!({"resources": {"limits": {"memory": "1Gi"}}}),
        json!({"resources": {"limits": {"cpu": null}}}),
        json!({"resources": {"$patch": "replace", "requests": {"cpu": "1m"}}}),
        json!({"resources": {"$patch": "delete"}}),
        json!({"livenessProbe": {"httpGet": {"port": 80}}}),
        json!({"lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}),
        json!({"$patch": "delete"}),
        json!({"$patch": "replace", "image": "only:1"}),
        json!({"$patch": "frob", "image": "only:1"}),
        json!({"image": 5}),
    ];
    named(
        "container",
        patches,
        |patch| json!({"spec": {"template": {"spec": {"containers": [overlay(&json!({"name": "c"}), &patch)]}}}}),
    )
}

/// Within the pod template's spec.
fn template_patches() -> Vec<(String, Value)> {
    let patches = vec![
        json!({"containers": [{"name": "third", "image": "t:1"}]}),
        json!({"containers": [{"name": "side", "$patch": "delete"}]}),
        json!({"containers": [{"$patch": "replace"}, {"name": "only", "image": "o:1"}]}),
        json!({"containers": [{"image": "noname"}]}),
        json!({"containers": "nonsense"}),
        json!({"$setElementOrder/containers": [{"name": "side"}, {"name": "c"}]}),
        json!({"$setElementOrder/containers": [{"name": "side"}, {"name": "c"}],
            "containers": [{"name": "side", "image": "side:2"}]}),
        json!({"volumes": [{"name": "w", "configMap": null, "emptyDir": {}}]}),
        json!({"volumes": [{"name": "w", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]}),
        json!({"volumes": [{"name": "w", "$retainKeys": ["name"], "emptyDir": {}}]}),
        json!({"volumes": [{"name": "w", "emptyDir": {}}]}),
        json!({"volumes": [{"name": "u", "hostPath": {"path": "/u"}}]}),
        json!({"tolerations": [{"key": "b", "operator": "Exists"}]}),
        json!({"imagePullSecrets": [{"name": "s3"}]}),
        json!({"imagePullSecrets": [{"name": "s1", "$patch": "delete"}]}),
        json!({"nodeSelector": {"x": null, "z": "3"}}),
        json!({"nodeSelector": {"$patch": "replace", "only": "1"}}),
        json!({"nodeSelector": null}),
        json!({"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["h"]}]}),
        json!({"affinity": {"nodeAffinity": {}}}),
        json!({"unknownField": 1}),
    ];
    named("template", patches, |patch| json!({"spec": {"template": {"spec": patch}}}))
}

/// At the top: metadata, primitive lists, the strategy's retained keys.
fn list_patches() -> Vec<(String, Value)> {
    let patches = vec![
        json!({"metadata": {"finalizers": ["e.com/c"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["e.com/a"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["e.com/z"]}}),
        json!({"metadata": {"$setElementOrder/finalizers": ["e.com/b", "e.com/a"]}}),
        json!({"metadata": {"$setElementOrder/finalizers": ["e.com/b", "e.com/c", "e.com/a"], "finalizers": ["e.com/c"]}}),
        json!({"metadata": {"finalizers": [{"$patch": "replace"}]}}),
        json!({"metadata": {"labels": {"l": null, "n": "3"}}}),
        json!({"metadata": {"labels": {"$patch": "replace", "n": "3"}}}),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        json!({"spec": {"strategy": {"type": "Recreate"}}}),
        json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": "50%"}}}}),
        json!({"spec": {"replicas": null}}),
        json!({"spec": {"replicas": 5, "paused": true}}),
        json!({"spec": {"selector": {"matchLabels": {"q": "1"}}}}),
        json!({"$patch": "replace"}),
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}}),
        json!({}),
    ];
    named("top", patches, |patch| patch)
}

fn service_patches() -> Vec<(String, Value)> {
    let patches = vec![
        json!({"ports": [{"port": 80, "targetPort": 8080}]}),
        json!({"ports": [{"port": 443, "$patch": "delete"}]}),
        json!({"ports": [{"port": 8443, "name": "more"}]}),
        json!({"ports": [{"$patch": "replace"}, {"port": 1, "name": "one"}]}),
        json!({"$setElementOrder/ports": [{"port": 53}, {"port": 80}, {"port": 443}]}),
        json!({"selector": {"b": "c"}}),
        json!({"selector": null}),
        json!({"type": "NodePort"}),
        json!({"externalIPs": ["1.2.3.4"]}),
        json!({"sessionAffinity": "ClientIP"}),
    ];
    named("service", patches, |patch| json!({"spec": patch}))
}

fn map_patches() -> Vec<(String, Value)> {
    let patches = vec![
        json!({"data": {"a": "9"}}),
        json!({"data": {"a": null}}),
        json!({"data": null}),
        json!({"data": {"$patch": "replace", "z": "1"}}),
        json!({"data": {"$patch": "delete"}}),
        json!({"metadata": {"annotations": {"n": null}}}),
        json!({"metadata": {"annotations": null, "labels": null}}),
        json!({"immutable": true}),
        json!({"data": {"a": 1}}),
        json!([1]),
    ];
    named("map", patches, |patch| patch)
}
