//! A pod's volumes: their files and their mounts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{
    Container, DownwardAPIVolumeFile, KeyToPath, Pod, PodSpec, ServiceAccountTokenProjection, Volume,
    VolumeMount, VolumeProjection,
};

use super::environment::{
    ReferenceError, References, config_map_files, expand_known, field_value, resource_value, secret_files,
};
use super::lasting;
use super::mount_guard::Covered;
use super::root::Mount;
use super::trust_bundle;
use super::volume::{File, Files};

const DEFAULT_MODE: u32 = 0o644;

/// The names of the ConfigMaps, Secrets and claims that a pod's spec refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// ConfigMaps.
    pub config_maps: BTreeSet<String>,
    /// Secrets.
    pub secrets: BTreeSet<String>,
    /// PersistentVolumeClaims.
    pub claims: BTreeSet<String>,
}

/// Returns all objects that must be read before a pod can start. A change of one of them changes the pod's files.
pub fn references(pod: &Pod) -> Names {
    let mut names = Names::default();
    let Some(spec) = &pod.spec else { return names };
    for volume in spec.volumes.iter().flatten() {
        names.claims.extend(lasting::claim_name(pod, volume));
        names.config_maps.extend(volume.config_map.as_ref().map(|source| source.name.clone()));
        names.secrets.extend(volume.secret.as_ref().and_then(|source| source.secret_name.clone()));
        let projections = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        for source in projections {
            names.config_maps.extend(source.config_map.as_ref().map(|source| source.name.clone()));
            names.secrets.extend(source.secret.as_ref().map(|source| source.name.clone()));
        }
    }
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        for source in container.env_from.iter().flatten() {
            names.config_maps.extend(source.config_map_ref.as_ref().map(|source| source.name.clone()));
            names.secrets.extend(source.secret_ref.as_ref().map(|source| source.name.clone()));
        }
        for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            names.config_maps.extend(source.config_map_key_ref.as_ref().map(|source| source.name.clone()));
            names.secrets.extend(source.secret_key_ref.as_ref().map(|source| source.name.clone()));
        }
    }
    names
}

/// Returns the audience and lifetime of each token that a pod's volumes project.
pub fn tokens(pod: &Pod) -> Vec<(Option<String>, i64)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let projected = volumes.filter_map(|volume| volume.projected.as_ref());
    let sources = projected.flat_map(|projected| projected.sources.iter().flatten());
    let tokens = sources.filter_map(|source| source.service_account_token.as_ref());
    tokens.map(wanted).collect()
}

/// Tokens by audience and lifetime, as [`tokens`] lists them.
pub type Tokens = BTreeMap<(Option<String>, i64), String>;

fn wanted(token: &ServiceAccountTokenProjection) -> (Option<String>, i64) {
    (token.audience.clone(), token.expiration_seconds.unwrap_or(3600))
}

/// Returns the files of one volume, or `None` if the node does not write it (emptyDir, hostPath …).
pub fn files(
    pod: &Pod,
    volume: &Volume,
    references: &References,
    tokens: &Tokens,
) -> Result<Option<Files>, ReferenceError> {
    if let Some(source) = &volume.config_map {
        let found = references.config_maps.get(&source.name).map(|config| config_map_files(config));
        let mode = mode(source.default_mode);
        return select("configmap", &source.name, found, source.items.as_deref(), source.optional, mode)
            .map(Some);
    }
    if let Some(source) = &volume.secret {
        let name = source.secret_name.clone().unwrap_or_default();
        let found = references.secrets.get(&name).map(|secret| secret_files(secret));
        let mode = mode(source.default_mode);
        return select("secret", &name, found, source.items.as_deref(), source.optional, mode).map(Some);
    }
    if let Some(source) = &volume.downward_api {
        let items = source.items.iter().flatten();
        let files = downward_files(pod, items, references, mode(source.default_mode))?;
        return Ok(Some(files));
    }
    let Some(projected) = &volume.projected else { return Ok(None) };
    let mut files = Files::new();
    for source in projected.sources.iter().flatten() {
        files.extend(projection(pod, source, references, tokens, mode(projected.default_mode))?);
    }
    Ok(Some(files))
}

fn mode(mode: Option<i32>) -> u32 {
    mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(DEFAULT_MODE)
}

fn projection(
    pod: &Pod,
    source: &VolumeProjection,
    references: &References,
    tokens: &Tokens,
    mode: u32,
) -> Result<Files, ReferenceError> {
    if let Some(config) = &source.config_map {
        let found = references.config_maps.get(&config.name).map(|config| config_map_files(config));
        return select("configmap", &config.name, found, config.items.as_deref(), config.optional, mode);
    }
    if let Some(secret) = &source.secret {
        let found = references.secrets.get(&secret.name).map(|secret| secret_files(secret));
        return select("secret", &secret.name, found, secret.items.as_deref(), secret.optional, mode);
    }
    if let Some(bundle) = &source.cluster_trust_bundle {
        let content = trust_bundle::anchors(bundle, &references.trust_bundles)?;
        return Ok([(bundle.path.clone(), File { content, mode })].into());
    }
    let mut files = Files::new();
    if let Some(token) = &source.service_account_token
        && let Some(text) = tokens.get(&wanted(token))
    {
        files.insert(token.path.clone(), File { content: text.clone().into_bytes(), mode: 0o600 });
    }
    let items = source.downward_api.iter().flat_map(|downward| downward.items.iter().flatten());
    files.extend(downward_files(pod, items, references, mode)?);
    Ok(files)
}

/// Files of a downward API volume: fields of the pod, and resources of its containers.
fn downward_files<'a>(
    pod: &Pod,
    items: impl Iterator<Item = &'a DownwardAPIVolumeFile>,
    references: &References,
    default_mode: u32,
) -> Result<Files, ReferenceError> {
    let mut files = Files::new();
    for item in items {
        let text = if let Some(field) = &item.field_ref {
            field_value(pod, &field.field_path)?
        } else if let Some(resource) = &item.resource_field_ref {
            let spec = pod.spec.as_ref();
            let mut containers = spec.iter().flat_map(|spec| &spec.containers);
            let container =
                containers.find(|container| resource.container_name.as_ref() == Some(&container.name));
            let container = container.ok_or_else(|| ReferenceError::Field(resource.resource.clone()))?;
            resource_value(container, resource, &references.capacity)?
        } else {
            continue;
        };
        let mode = item.mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(default_mode);
        files.insert(item.path.clone(), File { content: text.into_bytes(), mode });
    }
    Ok(files)
}

/// Returns all keys, or the keys that `items` picks, at the paths that `items` names.
fn select(
    kind: &'static str,
    name: &str,
    found: Option<BTreeMap<String, Vec<u8>>>,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    mode: u32,
) -> Result<Files, ReferenceError> {
    let Some(mut found) = found else {
        let missing = ReferenceError::Object { kind, name: name.to_owned() };
        return if optional == Some(true) { Ok(Files::new()) } else { Err(missing) };
    };
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return Ok(found.into_iter().map(|(key, content)| (key, File { content, mode })).collect());
    };
    let mut files = Files::new();
    for item in items {
        let mode = item.mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(mode);
        match found.remove(&item.key) {
            Some(content) => drop(files.insert(item.path.clone(), File { content, mode })),
            None if optional == Some(true) => {}
            None => {
                let name = format!("{name} (key {})", item.key);
                return Err(ReferenceError::Object { kind, name });
            }
        }
    }
    Ok(files)
}

/// A mount that the node refuses, in a kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// There is nothing to mount.
    #[error("the pod has no spec")]
    NoSpec,
    /// The mount hides a path that programs load code from.
    #[error(transparent)]
    Covered(#[from] Covered),
    /// The pod has no such volume.
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    NoVolume {
        /// The volume.
        volume: String,
        /// The container.
        container: String,
    },
    /// `subPathExpr` names a variable that the container does not have.
    #[error("missing value for {0:?}")]
    NoVariable(String),
    /// `subPath` is absolute.
    #[error("error SubPath `{0}` must not be an absolute path")]
    Absolute(String),
    /// `subPath` leads out of the volume.
    #[error("unable to provision SubPath `{0}`: must not contain '..'")]
    Outside(String),
}

/// Returns the mounts of a container's volumes. `folder_of` gives the folder of a volume by its name.
pub fn mounts(
    spec: &PodSpec,
    container: &Container,
    variables: &BTreeMap<String, String>,
    folder_of: impl Fn(&str) -> Option<PathBuf>,
) -> Result<Vec<Mount>, MountError> {
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let name = &mount.name;
        let volume = spec.volumes.iter().flatten().find(|volume| volume.name == *name);
        let found = volume.and_then(|volume| Some((volume, folder_of(name)?)));
        let (volume, folder) = found.ok_or_else(|| MountError::NoVolume {
            volume: name.clone(),
            container: container.name.clone(),
        })?;
        let ours = has_files(volume);
        mounts.push(Mount {
            volume: folder,
            sub_path: sub_path(mount, variables)?,
            make_missing: !ours,
            target: PathBuf::from(&mount.mount_path),
            // As in a kubelet: a program that writes where the node writes would decide which files the node
            // overwrites.
            read_only: ours || mount.read_only == Some(true),
        });
    }
    Ok(mounts)
}

/// Whether the node writes the volume's files.
fn has_files(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

/// Returns the subpath of a volume that is mounted. Empty for the whole volume.
fn sub_path(mount: &VolumeMount, variables: &BTreeMap<String, String>) -> Result<PathBuf, MountError> {
    let path = match mount.sub_path_expr.as_deref().filter(|path| !path.is_empty()) {
        Some(expression) => {
            expand_known(expression, variables).map_err(|missing| MountError::NoVariable(missing.0))?
        }
        None => mount.sub_path.clone().unwrap_or_default(),
    };
    if path.starts_with('/') {
        return Err(MountError::Absolute(path));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(MountError::Outside(path));
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use serde_json::json;

    fn mount(mount: &serde_json::Value) -> Result<Mount, MountError> {
        let mut mount = mount.clone();
        mount["mountPath"] = json!("/m");
        let spec: PodSpec = serde_json::from_value(json!({
            "volumes": [{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}],
            "containers": [{"name": "main", "volumeMounts": [mount]}],
        }))
        .unwrap();
        let variables = [("A".to_owned(), "one".to_owned()), ("UP".to_owned(), "..".to_owned())].into();
        let folder = |name: &str| Some(Path::new("/v").join(name));
        mounts(&spec, &spec.containers[0], &variables, folder).map(|mut mounts| mounts.remove(0))
    }

    #[test]
    fn a_sub_path_is_below_its_volume() {
        let sub =
            |field: &str, path: &str| mount(&json!({"name": "e", field: path})).map(|mount| mount.sub_path);
        assert_eq!(sub("subPath", "a/b").unwrap(), Path::new("a/b"));
        assert_eq!(sub("subPathExpr", "x-$(A)").unwrap(), Path::new("x-one"));
        let refused = [
            ("subPath", "/etc", "error SubPath `/etc` must not be an absolute path"),
            ("subPath", "a/../../b", "unable to provision SubPath `a/../../b`: must not contain '..'"),
            ("subPathExpr", "$(UP)/etc", "unable to provision SubPath `../etc`: must not contain '..'"),
            ("subPathExpr", "$(NONE)", "missing value for \"NONE\""),
        ];
        for (field, path, message) in refused {
            assert_eq!(sub(field, path).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn what_the_node_writes_the_container_may_not() {
        let read_only = |name: &str| mount(&json!({"name": name})).map(|mount| mount.read_only);
        assert_eq!((read_only("c"), read_only("e")), (Ok(true), Ok(false)));
        let missing = "cannot find volume \"none\" to mount into container \"main\"";
        assert_eq!(read_only("none").unwrap_err().to_string(), missing);
    }
}
