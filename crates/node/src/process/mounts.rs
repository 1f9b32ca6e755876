//! A pod's volumes: what their files should be, and where they are mounted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    Container, DownwardAPIVolumeFile, KeyToPath, Pod, ServiceAccountTokenProjection, Volume, VolumeProjection,
};

use super::environment::{
    ReferenceError, References, config_map_files, field_value, resource_value, secret_files,
};
use super::root::Mount;
use super::volume::{File, Files};

const DEFAULT_MODE: u32 = 0o644;

/// The names of the ConfigMaps and Secrets that a pod's spec refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// ConfigMaps.
    pub config_maps: BTreeSet<String>,
    /// Secrets.
    pub secrets: BTreeSet<String>,
}

/// Everything that has to be read before a pod can start, and that changes its files when it changes.
pub fn references(pod: &Pod) -> Names {
    let mut names = Names::default();
    let Some(spec) = &pod.spec else { return names };
    for volume in spec.volumes.iter().flatten() {
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

/// The audience and lifetime of each token that a pod's volumes project, by volume and path.
pub fn tokens(pod: &Pod) -> Vec<(Option<String>, i64)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let projected = volumes.filter_map(|volume| volume.projected.as_ref());
    let sources = projected.flat_map(|projected| projected.sources.iter().flatten());
    let tokens = sources.filter_map(|source| source.service_account_token.as_ref());
    tokens.map(wanted).collect()
}

/// Tokens by audience and lifetime, as [`tokens`] asked for them.
pub type Tokens = BTreeMap<(Option<String>, i64), String>;

fn wanted(token: &ServiceAccountTokenProjection) -> (Option<String>, i64) {
    (token.audience.clone(), token.expiration_seconds.unwrap_or(3600))
}

/// The files of one volume; none where it has no files of ours (emptyDir, hostPath …).
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

/// What the pod says of itself and of its containers' resources.
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

/// All keys, or those that `items` picks, at the paths that they name.
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

/// Where a container's volumes are mounted, given the folder that holds them all.
pub fn mounts(container: &Container, volumes: &Path) -> Vec<Mount> {
    let mounts = container.volume_mounts.iter().flatten();
    mounts
        .map(|mount| Mount {
            source: match mount.sub_path.as_deref().filter(|path| !path.is_empty()) {
                Some(path) => volumes.join(&mount.name).join(path),
                None => volumes.join(&mount.name),
            },
            target: PathBuf::from(&mount.mount_path),
            read_only: mount.read_only == Some(true),
        })
        .collect()
}
