//! ServiceAccount: pods run as an account that exists, and find its token in a volume.

use serde_json::{Value, json};
use setpoint_api::status::{Reason, Status};

use super::pod_secrets;
use super::request::{Cluster, Request};
use crate::access::{at, is_empty, items, items_mut, set, text};

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_VOLUME: &str = "kube-api-access-";
const MIRROR: &str = "kubernetes.io/config.mirror";
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// Names the account of a new pod and mounts its token.
pub(super) fn mutate(request: &Request<'_>, cluster: &dyn Cluster, pod: &mut Value) -> Result<(), Status> {
    if !request.is_for("", "pods") || !request.creates() {
        return Ok(());
    }
    if !is_mirror(pod) {
        if is_empty(pod, "spec.serviceAccountName") {
            set(pod, "spec.serviceAccountName", "default".into());
            set(pod, "spec.serviceAccount", "default".into());
        }
        let account = account(request, cluster, pod)?;
        let of_pod = at(pod, "spec.automountServiceAccountToken").as_bool();
        let mounts = of_pod.or(at(&account, "automountServiceAccountToken").as_bool()).unwrap_or(true);
        if mounts && request.signs_tokens {
            mount_token(request, pod);
        }
        if is_empty(pod, "spec.imagePullSecrets") && !is_empty(&account, "imagePullSecrets") {
            set(pod, "spec.imagePullSecrets", at(&account, "imagePullSecrets").clone());
        }
    }
    validate(request, cluster, pod).map(drop)
}

/// Refuses a pod without an account, and Secrets that its account may not mount.
pub(super) fn validate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    pod: &Value,
) -> Result<Vec<String>, Status> {
    let lists: &[(&str, &str)] = if request.creates() && request.is_for("", "pods") {
        &[("spec.initContainers", "init container"), ("spec.containers", "container")]
    } else if !request.creates() && request.is_for_part("", "pods", "ephemeralcontainers") {
        &[("spec.ephemeralContainers", "ephemeral container")]
    } else {
        return Ok(Vec::new());
    };
    if request.creates() && is_mirror(pod) {
        return refuse_mirror(pod).map_or(Ok(Vec::new()), |why| Err(request.forbidden(why)));
    }
    if is_empty(pod, "spec.serviceAccountName") {
        let pod = format!("{}/{}", request.namespace, text(pod, "metadata.name"));
        return Err(request.forbidden(&format!("no service account specified for pod {pod}")));
    }
    let account = account(request, cluster, pod)?;
    let enforced = at(&account, "metadata.annotations").get(ENFORCE).and_then(Value::as_str);
    if !enforced.is_some_and(|text| matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")) {
        return Ok(Vec::new());
    }
    refuse_secrets(&account, pod, lists).map_or(Ok(Vec::new()), |why| {
        // kube-apiserver returns the bare error here, which becomes a 500.
        let bare = Status::failure(500, Reason::Unknown, why.as_str());
        Err(if request.creates() { request.forbidden(&why) } else { bare })
    })
}

fn is_mirror(pod: &Value) -> bool {
    at(pod, "metadata.annotations").get(MIRROR).is_some()
}

fn account(request: &Request<'_>, cluster: &dyn Cluster, pod: &Value) -> Result<Value, Status> {
    let (namespace, name) = (request.namespace, text(pod, "spec.serviceAccountName"));
    cluster.get("", "serviceaccounts", namespace, name).ok_or_else(|| {
        request.forbidden(&format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        ))
    })
}

/// A pod that a kubelet runs without the server must not read the server's secrets.
fn refuse_mirror(pod: &Value) -> Option<&'static str> {
    if !is_empty(pod, "spec.serviceAccountName") {
        return Some("a mirror pod may not reference service accounts");
    }
    if !pod_secrets::names(pod).is_empty() {
        return Some("a mirror pod may not reference secrets");
    }
    let sources = items(pod, "spec.volumes").iter().flat_map(|volume| items(volume, "projected.sources"));
    let has_token = |source: &Value| source.get("serviceAccountToken").is_some();
    sources
        .into_iter()
        .any(has_token)
        .then_some("a mirror pod may not use ServiceAccountToken volume projections")
}

/// The first Secret of a pod that its account does not list.
fn refuse_secrets(account: &Value, pod: &Value, lists: &[(&str, &str)]) -> Option<String> {
    let has = |list: &str, name: &str| items(account, list).iter().any(|one| text(one, "name") == name);
    let of = text(account, "metadata.name");
    let is_whole = lists.len() > 1;
    let volumes =
        items(pod, "spec.volumes").iter().filter(|volume| is_whole && volume.get("secret").is_some());
    for secret in volumes.map(|volume| text(volume, "secret.secretName")) {
        if !has("secrets", secret) {
            return Some(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {of} does not \
                 reference that secret"
            ));
        }
    }
    for (list, what) in lists {
        for container in items(pod, list) {
            if let Some((place, secret)) =
                pod_secrets::of_environment(container).find(|(_, secret)| !has("secrets", secret))
            {
                let container = text(container, "name");
                return Some(format!(
                    "{what} {container} with {place} referencing secret.secretName=\"{secret}\" is not allowed \
                     because service account {of} does not reference that secret"
                ));
            }
        }
    }
    let pulls = items(pod, "spec.imagePullSecrets").iter().enumerate().filter(|_| is_whole);
    let mut foreign = pulls.filter(|(_, secret)| !has("imagePullSecrets", text(secret, "name")));
    foreign.next().map(|(at, secret)| {
        format!(
            "imagePullSecrets[{at}].name=\"{}\" is not allowed because service account {of} does not reference that \
             imagePullSecret",
            text(secret, "name")
        )
    })
}

fn mount_token(request: &Request<'_>, pod: &mut Value) {
    let names = items(pod, "spec.volumes").iter().map(|volume| text(volume, "name"));
    let existing = names.into_iter().find(|name| name.starts_with(TOKEN_VOLUME)).map(str::to_owned);
    let found = existing.is_some();
    let volume = existing.unwrap_or_else(|| format!("{TOKEN_VOLUME}{}", request.random.suffix(5)));
    let mut needed = false;
    for list in ["spec.initContainers", "spec.containers"] {
        for container in items_mut(pod, list) {
            let mut mounts = items(container, "volumeMounts").to_vec();
            if mounts.iter().any(|mount| mount["mountPath"] == TOKEN_PATH) {
                continue;
            }
            needed = true;
            mounts.push(json!({"name": volume, "readOnly": true, "mountPath": TOKEN_PATH}));
            container["volumeMounts"] = Value::Array(mounts);
        }
    }
    if needed && !found {
        let mut volumes = items(pod, "spec.volumes").to_vec();
        volumes.push(json!({"name": volume, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}}));
        set(pod, "spec.volumes", Value::Array(volumes));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Objects, with_request};
    use super::*;

    fn accounts() -> Objects {
        let plain = json!({ "metadata": { "name": "default" }, "imagePullSecrets": [{ "name": "pull" }] });
        let strict = json!({ "metadata": { "name": "strict", "annotations": { ENFORCE: "true" } },
            "secrets": [{ "name": "mine" }], "automountServiceAccountToken": false });
        Objects::new("serviceaccounts", vec![plain, strict])
    }

    fn admitted(pod: &Value) -> Result<Value, String> {
        let mut pod = pod.clone();
        let done = with_request("", "pods", None, |request| mutate(request, &accounts(), &mut pod));
        done.map(|()| pod).map_err(|status| status.message)
    }

    #[test]
    fn a_pod_gets_the_account_and_its_token() {
        let pod = json!({ "spec": { "containers": [{ "name": "c" }, { "name": "d", "volumeMounts": [{ "mountPath": TOKEN_PATH }] }] } });
        let pod = admitted(&pod).unwrap();
        assert_eq!(pod["spec"]["serviceAccountName"], "default");
        assert_eq!(pod["spec"]["imagePullSecrets"], json!([{ "name": "pull" }]));
        let mount = &pod["spec"]["containers"][0]["volumeMounts"][0];
        assert_eq!(mount["name"], pod["spec"]["volumes"][0]["name"]);
        assert_eq!(pod["spec"]["containers"][1]["volumeMounts"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn an_account_may_list_the_secrets_of_its_pods() {
        let pod = |spec: Value| {
            let mut pod = json!({ "spec": spec });
            pod["spec"]["serviceAccountName"] = json!("strict");
            admitted(&pod).err().unwrap_or_default()
        };
        let env = |name: &str| json!({ "containers": [{ "name": "c", "env": [{ "name": "E", "valueFrom": { "secretKeyRef": { "name": name } } }] }] });
        assert_eq!(pod(env("mine")), "");
        assert!(
            pod(env("theirs")).contains(
                "container c with envVar E referencing secret.secretName=\"theirs\" is not allowed"
            )
        );
        assert!(
            pod(json!({ "volumes": [{ "secret": { "secretName": "theirs" } }] })).contains("volume with")
        );
        assert!(
            pod(json!({ "imagePullSecrets": [{ "name": "p" }] })).contains("imagePullSecrets[0].name=\"p\"")
        );
    }

    #[test]
    fn a_mirror_pod_reads_no_secret() {
        let pod = |spec: Value| {
            let pod = json!({ "metadata": { "annotations": { MIRROR: "x" } }, "spec": spec });
            admitted(&pod).err().unwrap_or_default()
        };
        assert_eq!(pod(json!({})), "");
        assert!(
            pod(json!({ "serviceAccountName": "default" })).ends_with("may not reference service accounts")
        );
        assert!(
            pod(json!({ "volumes": [{ "secret": { "secretName": "s" } }] }))
                .ends_with("may not reference secrets")
        );
        let token = json!({ "volumes": [{ "projected": { "sources": [{ "serviceAccountToken": {} }] } }] });
        assert!(pod(token).ends_with("may not use ServiceAccountToken volume projections"));
    }
}
