//! A request and a cluster for unit tests.

use serde_json::Value;
use setpoint_api::Random;

use super::plugin::Plugin;
use super::request::{Cluster, Configuration, Operation, Request, Right};

/// A cluster with the objects of one resource, whose user may do what is listed.
pub(super) struct Objects {
    pub(super) resource: &'static str,
    pub(super) objects: Vec<Value>,
    pub(super) allowed: Vec<&'static str>,
}

impl Objects {
    pub(super) fn new(resource: &'static str, objects: Vec<Value>) -> Self {
        Objects { resource, objects, allowed: Vec::new() }
    }
}

impl Cluster for Objects {
    fn get(&self, _: &str, resource: &str, _: &str, name: &str) -> Option<Value> {
        let of_name = |object: &&Value| resource == self.resource && object["metadata"]["name"] == name;
        self.objects.iter().find(of_name).cloned()
    }

    fn list(&self, _: &str, resource: &str, _: &str) -> Vec<Value> {
        if resource == self.resource { self.objects.clone() } else { Vec::new() }
    }

    fn allows(&self, right: &Right<'_>) -> bool {
        let slash = if right.subresource.is_empty() { "" } else { "/" };
        let Right { verb, resource, subresource, name, .. } = right;
        self.allowed.contains(&format!("{verb} {resource}{slash}{subresource} {name}").as_str())
    }

    fn resources_of(&self, _: &str, _: &str, kind: &str) -> Vec<(String, bool)> {
        vec![(kind.to_lowercase() + "s", true)]
    }
}

/// Calls a test with a request for a resource (`pods`, `apps/deployments`, `pods/resize` of the core group).
pub(super) fn with_request<T>(
    group: &str,
    resource: &str,
    old: Option<&Value>,
    test: impl FnOnce(&Request<'_>) -> T,
) -> T {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    test(&Request {
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        group,
        version: "v1",
        resource,
        kind: "Kind",
        subresource,
        namespace: "ns",
        name: "x",
        user: "alice",
        old,
        random: &Random::from_seed(1),
        signs_tokens: true,
        configuration: &Configuration::without([] as [Plugin; 0]),
    })
}
