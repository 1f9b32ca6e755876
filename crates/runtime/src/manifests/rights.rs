//! The rights that an operator needs, read off what it watches and what it sends.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Rule;
use crate::informer::{Namespaces, Target};

/// Subresources of a namespace: after `namespaces/NAME` anything else is a resource within it.
const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];

/// One verb on one resource, as RBAC knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The API group; empty for the core one.
    pub group: String,
    /// The resource, with its subresource behind a slash.
    pub resource: String,
    /// The verb.
    pub verb: String,
}

impl Right {
    /// A right.
    pub fn new(group: &str, resource: &str, verb: &str) -> Self {
        Right { group: group.to_owned(), resource: resource.to_owned(), verb: verb.to_owned() }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => write!(f, "{} {}", self.verb, self.resource),
            group => write!(f, "{} {}.{group}", self.verb, self.resource),
        }
    }
}

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The path, without the query.
    pub path: &'a str,
    /// The query.
    pub query: &'a str,
    /// The HTTP status of the answer.
    pub status: u16,
}

/// The resource that a path names.
struct Place<'a> {
    group: &'a str,
    resource: String,
    namespace: Option<&'a str>,
    named: bool,
}

impl Answered<'_> {
    /// Returns the rights that the request needed: none for a path that is no resource. A request that is a patch or an
    /// update and made the object needed the right to create it too.
    ///
    /// ```
    /// use setpoint::manifests::{Answered, Right};
    ///
    /// let path = "/apis/apps/v1/namespaces/default/deployments/web";
    /// let applied = Answered { method: "PATCH", path, query: "fieldManager=me", status: 201 };
    /// let rights = [Right::new("apps", "deployments", "patch"), Right::new("apps", "deployments", "create")];
    /// assert_eq!(applied.rights(), rights);
    /// ```
    pub fn rights(&self) -> Vec<Right> {
        let Some(place) = place(self.path) else { return Vec::new() };
        let watches = self.query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1");
        let verb = match (self.method, place.named) {
            ("GET" | "HEAD", true) => "get",
            ("GET" | "HEAD", false) if watches => "watch",
            ("GET" | "HEAD", false) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "delete",
            ("DELETE", false) => "deletecollection",
            _ => return Vec::new(),
        };
        let made = matches!(verb, "update" | "patch") && self.status == 201;
        let verbs = [Some(verb), made.then_some("create")];
        verbs.into_iter().flatten().map(|verb| Right::new(place.group, &place.resource, verb)).collect()
    }

    /// The namespace of the request.
    pub fn namespace(&self) -> Option<&str> {
        place(self.path)?.namespace
    }
}

/// Reads a path as kube-apiserver does for authorization.
fn place(path: &str) -> Option<Place<'_>> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, resource, ..] if !OF_NAMESPACES.contains(resource) => {
            (Some(*namespace), &rest[2..])
        }
        ["namespaces", namespace, ..] => (Some(*namespace), rest),
        rest => (None, rest),
    };
    let resource = match rest {
        [] | [""] => return None,
        [resource] | [resource, _] => (*resource).to_owned(),
        [resource, _, subresource, ..] => format!("{resource}/{subresource}"),
    };
    Some(Place { group, resource, namespace, named: rest.len() > 1 })
}

/// A set of rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights(BTreeSet<Right>);

impl Rights {
    /// The rights that rules give.
    pub fn of(rules: &[Rule]) -> Self {
        let mut rights = BTreeSet::new();
        for Rule { group, resources, verbs } in rules {
            for resource in resources {
                rights.extend(verbs.iter().map(|verb| Right::new(group, resource, verb)));
            }
        }
        Rights(rights)
    }

    /// Adds a right.
    pub fn add(&mut self, right: Right) {
        self.0.insert(right);
    }

    /// Adds those that an informer needs: to watch, and to list where the server does not stream the first state.
    pub fn add_watch(&mut self, target: &Target) {
        let resource = &target.resource;
        for verb in ["list", "watch"] {
            self.add(Right::new(&resource.group, &resource.plural, verb));
            if matches!(target.namespaces, Namespaces::Labelled(_)) {
                self.add(Right::new("", "namespaces", verb));
            }
        }
    }

    /// Whether it has a right.
    pub fn contains(&self, right: &Right) -> bool {
        self.0.contains(right)
    }

    /// Its rights in order.
    pub fn iter(&self) -> impl Iterator<Item = &Right> {
        self.0.iter()
    }

    /// Those that another set lacks.
    pub fn without<'a>(&'a self, other: &'a Rights) -> impl Iterator<Item = &'a Right> {
        self.0.difference(&other.0)
    }

    /// The rules that give them, one for each resource.
    pub fn rules(&self) -> Vec<Rule> {
        let mut verbs: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for Right { group, resource, verb } in &self.0 {
            verbs.entry((group, resource)).or_default().push(verb);
        }
        verbs.into_iter().map(|((group, resource), verbs)| Rule::new(group, &[resource], &verbs)).collect()
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Rights(rights.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn needed(method: &str, path: &str, query: &str, status: u16) -> String {
        let rights = Answered { method, path, query, status }.rights();
        rights.iter().map(Right::to_string).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_request_needs_what_the_server_asks_rbac_for() {
        let pods = "/api/v1/namespaces/default/pods";
        for (method, path, query, status, rights) in [
            ("GET", pods, "limit=500", 200, "list pods"),
            ("GET", pods, "allowWatchBookmarks=true&watch=true", 200, "watch pods"),
            ("GET", pods, "fieldSelector=metadata.name%3Dwatch=true", 200, "list pods"),
            ("GET", "/api/v1/namespaces/default/pods/a", "", 404, "get pods"),
            ("DELETE", "/api/v1/namespaces/default/pods/a", "", 200, "delete pods"),
            ("DELETE", pods, "", 200, "deletecollection pods"),
            ("POST", "/api/v1/namespaces/default/pods/a/eviction", "", 201, "create pods/eviction"),
            (
                "PUT",
                "/apis/apps/v1/namespaces/x/deployments/a/status",
                "",
                200,
                "update deployments/status.apps",
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/x/deployments/a",
                "",
                201,
                "patch deployments.apps, create deployments.apps",
            ),
            ("GET", "/api/v1/namespaces", "", 200, "list namespaces"),
            ("GET", "/api/v1/namespaces/default", "", 200, "get namespaces"),
            ("PUT", "/api/v1/namespaces/default/finalize", "", 200, "update namespaces/finalize"),
            ("GET", "/apis/apps/v1", "", 200, ""),
            ("GET", "/version", "", 200, ""),
        ] {
            assert_eq!(needed(method, path, query, status), rights, "{method} {path}");
        }
        let answered = Answered { method: "GET", path: pods, query: "", status: 200 };
        assert_eq!(answered.namespace(), Some("default"));
    }

    #[test]
    fn rights_become_rules_and_rules_rights() {
        let mut rights = Rights::default();
        rights.add_watch(&Target::of::<Pod>());
        rights.add(Right::new("apps", "deployments", "get"));
        let rules = rights.rules();
        assert_eq!(
            rules,
            [Rule::new("", &["pods"], &["list", "watch"]), Rule::new("apps", &["deployments"], &["get"])]
        );
        assert_eq!(Rights::of(&rules), rights);
        assert_eq!(Rule::parse(&Rule::print(&rules)).unwrap(), rules);
        let more = Rights::of(&[Rule::new("", &["pods"], &["delete", "list"])]);
        let missing: Vec<_> = more.without(&rights).map(Right::to_string).collect();
        assert_eq!(missing, ["delete pods"]);
    }
}
