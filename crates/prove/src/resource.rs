//! Names of resources and objects, as kubectl writes them.

use serde::{Deserialize, Serialize};

/// One object: `statefulsets.apps`, its namespace, its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectName {
    /// The resource with its group: `configmaps`, `statefulsets.apps`.
    pub resource: String,
    /// The namespace. Empty for cluster-wide objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.resource, self.name)
    }
}

/// Resources whose writes are no work: leader election, heartbeats and Events.
const BACKGROUND: [&str; 4] = ["leases.coordination.k8s.io", "events", "events.events.k8s.io", NODES];
/// The resource of the heartbeats.
pub const NODES: &str = "nodes";

/// Returns whether writes of a resource may go on at rest.
pub fn is_background(resource: &str) -> bool {
    BACKGROUND.contains(&resource)
}

/// Returns the name of a resource with its group.
pub fn resource(group: &str, plural: &str) -> String {
    // The store keeps custom objects apart from built-in ones of the same name.
    let plural = plural.trim_end_matches(":custom");
    if group.is_empty() || group == "core" { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// Reads a key of the store: `/registry/GROUP/PLURAL/NAMESPACE/NAME` or `/registry/GROUP/PLURAL/NAME`.
pub fn of_key(key: &[u8]) -> Option<ObjectName> {
    let text = std::str::from_utf8(key).ok()?.strip_prefix("/registry/")?;
    let mut parts = text.split('/');
    let (group, plural) = (parts.next()?, parts.next()?);
    let (first, second) = (parts.next()?, parts.next());
    let (namespace, name) = match second {
        Some(name) => (first, name),
        None => ("", first),
    };
    let resource = resource(group, plural);
    Some(ObjectName { resource, namespace: namespace.to_owned(), name: name.to_owned() })
}

/// Reads the path of a request: the object and its subresource. A collection has an empty name.
pub fn of_path(path: &str) -> Option<(ObjectName, String)> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    let _version = parts.next()?;
    let mut rest: Vec<&str> = parts.collect();
    let namespace = match rest.as_slice() {
        ["namespaces", namespace, _, ..] if !matches!(rest.get(2), Some(&"status" | &"finalize")) => {
            let namespace = (*namespace).to_owned();
            rest.drain(..2);
            namespace
        }
        _ => String::new(),
    };
    let plural = rest.first()?;
    let name = rest.get(1).copied().unwrap_or_default().to_owned();
    let subresource = rest.get(2).copied().unwrap_or_default().to_owned();
    Some((ObjectName { resource: resource(group, plural), namespace, name }, subresource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_paths_name_the_same_object() {
        let key = of_key(b"/registry/apps/statefulsets/default/a").unwrap();
        let (path, subresource) = of_path("/apis/apps/v1/namespaces/default/statefulsets/a/status").unwrap();
        assert_eq!((key.to_string(), subresource.as_str()), ("statefulsets.apps/a".into(), "status"));
        assert_eq!(key, path);
        let namespace = of_path("/api/v1/namespaces/default").unwrap().0;
        assert_eq!(of_key(b"/registry/core/namespaces/default"), Some(namespace));
        assert_eq!(of_path("/version"), None);
        let list = of_path("/api/v1/namespaces/default/pods").unwrap().0;
        assert_eq!((list.resource.as_str(), list.name.as_str()), ("pods", ""));
    }
}
