//! Small parts of objects that the fuzzer puts together: valid ones and wrong ones.

use serde_json::{Value, json};

/// (valid, wrong) parts of a kind.
pub fn of(kind: &str) -> (Vec<Value>, Vec<Value>) {
    let (mut valid, mut wrong) = match kind {
        "Deployment" => deployment(),
        "Service" => service(),
        "Pod" => pod(),
        _ => config_map(),
    };
    let (more, worse) = metadata();
    valid.extend(more);
    wrong.extend(worse);
    (valid, wrong)
}

/// Parts of any object's metadata.
pub fn metadata() -> (Vec<Value>, Vec<Value>) {
    let valid = vec![
        json!({"metadata": {"labels": {"a": "1"}}}),
        json!({"metadata": {"labels": {"a": "2", "b": "1"}}}),
        json!({"metadata": {"annotations": {"n": "1"}}}),
        json!({"metadata": {"finalizers": ["e.com/a"]}}),
        json!({"metadata": {"finalizers": ["e.com/b", "e.com/a"]}}),
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1"}]}}),
        json!({"metadata": {"labels": {}, "annotations": {"n": "2", "m": ""}}}),
    ];
    let wrong = vec![
        json!({"metadata": {"labels": {"bad key!": "1"}}}),
        json!({"metadata": {"labels": {"a": "no good!"}}}),
        json!({"metadata": {"finalizers": ["nodomain"]}}),
        json!({"metadata": {"namespace": "elsewhere"}}),
        json!({"unknownAtTop": 1}),
        json!({"metadata": {"unknownInMeta": 1}}),
        json!({"metadata": {"labels": {"a": 5}}}),
        json!({"metadata": {"annotations": {"bad key!": "1"}}}),
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}}),
        json!({"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1", "controller": true},
            {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "u2", "controller": true}]}}),
    ];
    (valid, wrong)
}

/// Status writes of a kind's controllers.
pub fn status(kind: &str) -> Vec<Value> {
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let status = |parts: Vec<Value>| parts.into_iter().map(|part| json!({"status": part})).collect();
    match kind {
        "Deployment" => status(vec![
            json!({"replicas": 2, "readyReplicas": 1, "observedGeneration": 1}),
            json!({"replicas": 1, "readyReplicas": 2}),
            json!({"conditions": [condition("Available", "True")]}),
            json!({"conditions": [condition("Progressing", "False"), condition("Available", "False")]}),
        ]),
        "Pod" => status(vec![
            json!({"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]}),
            json!({"conditions": [condition("Ready", "True")]}),
            json!({"conditions": [condition("Ready", "False"), condition("Mine", "True")]}),
            json!({"phase": "Nonsense"}),
            json!({"containerStatuses": [{"name": "c", "image": "nginx:1", "imageID": "", "ready": true,
                "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}),
        ]),
        "Service" => status(vec![
            json!({"loadBalancer": {"ingress": [{"ip": "9.9.9.9"}]}}),
            json!({"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}),
            json!({"loadBalancer": {"ingress": [{"ip": "nine"}]}}),
            json!({"conditions": [condition("Mine", "True")]}),
        ]),
        "Rich" => super::rich::parts()
            .0
            .into_iter()
            .filter(|part| part.get("status").is_some())
            .chain([
                json!({"status": {"phase": "Sold"}}),
                json!({"status": {"phase": 5}}),
                json!({"status": {"unknown": 5, "conditions": [{"status": "x"}]}}),
            ])
            .collect(),
        _ => Vec::new(),
    }
}

fn container(fields: Value) -> Value {
    super::objects::overlay(&json!({"name": "c"}), &fields)
}

/// Parts of a pod's spec, for pods and templates.
fn pod_specs() -> (Vec<Value>, Vec<Value>) {
    let valid = vec![
        json!({"containers": [container(json!({"image": "nginx:2"}))]}),
        json!({"containers": [container(json!({"env": [{"name": "A", "value": "1"}]}))]}),
        json!({"containers": [container(json!({"env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]}))]}),
        json!({"containers": [container(json!({"ports": [{"containerPort": 80}]}))]}),
        json!({"containers": [container(json!({"ports": [{"containerPort": 80, "protocol": "UDP"}]}))]}),
        json!({"containers": [container(json!({"resources": {"limits": {"cpu": "500m"}}}))]}),
        json!({"containers": [container(json!({"args": ["x", "y"]}))]}),
        json!({"containers": [{"name": "side", "image": "s:1"}]}),
        json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
        json!({"volumes": [{"name": "v", "configMap": {"name": "m"}}]}),
        json!({"tolerations": [{"key": "k", "operator": "Exists"}]}),
        json!({"nodeSelector": {"x": "1"}}),
        json!({"terminationGracePeriodSeconds": 5}),
        json!({"serviceAccountName": "sa"}),
        json!({"securityContext": {"runAsUser": 1}}),
    ];
    let wrong = vec![
        json!({"containers": [container(json!({"image": ""}))]}),
        json!({"containers": [{"name": "Bad_Name", "image": "i"}]}),
        json!({"containers": [container(json!({"ports": [{"containerPort": 0}]}))]}),
        json!({"containers": [container(json!({"resources": {"limits": {"cpu": "-1"}}}))]}),
        json!({"restartPolicy": "Sometimes"}),
        json!({"volumes": [{"name": "v"}, {"name": "v", "emptyDir": {}}]}),
        json!({"containers": [container(json!({"imagePullPolicy": 5}))]}),
        json!({"notAField": true}),
    ];
    (valid, wrong)
}

fn pod() -> (Vec<Value>, Vec<Value>) {
    let wrap = |parts: Vec<Value>| parts.into_iter().map(|part| json!({"spec": part})).collect();
    let (valid, wrong) = pod_specs();
    (wrap(valid), wrap(wrong))
}

fn deployment() -> (Vec<Value>, Vec<Value>) {
    let wrap = |parts: Vec<Value>| -> Vec<Value> {
        parts.into_iter().map(|part| json!({"spec": {"template": {"spec": part}}})).collect()
    };
    let (valid, wrong) = pod_specs();
    let (mut valid, mut wrong) = (wrap(valid), wrap(wrong));
    valid.extend([
        json!({"spec": {"replicas": 2}}),
        json!({"spec": {"replicas": 3}}),
        json!({"spec": {"paused": true}}),
        json!({"spec": {"minReadySeconds": 3}}),
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "30%"}}}}),
        json!({"spec": {"template": {"metadata": {"labels": {"t": "1"}}}}}),
        json!({"spec": {"template": {"metadata": {"labels": {}, "annotations": {}}}}}),
        json!({"status": {"replicas": 1}}),
    ]);
    wrong.extend([
        json!({"spec": {"replicas": -1}}),
        json!({"spec": {"replicas": "two"}}),
        json!({"spec": {"selector": {"matchLabels": {"a": "other"}}}}),
        json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}}),
        json!({"spec": {"progressDeadlineSeconds": 1, "minReadySeconds": 5}}),
    ]);
    (valid, wrong)
}

fn service() -> (Vec<Value>, Vec<Value>) {
    let valid = vec![
        json!({"spec": {"ports": [{"name": "web", "port": 80, "targetPort": 8080}]}}),
        json!({"spec": {"ports": [{"name": "tls", "port": 443}]}}),
        json!({"spec": {"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}}),
        json!({"spec": {"type": "NodePort"}}),
        json!({"spec": {"type": "ClusterIP"}}),
        json!({"spec": {"selector": {"x": "1"}}}),
        json!({"spec": {"sessionAffinity": "ClientIP"}}),
        json!({"spec": {"publishNotReadyAddresses": true}}),
        json!({"spec": {"internalTrafficPolicy": "Local"}}),
        json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}}),
    ];
    let wrong = vec![
        json!({"spec": {"ports": [{"name": "web", "port": 99999}]}}),
        json!({"spec": {"ports": [{"name": "x", "port": 80}, {"name": "x", "port": 81}]}}),
        json!({"spec": {"type": "Nonsense"}}),
        json!({"spec": {"clusterIP": "1.2.3.4"}}),
        json!({"spec": {"sessionAffinity": 1}}),
        json!({"spec": {"externalName": "x"}}),
    ];
    (valid, wrong)
}

fn config_map() -> (Vec<Value>, Vec<Value>) {
    let valid = vec![
        json!({"data": {"a": "1"}}),
        json!({"data": {"a": "2", "b": "1"}}),
        json!({"data": {"c": ""}}),
        json!({"binaryData": {"bin": "AQID"}}),
        json!({"immutable": false}),
        json!({"immutable": true}),
    ];
    let wrong = vec![
        json!({"data": {"a": 1}}),
        json!({"data": {"bad key!": "1"}}),
        json!({"data": ["a"]}),
        json!({"binaryData": {"a": "AQID"}, "data": {"a": "1"}}),
        json!({"immutable": "yes"}),
    ];
    (valid, wrong)
}
