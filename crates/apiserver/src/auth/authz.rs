//! Authorization: RBAC, evaluated from the stored roles and bindings.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use setpoint_api::go_format::quote;
use setpoint_api::kind::GroupResource;
use setpoint_store::{Entry, KeyRange, Snapshot};

use crate::error::{ApiError, Result};
use crate::key;
use crate::registry::{self, meta};
use crate::request::RequestInfo;
use crate::user::UserInfo;

pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

/// The attributes of a request that authorization decides on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    /// The verb.
    pub verb: &'a str,
    /// Whether the request is for a resource, not for a path.
    pub is_resource: bool,
    /// API group.
    pub group: &'a str,
    /// API version. Roles do not name it.
    pub version: &'a str,
    /// Plural.
    pub resource: &'a str,
    /// Subresource, or empty.
    pub subresource: &'a str,
    /// Namespace, or empty.
    pub namespace: &'a str,
    /// Name, or empty.
    pub name: &'a str,
    /// The path of a non-resource request.
    pub path: &'a str,
}

impl<'a> Attributes<'a> {
    /// The attributes of a whole request.
    pub(super) fn of(info: &'a RequestInfo) -> Self {
        Attributes {
            verb: info.verb.as_str(),
            is_resource: info.is_resource,
            group: &info.group,
            version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
            path: &info.path,
        }
    }
}

/// One rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    #[serde(rename = "apiGroups")]
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    pub(crate) non_resource_urls: Vec<String>,
}

impl Rule {
    pub(super) fn allows(&self, wanted: &Attributes<'_>) -> bool {
        let has = |list: &[String], item: &str| list.iter().any(|own| own == "*" || own == item);
        if !has(&self.verbs, wanted.verb) {
            return false;
        }
        if !wanted.is_resource {
            return self.non_resource_urls.iter().any(|own| names_path(own, wanted.path));
        }
        has(&self.api_groups, wanted.group)
            && self.resources.iter().any(|own| names_resource(own, wanted))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|own| own == wanted.name))
    }
}

/// Whether a rule's path matches this one. The escalation check calls this for paths with a star too: a laxer match
/// there than here would let a rule grant what its author does not hold.
pub(super) fn names_path(own: &str, path: &str) -> bool {
    own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}

fn names_resource(own: &str, wanted: &Attributes<'_>) -> bool {
    if own == "*" {
        return true;
    }
    if wanted.subresource.is_empty() {
        return own == wanted.resource;
    }
    match own.split_once('/') {
        Some((resource, subresource)) => {
            (resource == "*" || resource == wanted.resource) && subresource == wanted.subresource
        }
        None => false,
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Role {
    #[serde(deserialize_with = "null_is_none")]
    rules: Vec<Rule>,
}

fn null_is_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Rule>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Binding {
    subjects: Option<Vec<Subject>>,
    role_ref: RoleRef,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RoleRef {
    pub(super) api_group: String,
    pub(super) kind: String,
    pub(super) name: String,
}

impl RoleRef {
    fn role(&self, snapshot: &Snapshot, namespace: &str) -> Option<Arc<Entry>> {
        let key = match self.kind.as_str() {
            "ClusterRole" => key::object(RBAC, "clusterroles", "", &self.name),
            _ => key::object(RBAC, "roles", namespace, &self.name),
        };
        snapshot.get(&key)
    }

    /// The rules of the role, if it exists.
    pub(super) fn rules(&self, snapshot: &Snapshot, namespace: &str) -> Option<Vec<Rule>> {
        self.role(snapshot, namespace).map(|role| stored_rules(&role))
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

impl Subject {
    fn is(&self, user: &UserInfo, namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => self.name == user.name,
            "Group" => user.is_in(&self.name),
            "ServiceAccount" => {
                let namespace = if self.namespace.is_empty() { namespace } else { &self.namespace };
                let account = user.name.strip_prefix("system:serviceaccount:");
                account.and_then(|rest| rest.split_once(':')) == Some((namespace, self.name.as_str()))
            }
            _ => false,
        }
    }
}

/// A role or binding, decoded once per stored version.
fn decoded<T: for<'de> Deserialize<'de> + Default + Send + Sync + 'static>(entry: &Entry) -> Option<&T> {
    registry::decoded(entry, |entry| serde_json::from_slice::<T>(&entry.value).unwrap_or_default())
}

fn stored_rules(role: &Entry) -> Vec<Rule> {
    decoded::<Role>(role).map(|role| role.rules.clone()).unwrap_or_default()
}

/// The rules of a role that is about to be stored.
pub(super) fn rules_of(role: &Value) -> Result<Vec<Rule>, serde_json::Error> {
    Role::deserialize(role).map(|role| role.rules)
}

/// The role that a binding which is about to be stored refers to.
pub(super) fn role_ref_of(binding: &Value) -> Result<RoleRef, serde_json::Error> {
    Binding::deserialize(binding).map(|binding| binding.role_ref)
}

/// A binding that applies to a user.
struct Bound<'a> {
    entry: &'a Entry,
    /// The namespace in which the binding applies; empty for all.
    namespace: &'a str,
    binding: &'a Binding,
    subject: &'a Subject,
}

impl Bound<'_> {
    fn why(&self) -> String {
        let (kind, place) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", String::new())
        } else {
            ("RoleBinding", format!("/{}", self.namespace))
        };
        let who = match self.subject.kind.as_str() {
            "ServiceAccount" => format!("{}/{}", self.subject.name, self.subject.namespace),
            _ => self.subject.name.clone(),
        };
        format!(
            "RBAC: allowed by {kind} \"{}{place}\" of {} \"{}\" to {} \"{who}\"",
            meta(self.entry).name,
            self.binding.role_ref.kind,
            self.binding.role_ref.name,
            self.subject.kind
        )
    }
}

/// Calls `each` with the bindings that apply to a user in a namespace (and everywhere) until `each` says stop.
fn visit_bindings(
    snapshot: &Snapshot,
    user: &UserInfo,
    namespace: &str,
    mut each: impl FnMut(&Bound<'_>) -> bool,
) {
    let mut visit = |entry: &Entry, namespace: &str| {
        let Some(binding) = decoded::<Binding>(entry) else { return true };
        let subject = binding.subjects.iter().flatten().find(|subject| subject.is(user, namespace));
        subject.is_none_or(|subject| each(&Bound { entry, namespace, binding, subject }))
    };
    let cluster = KeyRange::prefix(key::resource(RBAC, "clusterrolebindings"));
    if !snapshot.range(&cluster, None).all(|entry| visit(entry, "")) || namespace.is_empty() {
        return;
    }
    let mut prefix = key::resource(RBAC, "rolebindings");
    prefix.extend_from_slice(namespace.as_bytes());
    prefix.push(b'/');
    for entry in snapshot.range(&KeyRange::prefix(prefix), None) {
        if !visit(entry, namespace) {
            return;
        }
    }
}

/// Calls `each` with the rules that apply to a user in a namespace (and everywhere) until `each` says stop.
pub(crate) fn visit_rules(
    snapshot: &Snapshot,
    user: &UserInfo,
    namespace: &str,
    mut each: impl FnMut(&Rule, &dyn Fn() -> String) -> bool,
) {
    visit_bindings(snapshot, user, namespace, |bound| {
        let rules = bound.binding.role_ref.rules(snapshot, bound.namespace).unwrap_or_default();
        rules.iter().all(|rule| each(rule, &|| bound.why()))
    });
}

/// The rules that a user holds in a namespace (and everywhere).
pub(super) struct Held {
    pub(super) rules: Vec<Rule>,
    /// Roles that bindings name and that do not exist.
    pub(super) absent: Vec<String>,
}

/// All rules that apply to a user in a namespace (and everywhere).
pub(super) fn held(snapshot: &Snapshot, user: &UserInfo, namespace: &str) -> Held {
    let mut held = Held { rules: Vec::new(), absent: Vec::new() };
    visit_bindings(snapshot, user, namespace, |bound| {
        let role = &bound.binding.role_ref;
        match role.rules(snapshot, bound.namespace) {
            Some(rules) => held.rules.extend(rules),
            None if held.absent.contains(&role.name) => {}
            None => held.absent.push(role.name.clone()),
        }
        true
    });
    held
}

/// Names the binding by which RBAC grants a request, if one does.
pub(super) fn granted(snapshot: &Snapshot, user: &UserInfo, wanted: &Attributes<'_>) -> Option<String> {
    let mut found = None;
    visit_rules(snapshot, user, wanted.namespace, |rule, why| {
        if rule.allows(wanted) {
            found = Some(why());
        }
        found.is_none()
    });
    found
}

/// Returns the refusal of `wanted` in kube-apiserver's words; `why` is empty where RBAC just has no rule for it.
pub(super) fn refusal(user: &UserInfo, wanted: &Attributes<'_>, why: &str) -> ApiError {
    let (name, verb) = (quote(&user.name), wanted.verb);
    let (resource, text) = if wanted.is_resource {
        let mut resource = wanted.resource.to_owned();
        if !wanted.subresource.is_empty() {
            resource = format!("{resource}/{}", wanted.subresource);
        }
        let place = match wanted.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quote(namespace)),
        };
        let (resource, group) = (quote(&resource), quote(wanted.group));
        let text = format!("User {name} cannot {verb} resource {resource} in API group {group} {place}");
        (GroupResource::new(wanted.group, wanted.resource), text)
    } else {
        (GroupResource::default(), format!("User {name} cannot {verb} path {}", quote(wanted.path)))
    };
    // Browsers must not take the answer for HTML.
    let mut text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !why.is_empty() {
        text = format!("{text}: {why}");
    }
    ApiError::forbidden(&resource, if wanted.is_resource { wanted.name } else { "" }, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        Rule {
            verbs: owned(verbs),
            api_groups: owned(&[""]),
            resources: owned(resources),
            resource_names: owned(names),
            non_resource_urls: Vec::new(),
        }
    }

    fn ask<'a>(verb: &'a str, resource: &'a str, subresource: &'a str, name: &'a str) -> Attributes<'a> {
        Attributes { verb, is_resource: true, resource, subresource, name, ..Attributes::default() }
    }

    #[test]
    fn rules_match_verbs_resources_and_names() {
        assert!(rule(&["get"], &["pods"], &[]).allows(&ask("get", "pods", "", "x")));
        assert!(!rule(&["get"], &["pods"], &[]).allows(&ask("get", "pods", "log", "x")));
        assert!(rule(&["*"], &["pods/log"], &[]).allows(&ask("get", "pods", "log", "x")));
        assert!(rule(&["*"], &["*/log"], &[]).allows(&ask("get", "pods", "log", "x")));
        assert!(rule(&["*"], &["*"], &[]).allows(&ask("get", "pods", "log", "x")));
        assert!(!rule(&["get"], &["pods"], &["y"]).allows(&ask("get", "pods", "", "x")));
        assert!(!rule(&["list"], &["pods"], &["y"]).allows(&ask("list", "pods", "", "")));
    }

    #[test]
    fn paths_match_with_a_star_at_the_end() {
        let mut health = rule(&["get"], &[], &[]);
        health.non_resource_urls = vec!["/healthz/*".into()];
        let path = |path| Attributes { verb: "get", path, ..Attributes::default() };
        assert!(health.allows(&path("/healthz/etcd")));
        assert!(!health.allows(&path("/metrics")));
    }
}
