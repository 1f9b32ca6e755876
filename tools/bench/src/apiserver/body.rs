//! The objects that the load consists of.

use bytes::Bytes;
use serde_json::{Value, json};

/// About 700 bytes.
pub fn config_map(name: &str, at: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench", "shard": format!("s{}", at % 32)}},
        "data": {"key": format!("value-{at}"), "text": "x".repeat(512)},
    })
}

/// A typical Deployment.
pub fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "main", "image": "nginx:1.29",
                    "ports": [{"name": "http", "containerPort": 80}],
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
                    "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
                }]},
            },
        },
    })
}

/// About 4 KB as it is stored.
pub fn pod(at: usize) -> Value {
    let environment: Vec<Value> = (0..24)
        .map(|n| json!({"name": format!("VARIABLE_{n}"), "value": format!("value-{at}-{n}-{}", "y".repeat(40))}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{at}"), "labels": {"app": format!("app-{}", at % 50)}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1.29", "env": environment}]},
    })
}

pub fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

pub fn json_bytes(object: &Value) -> Bytes {
    object.to_string().into()
}

pub fn protobuf_bytes(object: &Value) -> Bytes {
    setpoint_schema::protobuf::encode(object).expect("the bodies of this load are of built-in kinds").into()
}
