//! The types that a client reads and writes.

use std::any::TypeId;
use std::borrow::Cow;

use kube::core::ApiResource;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A Kubernetes type of the program: a `k8s-openapi` struct, or one with `#[derive(CustomResource)]`.
/// Implemented for all of them.
pub trait Kind:
    kube::Resource<DynamicType = (), Scope: 'static>
    + Serialize
    + DeserializeOwned
    + Clone
    + std::fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// Its group, version, kind and plural.
    fn api_resource() -> ApiResource {
        ApiResource::erase::<Self>(&())
    }

    /// Its kind, as the manifest says it.
    fn kind_name() -> Cow<'static, str> {
        Self::kind(&())
    }

    /// Whether its objects live in namespaces.
    fn namespaced() -> bool {
        TypeId::of::<Self::Scope>() != TypeId::of::<k8s_openapi::ClusterResourceScope>()
    }
}

impl<K> Kind for K where
    K: kube::Resource<DynamicType = (), Scope: 'static>
        + Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug
        + Send
        + Sync
        + 'static
{
}

/// The path of a collection or object on the server.
pub(crate) fn path(
    resource: &ApiResource,
    namespace: Option<&str>,
    name: Option<&str>,
    subresource: Option<&str>,
) -> String {
    let mut path = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    if let Some(namespace) = namespace {
        path.push_str("/namespaces/");
        path.push_str(namespace);
    }
    path.push('/');
    path.push_str(&resource.plural);
    for part in [name, subresource].into_iter().flatten() {
        path.push('/');
        path.push_str(part);
    }
    path
}

/// A query string; values are escaped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(String);

impl Parameters {
    pub(crate) fn push(&mut self, name: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    self.0.push(byte as char)
                }
                _ => self.0.push_str(&format!("%{byte:02X}")),
            }
        }
    }

    pub(crate) fn push_some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.push(name, value);
        }
    }

    pub(crate) fn append_to(self, path: &mut String) {
        path.push_str(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Node;

    #[test]
    fn paths_are_those_of_the_api() {
        let deployment = Deployment::api_resource();
        assert_eq!(
            path(&deployment, Some("default"), Some("web"), Some("scale")),
            "/apis/apps/v1/namespaces/default/deployments/web/scale"
        );
        assert!(Deployment::namespaced() && !Node::namespaced());
        assert_eq!(path(&deployment, None, None, None), "/apis/apps/v1/deployments");
        assert_eq!(path(&Node::api_resource(), None, Some("n"), None), "/api/v1/nodes/n");
        let mut parameters = Parameters::default();
        parameters.push("labelSelector", "app in (a,b)");
        parameters.push_some("limit", Some("5"));
        let mut path = String::from("/api");
        parameters.append_to(&mut path);
        assert_eq!(path, "/api?labelSelector=app%20in%20%28a%2Cb%29&limit=5");
    }
}
