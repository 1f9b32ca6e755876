//! The Secrets that a pod names.

use serde_json::Value;

use crate::access::{at, items, text};

/// The paths at which a volume names a Secret.
const OF_VOLUMES: [&str; 10] = [
    "azureFile.secretName",
    "cephfs.secretRef.name",
    "cinder.secretRef.name",
    "flexVolume.secretRef.name",
    "rbd.secretRef.name",
    "secret.secretName",
    "scaleIO.secretRef.name",
    "iscsi.secretRef.name",
    "storageos.secretRef.name",
    "csi.nodePublishSecretRef.name",
];

/// The names of all Secrets that a pod names, some of them more than once.
pub(super) fn names(pod: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        items(pod, "spec.imagePullSecrets").iter().map(|one| text(one, "name")).collect();
    for list in ["spec.initContainers", "spec.containers", "spec.ephemeralContainers"] {
        for container in items(pod, list) {
            names.extend(of_environment(container).map(|(_, name)| name));
        }
    }
    for volume in items(pod, "spec.volumes") {
        names.extend(OF_VOLUMES.iter().map(|path| text(volume, path)));
        names.extend(items(volume, "projected.sources").iter().map(|source| text(source, "secret.name")));
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The Secrets in the environment of a container, and where they stand.
pub(super) fn of_environment(container: &Value) -> impl Iterator<Item = (String, &str)> {
    let has = |path: &'static str| move |env: &&Value| !at(env, path).is_null();
    let single = items(container, "env").iter().filter(has("valueFrom.secretKeyRef"));
    let single =
        single.map(|env| (format!("envVar {}", text(env, "name")), text(env, "valueFrom.secretKeyRef.name")));
    let whole = items(container, "envFrom").iter().filter(has("secretRef"));
    single.chain(whole.map(|env| ("envFrom".to_owned(), text(env, "secretRef.name"))))
}
