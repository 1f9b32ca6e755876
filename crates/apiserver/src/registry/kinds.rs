//! The built-in resources, as the server handles them, from the schema table.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use setpoint_kinds::facts::Facts;
use setpoint_schema::builtin;

use super::{Name, Resource, Rules, Subresource};
use crate::key;

/// Every built-in resource by group, version and plural. Made once a process, shared by all servers.
pub(super) fn builtins() -> &'static BTreeMap<Name, Arc<Resource>> {
    static BUILTINS: OnceLock<BTreeMap<Name, Arc<Resource>>> = OnceLock::new();
    BUILTINS.get_or_init(|| {
        let served = builtin().resources().iter().filter(|resource| is_served(resource));
        let named = served.map(|resource| {
            let name = (resource.group.to_owned(), resource.version.to_owned(), resource.plural.to_owned());
            (name, Arc::new(handled(resource)))
        });
        named.collect()
    })
}

/// kube-apiserver serves only stable versions unless told otherwise.
fn is_served(resource: &setpoint_schema::Resource) -> bool {
    !resource.version.contains("alpha") && !resource.version.contains("beta")
}

fn owned(texts: &[&'static str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn handled(resource: &setpoint_schema::Resource) -> Resource {
    // Both groups' events are one set of objects, and so are both versions' autoscalers.
    let stored_group = if resource.plural == "events" { "" } else { resource.group };
    let stored_version = if resource.plural == "horizontalpodautoscalers" { "v2" } else { resource.version };
    let api_version = |group: &str, version: &str| {
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
    };
    let subresources = resource.subresources.iter().map(|sub| Subresource {
        name: sub.name.to_owned(),
        group_version: sub.group_version.map(|(group, version)| (group.to_owned(), version.to_owned())),
        kind: sub.kind.to_owned(),
        verbs: owned(&sub.verbs),
    });
    Resource {
        group: resource.group.to_owned(),
        version: resource.version.to_owned(),
        kind: resource.kind.to_owned(),
        list_kind: format!("{}List", resource.kind),
        plural: resource.plural.to_owned(),
        singular: resource.singular.to_owned(),
        namespaced: resource.namespaced,
        verbs: owned(&resource.verbs),
        short_names: owned(&resource.short_names),
        categories: owned(&resource.categories),
        storage_version_hash: resource.storage_version_hash.unwrap_or_default().to_owned(),
        subresources: subresources.collect(),
        storage_api_version: api_version(stored_group, stored_version),
        prefix: key::resource(stored_group, resource.plural),
        rules: Rules::builtin(resource.group, resource.plural, &resource.verbs),
        facts: Facts::builtin(resource.group, resource.kind)
            .copied()
            .unwrap_or_else(|| other(resource.namespaced)),
        custom: None,
    }
}

/// A kind that has no row of its own: plain data.
fn other(namespaced: bool) -> Facts {
    Facts { unconditional_update: true, custom: false, ..Facts::custom(namespaced, false) }
}
