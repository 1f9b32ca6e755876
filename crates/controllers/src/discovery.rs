//! Which kinds the server has, custom ones included.

use std::collections::BTreeMap;

use http::Request;
use kube::core::ApiResource;
use serde::Deserialize;

/// A kind as the server offers it, in the version it prefers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerResource {
    pub resource: ApiResource,
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

impl ServerResource {
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|present| present == verb)
    }
}

/// The discovered kinds. The result names groups whose server does not answer, and contains the rest.
#[derive(Debug, Default)]
pub struct Discovered {
    pub resources: Vec<ServerResource>,
    /// Group versions that could not be discovered.
    pub failed: Vec<String>,
}

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GroupList {
    kind: String,
    items: Vec<Group>,
    /// The older form: groups with their versions' names only.
    groups: Vec<LegacyGroup>,
    versions: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Group {
    metadata: Named,
    versions: Vec<Version>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Version {
    version: String,
    resources: Vec<Offered>,
    freshness: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Offered {
    resource: String,
    response_kind: ResponseKind,
    scope: String,
    verbs: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponseKind {
    kind: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LegacyGroup {
    preferred_version: LegacyVersion,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LegacyVersion {
    group_version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LegacyResources {
    resources: Vec<LegacyResource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LegacyResource {
    name: String,
    kind: String,
    namespaced: bool,
    verbs: Vec<String>,
}

/// Returns all kinds of the server, each in the first version that has it.
///
/// # Errors
/// When the server does not answer at all.
pub async fn discover(client: &kube::Client) -> Result<Discovered, kube::Error> {
    let mut found = Discovered::default();
    for root in ["/api", "/apis"] {
        let list: GroupList = get(client, root).await?;
        if list.kind == "APIGroupDiscoveryList" {
            list.items.into_iter().for_each(|group| take_group(group, &mut found));
            continue;
        }
        let core = list.versions.into_iter().map(|version| (format!("/api/{version}"), version));
        let groups = list.groups.into_iter().map(|group| group.preferred_version.group_version);
        for (path, version) in core.chain(groups.map(|version| (format!("/apis/{version}"), version))) {
            match get::<LegacyResources>(client, &path).await {
                Ok(list) => take_legacy(&version, list, &mut found),
                Err(_) => found.failed.push(version),
            }
        }
    }
    Ok(found)
}

async fn get<T: serde::de::DeserializeOwned>(client: &kube::Client, path: &str) -> Result<T, kube::Error> {
    let request = Request::get(path).header(http::header::ACCEPT, AGGREGATED).body(Vec::new());
    client.request(request.map_err(kube::Error::HttpError)?).await
}

fn take_group(group: Group, found: &mut Discovered) {
    let name = group.metadata.name;
    // Versions come in the server's order of preference; a kind is taken from the first that has it.
    let mut taken = BTreeMap::new();
    for version in group.versions {
        let group_version = join(&name, &version.version);
        if version.freshness == "Stale" {
            found.failed.push(group_version);
            continue;
        }
        for offered in version.resources {
            if taken.insert(offered.resource.clone(), ()).is_some() {
                continue;
            }
            let resource = ApiResource {
                group: name.clone(),
                version: version.version.clone(),
                api_version: group_version.clone(),
                kind: offered.response_kind.kind,
                plural: offered.resource,
            };
            let namespaced = offered.scope == "Namespaced";
            found.resources.push(ServerResource { resource, namespaced, verbs: offered.verbs });
        }
    }
}

fn take_legacy(group_version: &str, list: LegacyResources, found: &mut Discovered) {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    for offered in list.resources.into_iter().filter(|offered| !offered.name.contains('/')) {
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: group_version.to_owned(),
            kind: offered.kind,
            plural: offered.name,
        };
        found.resources.push(ServerResource {
            resource,
            namespaced: offered.namespaced,
            verbs: offered.verbs,
        });
    }
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_taken_from_the_preferred_version_and_stale_groups_are_named() {
        let json = serde_json::json!({
            "metadata": { "name": "example.com" },
            "versions": [
                { "version": "v2", "freshness": "Current", "resources": [
                    { "resource": "things", "responseKind": { "kind": "Thing" }, "scope": "Namespaced", "verbs": ["list"] }] },
                { "version": "v1", "freshness": "Current", "resources": [
                    { "resource": "things", "responseKind": { "kind": "Thing" }, "scope": "Namespaced", "verbs": ["list"] },
                    { "resource": "olds", "responseKind": { "kind": "Old" }, "scope": "Cluster", "verbs": [] }] },
                { "version": "v1alpha1", "freshness": "Stale", "resources": [] },
            ],
        });
        let mut found = Discovered::default();
        take_group(serde_json::from_value(json).unwrap(), &mut found);
        let kinds: Vec<_> = found
            .resources
            .iter()
            .map(|r| (r.resource.api_version.as_str(), r.resource.kind.as_str(), r.namespaced))
            .collect();
        assert_eq!(kinds, [("example.com/v2", "Thing", true), ("example.com/v1", "Old", false)]);
        assert_eq!(found.failed, ["example.com/v1alpha1"]);
        assert!(found.resources[0].can("list") && !found.resources[1].can("list"));
    }

    #[test]
    fn the_older_form_leaves_subresources_out() {
        let list = serde_json::json!({ "resources": [
            { "name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["list"] },
            { "name": "pods/status", "kind": "Pod", "namespaced": true, "verbs": ["get"] }] });
        let mut found = Discovered::default();
        take_legacy("v1", serde_json::from_value(list).unwrap(), &mut found);
        assert_eq!(found.resources.len(), 1);
        assert_eq!(found.resources[0].resource.plural, "pods");
    }
}
