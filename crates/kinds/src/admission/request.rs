//! A request as plugins see it, and the cluster that they look at.

use std::collections::BTreeSet;

use serde_json::Value;
use setpoint_api::Random;
use setpoint_api::kind::GroupResource;
use setpoint_api::status::Status;

use super::plugin::Plugin;
use super::pod_security_standards::PodSecurity;

/// The operations that plugins see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The object is new.
    Create,
    /// The object, or a part of it, changes.
    Update,
}

/// A write that is to be admitted.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Whether the object is new.
    pub operation: Operation,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The API version.
    pub version: &'a str,
    /// The plural of the resource.
    pub resource: &'a str,
    /// The kind of the resource.
    pub kind: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The name. Of a name that the server generates, plugins see only the beginning before webhooks were asked.
    pub name: &'a str,
    /// The user's name.
    pub user: &'a str,
    /// The stored object; none for a new one.
    pub old: Option<&'a Value>,
    /// The source of generated names.
    pub random: &'a Random,
    /// Whether the server signs tokens, so that pods can mount one.
    pub signs_tokens: bool,
    /// The plugins that are on, and their settings.
    pub configuration: &'a Configuration,
}

impl Request<'_> {
    /// Whether the request is for a resource itself and not for a subresource.
    pub(super) fn is_for(&self, group: &str, resource: &str) -> bool {
        self.is_for_part(group, resource, "")
    }

    /// Whether the request is for a subresource.
    pub(super) fn is_for_part(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.group == group && self.resource == resource && self.subresource == subresource
    }

    /// Whether the object is new.
    pub(super) fn creates(&self) -> bool {
        self.operation == Operation::Create
    }

    /// A refusal in the words of kube-apiserver's `admission.NewForbidden`.
    pub(super) fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(&self.group_resource(), self.name, why)
    }

    pub(super) fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group, self.resource)
    }
}

/// A right that a plugin asks for: a verb on a resource.
#[derive(Clone, Copy, Debug, Default)]
pub struct Right<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The API version. Roles do not name it.
    pub version: &'a str,
    /// The plural of the resource.
    pub resource: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

/// The state of the cluster that plugins look at. Kinds are named by group and plural.
pub trait Cluster {
    /// One object; the namespace is empty for kinds that live in none.
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value>;
    /// All objects of a kind, or those in a namespace if it is not empty, sorted by name.
    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Value>;
    /// Whether the user of the request has a right.
    fn allows(&self, right: &Right<'_>) -> bool;
    /// The resources of a kind: plural, and whether they live in namespaces.
    fn resources_of(&self, group: &str, version: &str, kind: &str) -> Vec<(String, bool)>;
}

/// The plugins that are on, and their settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The plugins that are on. One that is not implemented has no effect.
    pub plugins: BTreeSet<Plugin>,
    /// The seconds for which pods tolerate a node that is not ready, if they do not say it.
    pub not_ready_toleration_seconds: i64,
    /// The seconds for which pods tolerate a node that is unreachable, if they do not say it.
    pub unreachable_toleration_seconds: i64,
    /// The settings of PodSecurity.
    pub pod_security: PodSecurity,
}

impl Configuration {
    /// Whether a plugin is on.
    pub fn is_on(&self, plugin: Plugin) -> bool {
        self.plugins.contains(&plugin)
    }

    /// kube-apiserver's defaults, without some plugins.
    pub fn without(off: impl IntoIterator<Item = Plugin>) -> Self {
        let mut configuration = Configuration::default();
        for plugin in off {
            configuration.plugins.remove(&plugin);
        }
        configuration
    }
}
