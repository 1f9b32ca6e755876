//! ServiceAccount: pods run as an account that exists, and find its token in a volume.

use serde_json::{Value, json};
use setpoint_api::Random;
use setpoint_store::Snapshot;

use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::key;
use crate::object;
use crate::registry;

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Admits a new pod.
pub(super) fn admit(
    ctx: &RequestContext,
    random: &Random,
    snapshot: &Snapshot,
    pod: &mut Value,
) -> Result<()> {
    if pod.pointer("/metadata/annotations").is_some_and(|annotations| annotations.get(MIRROR).is_some()) {
        return Ok(());
    }
    let named = pod.pointer("/spec/serviceAccountName").and_then(Value::as_str).unwrap_or("");
    let name = if named.is_empty() { "default".to_owned() } else { named.to_owned() };
    pod["spec"]["serviceAccountName"] = json!(name);
    pod["spec"]["serviceAccount"] = json!(name);
    let namespace = &ctx.info.namespace;
    let stored = snapshot.get(&key::object("", "serviceaccounts", namespace, &name));
    let Some(account) = stored.map(|entry| registry::value(&entry)) else {
        let text = format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        );
        return Err(ApiError::forbidden(&ctx.resource.group_resource(), object::name(pod), &text));
    };
    let automount = pod
        .pointer("/spec/automountServiceAccountToken")
        .or_else(|| account.get("automountServiceAccountToken"))
        .and_then(Value::as_bool)
        .unwrap_or(true);
    if automount && ctx.server.options().service_accounts.signing.is_some() {
        mount_token(random, pod);
    }
    if pod.pointer("/spec/imagePullSecrets").and_then(Value::as_array).is_none_or(Vec::is_empty)
        && let Some(secrets) = account.get("imagePullSecrets").filter(|list| list.is_array())
    {
        pod["spec"]["imagePullSecrets"] = secrets.clone();
    }
    Ok(())
}

fn mount_token(random: &Random, pod: &mut Value) {
    let existing = pod.pointer("/spec/volumes").and_then(Value::as_array);
    let existing = existing.into_iter().flatten().filter_map(|volume| volume["name"].as_str());
    let existing = existing.filter(|name| name.starts_with("kube-api-access-")).map(str::to_owned).next();
    let found = existing.is_some();
    let volume = existing.unwrap_or_else(|| format!("kube-api-access-{}", random.suffix(5)));
    let mut needed = false;
    for kind in ["initContainers", "containers"] {
        let Some(containers) = pod["spec"].get_mut(kind).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if mounts.iter().any(|mount| mount["mountPath"] == TOKEN_PATH) {
                continue;
            }
            needed = true;
            let mut mounts = mounts;
            mounts.push(json!({"name": volume, "readOnly": true, "mountPath": TOKEN_PATH}));
            container["volumeMounts"] = Value::Array(mounts);
        }
    }
    if needed && !found {
        let mut volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        volumes.push(json!({"name": volume, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}}));
        pod["spec"]["volumes"] = Value::Array(volumes);
    }
}
