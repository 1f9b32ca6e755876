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

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Node;

    #[test]
    fn a_type_knows_whether_it_lives_in_namespaces() {
        assert!(Deployment::namespaced() && !Node::namespaced());
    }
}
