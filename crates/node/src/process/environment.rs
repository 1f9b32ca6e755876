//! A container's environment and command line, from its spec and the referenced objects.

use std::collections::BTreeMap;

use base64::Engine;
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Pod, ResourceFieldSelector, Secret};
use kube::ResourceExt;
use setpoint_api::quantity::Quantity;

use super::lasting::Unbound;
use crate::options::Capacity;

/// The objects that a pod's spec refers to, by name.
#[derive(Clone, Debug, Default)]
pub struct References {
    /// ConfigMaps of the pod's namespace.
    pub config_maps: BTreeMap<String, std::sync::Arc<ConfigMap>>,
    /// Secrets of the pod's namespace.
    pub secrets: BTreeMap<String, std::sync::Arc<Secret>>,
    /// The PersistentVolumes of the pod's volumes, by volume name, or the reason why there is none.
    pub volumes: BTreeMap<String, Result<String, Unbound>>,
    /// The ClusterTrustBundles, if a volume projects some of them.
    pub trust_bundles: Vec<serde_json::Value>,
    /// Variables by which containers find Services.
    pub services: BTreeMap<String, String>,
    /// The node's capacity, which is the limit of a container without one.
    pub capacity: Capacity,
}

impl References {
    fn config_value(&self, name: &str, key: &str) -> Option<String> {
        self.config_maps.get(name)?.data.as_ref()?.get(key).cloned()
    }

    fn secret_value(&self, name: &str, key: &str) -> Option<String> {
        let bytes = &self.secrets.get(name)?.data.as_ref()?.get(key)?.0;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// A reference of a container to something that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// A key of an object, or the object itself, is missing.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    Key {
        /// ConfigMap or Secret.
        kind: &'static str,
        /// The pod's namespace.
        namespace: String,
        /// The object.
        name: String,
        /// The key.
        key: String,
    },
    /// An object is missing.
    #[error("{kind} \"{name}\" not found")]
    Object {
        /// configmap or secret.
        kind: &'static str,
        /// The object.
        name: String,
    },
    /// No bundle of trust anchors has the signer and the labels.
    #[error("combination of signerName and labelSelector matched zero ClusterTrustBundles")]
    NoTrustBundle,
    /// A bundle of trust anchors is named in neither way.
    #[error("ClusterTrustBundle projection requires either name or signerName to be set")]
    UnnamedTrustBundle,
    /// The downward API has no such field.
    #[error("unsupported fieldPath: {0}")]
    Field(String),
}

/// Returns the whole environment: the node's variables, then `envFrom`, then `env`. Later ones win.
pub fn environment(
    pod: &Pod,
    container: &Container,
    references: &References,
    given: &[(String, String)],
) -> Result<BTreeMap<String, String>, ReferenceError> {
    let mut environment: BTreeMap<String, String> = given.iter().cloned().collect();
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.clone().unwrap_or_default();
        if let Some(reference) = &source.config_map_ref {
            match references.config_maps.get(&reference.name) {
                Some(config) => {
                    let data = config.data.iter().flatten();
                    environment.extend(data.map(|(key, value)| (format!("{prefix}{key}"), value.clone())));
                }
                None if reference.optional == Some(true) => {}
                None => return Err(missing("configmap", &reference.name)),
            }
        }
        if let Some(reference) = &source.secret_ref {
            match references.secrets.get(&reference.name) {
                Some(secret) => {
                    let data = secret.data.iter().flatten();
                    environment.extend(data.map(|(key, value)| {
                        (format!("{prefix}{key}"), String::from_utf8_lossy(&value.0).into_owned())
                    }));
                }
                None if reference.optional == Some(true) => {}
                None => return Err(missing("secret", &reference.name)),
            }
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match &variable.value_from {
            Some(source) => value_from(pod, container, source, references)?,
            None => Some(expand(variable.value.as_deref().unwrap_or_default(), &environment)),
        };
        if let Some(value) = value {
            environment.insert(variable.name.clone(), value);
        }
    }
    Ok(environment)
}

fn missing(kind: &'static str, name: &str) -> ReferenceError {
    ReferenceError::Object { kind, name: name.to_owned() }
}

fn value_from(
    pod: &Pod,
    container: &Container,
    source: &EnvVarSource,
    references: &References,
) -> Result<Option<String>, ReferenceError> {
    if let Some(field) = &source.field_ref {
        return field_value(pod, &field.field_path).map(Some);
    }
    if let Some(resource) = &source.resource_field_ref {
        return resource_value(container, resource, &references.capacity).map(Some);
    }
    let namespace = pod.namespace().unwrap_or_default();
    let (kind, name, key, optional, value) = if let Some(from) = &source.config_map_key_ref {
        let value = references.config_value(&from.name, &from.key);
        ("ConfigMap", &from.name, &from.key, from.optional, value)
    } else if let Some(from) = &source.secret_key_ref {
        let value = references.secret_value(&from.name, &from.key);
        ("Secret", &from.name, &from.key, from.optional, value)
    } else {
        return Ok(None);
    };
    match value {
        None if optional != Some(true) => {
            Err(ReferenceError::Key { kind, namespace, name: name.clone(), key: key.clone() })
        }
        value => Ok(value),
    }
}

/// Returns a field of the downward API.
pub fn field_value(pod: &Pod, path: &str) -> Result<String, ReferenceError> {
    let status = pod.status.clone().unwrap_or_default();
    let spec = pod.spec.clone().unwrap_or_default();
    let keyed =
        |prefix: &str| path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']").map(str::to_owned);
    if let Some(key) = keyed("metadata.labels") {
        return Ok(pod.labels().get(&key).cloned().unwrap_or_default());
    }
    if let Some(key) = keyed("metadata.annotations") {
        return Ok(pod.annotations().get(&key).cloned().unwrap_or_default());
    }
    let lines = |map: &BTreeMap<String, String>| {
        map.iter().map(|(key, value)| format!("{key}={value:?}")).collect::<Vec<_>>().join("\n")
    };
    Ok(match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "metadata.labels" => lines(pod.labels()),
        "metadata.annotations" => lines(pod.annotations()),
        "spec.nodeName" => spec.node_name.unwrap_or_default(),
        "spec.serviceAccountName" => spec.service_account_name.unwrap_or_default(),
        "status.hostIP" => status.host_ip.unwrap_or_default(),
        "status.podIP" => status.pod_ip.unwrap_or_default(),
        "status.podIPs" => {
            status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).collect::<Vec<_>>().join(",")
        }
        _ => return Err(ReferenceError::Field(path.to_owned())),
    })
}

/// Returns a resource of a container in units of the selector's divisor, rounded up. The node's capacity is the limit
/// of a container without one.
pub fn resource_value(
    container: &Container,
    selector: &ResourceFieldSelector,
    capacity: &Capacity,
) -> Result<String, ReferenceError> {
    let unsupported = || ReferenceError::Field(selector.resource.clone());
    let (part, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let resources = container.resources.clone().unwrap_or_default();
    let (values, default) = match (part, name) {
        ("limits", "cpu") => (resources.limits, capacity.cpu.as_str()),
        ("limits", "memory") => (resources.limits, capacity.memory.as_str()),
        ("limits", _) => (resources.limits, "0"),
        ("requests", _) => (resources.requests, "0"),
        _ => return Err(unsupported()),
    };
    let written = values.and_then(|values| values.get(name).map(|quantity| quantity.0.clone()));
    let read = |text: &str| text.parse::<Quantity>().map_err(|_| unsupported());
    let value = read(written.as_deref().unwrap_or(default))?;
    let divisor = match &selector.divisor {
        Some(divisor) => read(&divisor.0)?,
        None => Quantity::whole(0),
    };
    let divisor = if divisor.is_zero() { Quantity::whole(1) } else { divisor };
    let (value, divisor) = match name {
        "cpu" => (value.milli_value(), divisor.milli_value()),
        _ => (value.value(), divisor.value()),
    };
    let divisor = divisor.max(1);
    Ok((value / divisor + i64::from(value % divisor > 0)).to_string())
}

/// Replaces `$(NAME)` by the variable if it exists. `$$(NAME)` becomes `$(NAME)`.
pub fn expand(text: &str, environment: &BTreeMap<String, String>) -> String {
    expand_with(text, |name| match environment.get(name) {
        Some(value) => value.clone(),
        None => format!("$({name})"),
    })
}

/// The name of a variable that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub String);

/// Like [`expand`], but every variable must exist.
///
/// # Errors
/// The first variable that does not exist.
pub fn expand_known(text: &str, environment: &BTreeMap<String, String>) -> Result<String, Missing> {
    let mut missing = None;
    let expanded = expand_with(text, |name| {
        environment.get(name).cloned().unwrap_or_else(|| {
            missing.get_or_insert_with(|| name.to_owned());
            String::new()
        })
    });
    match missing {
        Some(name) => Err(Missing(name)),
        None => Ok(expanded),
    }
}

fn expand_with(text: &str, mut value: impl FnMut(&str) -> String) -> String {
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        output.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            output.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            output.push_str(&value(name));
            rest = after;
        } else {
            output.push('$');
        }
    }
    output + rest
}

/// Returns a ConfigMap's keys and bytes for a volume.
pub fn config_map_files(config: &ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let text = config.data.iter().flatten().map(|(key, value)| (key.clone(), value.clone().into_bytes()));
    let binary = config.binary_data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone()));
    text.chain(binary).collect()
}

/// Returns a Secret's keys and bytes for a volume.
pub fn secret_files(secret: &Secret) -> BTreeMap<String, Vec<u8>> {
    secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect()
}

/// Reads the expiry from a token's claims, to renew the token in time.
pub fn token_expiry(token: &str) -> Option<i64> {
    let claims = token.split('.').nth(1)?;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice::<serde_json::Value>(&bytes).ok()?["exp"].as_i64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "labels": {"app": "x"}},
            "spec": {"nodeName": "node", "containers": [{
                "name": "main",
                "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "C_"}],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "value": "$(A)-$(C_k)-$$(A)-$(NONE)"},
                    {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "p"}}},
                    {"name": "M", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
                ],
                "resources": {"limits": {"memory": "64Mi"}},
            }]},
        }))
        .unwrap()
    }

    fn references() -> References {
        let config: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "c"}, "data": {"k": "v"}})).unwrap();
        let secret: Secret =
            serde_json::from_value(json!({"metadata": {"name": "s"}, "data": {"p": "cXV4"}})).unwrap();
        References {
            config_maps: [("c".to_owned(), config.into())].into(),
            secrets: [("s".to_owned(), secret.into())].into(),
            capacity: Capacity::default(),
            ..References::default()
        }
    }

    #[test]
    fn variables_come_from_everywhere_and_expand() {
        let pod = pod();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let given = [("HOME".to_owned(), "/".to_owned())];
        let environment = environment(&pod, container, &references(), &given).unwrap();
        let get = |name: &str| environment[name].as_str();
        assert_eq!((get("A"), get("B")), ("1", "1-v-$(A)-$(NONE)"));
        assert_eq!((get("NAME"), get("APP"), get("S"), get("M")), ("p", "x", "qux", "67108864"));
        assert_eq!((get("HOME"), get("C_k")), ("/", "v"));
    }

    #[test]
    fn a_missing_key_is_named() {
        let pod = pod();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let mut references = references();
        references.secrets.clear();
        let error = environment(&pod, container, &references, &[]).unwrap_err();
        assert_eq!(error.to_string(), "couldn't find key p in Secret n/s");
    }
}
