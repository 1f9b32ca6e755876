//! Which webhooks a request is for.

use std::collections::BTreeMap;

use serde_json::Value;
use setpoint_api::selector::LabelSelector;

use super::attributes::Attributes;

/// One entry of `rules`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    groups: Vec<String>,
    versions: Vec<String>,
    operations: Vec<String>,
    resources: Vec<String>,
    scope: String,
    /// Only objects with these names, if there are any. Policies alone have them.
    names: Vec<String>,
}

/// What a rule is held against: the request's resource, or another that shows the same objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    /// Of a request about a Namespace, its name.
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

    /// Whether it is for the object of this name.
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

/// Whether the namespace of a request is among the selected ones; objects that live in none always are.
///
/// # Errors
/// The namespace is not there.
pub(crate) fn in_selected_namespace(
    selector: &LabelSelector,
    attributes: &Attributes,
) -> Result<bool, NamespaceMissing> {
    let is_namespace = attributes.resource == "namespaces";
    if (attributes.namespace.is_empty() && !is_namespace) || selector.is_everything() {
        return Ok(true);
    }
    // A Namespace that is written is judged by what it will be.
    if is_namespace && attributes.subresource.is_empty() && attributes.operation.writes() {
        return Ok(selects(selector, attributes.object.as_ref()));
    }
    let labels = attributes.namespace_labels.as_ref().ok_or(NamespaceMissing)?;
    Ok(selector.matches_by(|key| labels.get(key).map(String::as_str)))
}

/// The namespace of a request does not exist.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamespaceMissing;

/// Labels of a stored namespace.
pub(crate) type Labels = BTreeMap<String, String>;

/// Whether the object as it was or as it will be is selected.
pub(crate) fn selects_object(selector: &LabelSelector, attributes: &Attributes) -> bool {
    selector.is_everything()
        || selects(selector, attributes.object.as_ref())
        || selects(selector, attributes.old.as_ref())
}

fn selects(selector: &LabelSelector, object: Option<&Value>) -> bool {
    object.is_some_and(|object| selector.matches_object(object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::webhook::attributes::Operation;

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

    #[test]
    fn namespaces_are_selected_by_their_labels_and_what_lives_in_none_always() {
        let selector = LabelSelector::from_json(&json!({"matchLabels": {"a": "b"}})).unwrap();
        let mut attributes = Attributes {
            resource: "pods".into(),
            namespace: "d".into(),
            namespace_labels: Some(Labels::from([("a".into(), "b".into())])),
            ..Attributes::new(Operation::Create)
        };
        assert_eq!(in_selected_namespace(&selector, &attributes), Ok(true));
        attributes.namespace_labels = Some(Labels::new());
        assert_eq!(in_selected_namespace(&selector, &attributes), Ok(false));
        attributes.namespace_labels = None;
        assert_eq!(in_selected_namespace(&selector, &attributes), Err(NamespaceMissing));
        attributes.namespace = String::new();
        assert_eq!(in_selected_namespace(&selector, &attributes), Ok(true));
        attributes.resource = "namespaces".into();
        attributes.object = Some(json!({"metadata": {"labels": {"a": "c"}}}));
        assert_eq!(in_selected_namespace(&selector, &attributes), Ok(false));
        attributes.object = Some(json!({"metadata": {"labels": {"a": "b"}}}));
        assert_eq!(in_selected_namespace(&selector, &attributes), Ok(true));
    }

    #[test]
    fn an_object_is_selected_as_it_was_or_as_it_will_be() {
        let selector = LabelSelector::from_json(&json!({"matchLabels": {"a": "b"}})).unwrap();
        let (with, without) = (json!({"metadata": {"labels": {"a": "b"}}}), json!({"metadata": {}}));
        let judged = |object: Option<&Value>, old: Option<&Value>| {
            let attributes = Attributes::new(Operation::Update);
            let attributes = Attributes { object: object.cloned(), old: old.cloned(), ..attributes };
            selects_object(&selector, &attributes)
        };
        assert!(judged(Some(&with), Some(&without)));
        assert!(judged(Some(&without), Some(&with)));
        assert!(judged(None, Some(&with)));
        assert!(!judged(Some(&without), Some(&without)));
        assert!(!judged(None, None));
    }
}
