//! The requests that a webhook or a policy applies to.

use serde_json::Value;
use setpoint_api::selector::{LabelSelector, SelectorError};

/// Rules and selectors.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) rules: Vec<Rule>,
    /// The requests that are excluded, whatever the rules say.
    pub(crate) excluded: Vec<Rule>,
    /// Whether an empty list of rules matches everything.
    pub(crate) open: bool,
    /// Whether rules match only the request's own resource (`matchPolicy: Exact`).
    pub(crate) exact: bool,
    pub(crate) namespaces: Result<LabelSelector, SelectorError>,
    pub(crate) objects: Result<LabelSelector, SelectorError>,
}

impl Scope {
    /// The scope of a webhook.
    pub(crate) fn of_hook(hook: &Value) -> Self {
        Scope::read(hook, "rules", false)
    }

    /// The scope of a policy's `matchConstraints`, or of a binding's `matchResources`.
    pub(crate) fn of_policy(resources: &Value) -> Self {
        Scope::read(resources, "resourceRules", true)
    }

    fn read(value: &Value, rules: &str, open: bool) -> Self {
        let list = |field: &str| value.get(field).and_then(Value::as_array).into_iter().flatten();
        let selector = |field: &str| match value.get(field).filter(|selector| !selector.is_null()) {
            None => Ok(LabelSelector::everything()),
            Some(selector) => LabelSelector::from_json(selector),
        };
        Scope {
            rules: list(rules).map(Rule::read).collect(),
            excluded: list("excludeResourceRules").map(Rule::read).collect(),
            open,
            exact: value.get("matchPolicy").is_some_and(|policy| policy == "Exact"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }
}

/// One entry of `rules`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    groups: Vec<String>,
    versions: Vec<String>,
    operations: Vec<String>,
    resources: Vec<String>,
    scope: String,
    /// The names of the objects that the rule is for; empty for all. Only rules of policies have names.
    names: Vec<String>,
}

/// The target that a rule is matched against: the request's resource, or another that shows the same objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    /// The namespace of the request. For a request about a Namespace it is the Namespace's own name.
    pub(crate) namespace: &'a str,
    pub(crate) operation: &'a str,
}

impl Rule {
    pub(crate) fn read(rule: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let list = rule.get(field).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Rule {
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            operations: texts("operations"),
            resources: texts("resources"),
            scope: rule.get("scope").and_then(Value::as_str).unwrap_or("*").to_owned(),
            names: texts("resourceNames"),
        }
    }

    pub(crate) fn matches(&self, target: &Target<'_>) -> bool {
        let any = |list: &[String], wanted: &str| list.iter().any(|own| own == "*" || own == wanted);
        self.in_scope(target)
            && any(&self.operations, target.operation)
            && any(&self.groups, target.group)
            && any(&self.versions, target.version)
            && self.resources.iter().any(|own| {
                let (resource, subresource) = own.split_once('/').unwrap_or((own, ""));
                (resource == "*" || resource == target.resource)
                    && (subresource == "*" || subresource == target.subresource)
            })
    }

    /// Whether the rule is for the object of this name.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|own| own == name)
    }

    fn in_scope(&self, target: &Target<'_>) -> bool {
        let is_namespace = (target.group, target.version, target.resource) == ("", "v1", "namespaces");
        let in_namespace = !is_namespace && !target.namespace.is_empty();
        match self.scope.as_str() {
            "*" => true,
            "Namespaced" => in_namespace,
            "Cluster" => !in_namespace,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target<'a>(resource: &'a str, subresource: &'a str, namespace: &'a str) -> Target<'a> {
        Target { group: "", version: "v1", resource, subresource, namespace, operation: "CREATE" }
    }

    fn rule(resources: &[&str], scope: &str) -> Rule {
        Rule::read(&json!({"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE", "DELETE"],
            "resources": resources, "scope": scope}))
    }

    #[test]
    fn resources_and_their_subresources_are_named_apart() {
        for (resources, sub, expected) in [
            (["pods"], "", true),
            (["pods"], "status", false),
            (["pods/*"], "status", true),
            (["pods/*"], "", true),
            (["*"], "status", false),
            (["*/*"], "status", true),
            (["*/status"], "status", true),
            (["pods/exec"], "status", false),
            (["services/*"], "status", false),
        ] {
            assert_eq!(
                rule(&resources, "*").matches(&target("pods", sub, "d")),
                expected,
                "{resources:?} {sub}"
            );
        }
    }

    #[test]
    fn groups_versions_and_operations_must_all_match() {
        let rule = rule(&["*"], "*");
        assert!(rule.matches(&target("pods", "", "d")));
        assert!(!rule.matches(&Target { operation: "UPDATE", ..target("pods", "", "d") }));
        assert!(!rule.matches(&Target { group: "apps", ..target("pods", "", "d") }));
    }

    #[test]
    fn a_namespace_is_cluster_scoped_although_its_requests_name_it() {
        assert!(rule(&["*"], "Cluster").matches(&target("namespaces", "", "d")));
        assert!(!rule(&["*"], "Namespaced").matches(&target("namespaces", "", "d")));
        assert!(rule(&["*"], "Namespaced").matches(&target("pods", "", "d")));
        assert!(!rule(&["*"], "Cluster").matches(&target("pods", "", "d")));
        assert!(rule(&["*"], "Cluster").matches(&target("nodes", "", "")));
    }
}
