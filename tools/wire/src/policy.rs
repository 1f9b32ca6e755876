//! The roles and bindings that a fresh kube-apiserver has: the table that ours begins with.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::message::Sent;
use crate::target::Target;

/// Every object of the table says this of itself; the table does not.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

fn table() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/apiserver/src/auth/policy.json"))
}

/// Writes the table anew.
pub async fn record(real: &Target) -> Result<()> {
    let mut rows = Vec::new();
    for (plural, kind) in [
        ("clusterroles", "ClusterRole"),
        ("clusterrolebindings", "ClusterRoleBinding"),
        ("roles", "Role"),
        ("rolebindings", "RoleBinding"),
    ] {
        for object in list(real, plural).await? {
            rows.push(row(kind, object)?.to_string());
        }
    }
    std::fs::write(table(), format!("[\n{}\n]\n", rows.join(",\n")))?;
    println!("{} roles and bindings", rows.len());
    Ok(())
}

async fn list(real: &Target, plural: &str) -> Result<Vec<Value>> {
    let sent = Sent {
        method: "GET".to_owned(),
        path: format!("/apis/rbac.authorization.k8s.io/v1/{plural}"),
        user: "admin".to_owned(),
        headers: Vec::new(),
        body: Bytes::new(),
    };
    let mut list: Value = serde_json::from_slice(&real.send(&sent).await?.body)?;
    let items = list["items"].as_array_mut().with_context(|| format!("no list of {plural}"))?;
    Ok(std::mem::take(items))
}

fn row(kind: &str, object: Value) -> Result<Value> {
    let Value::Object(mut fields) = object else { anyhow::bail!("not an object") };
    let metadata = fields.remove("metadata").unwrap_or_default();
    let name = &metadata["name"];
    ensure!(metadata["annotations"] == json!({AUTOUPDATE: "true"}), "{kind} {name} has other annotations");
    let mut row = Map::new();
    row.insert("kind".into(), json!(kind));
    row.insert("fields".into(), Value::Object(fields));
    for field in ["name", "namespace", "labels"] {
        if let Some(value) = metadata.get(field) {
            row.insert(field.into(), value.clone());
        }
    }
    Ok(Value::Object(row))
}
