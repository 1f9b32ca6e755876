//! Refuses configurations that would ask the operator about its own Secret or Lease: without the Secret it serves no
//! webhook, and without its webhook it could not write the Secret.

use std::collections::BTreeMap;

use serde_json::Value;

/// The label that the API server puts on each namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// An object that the operator must be able to write before its webhooks answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnObject {
    pub(super) group: &'static str,
    pub(super) resource: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Returns why a configuration is refused, if it would match one of these objects.
pub(super) fn refusal(configuration: &Value, own: &[OwnObject]) -> Option<String> {
    let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
    webhooks.flat_map(|webhook| own.iter().map(move |object| (webhook, object))).find_map(|(webhook, object)| {
        let OwnObject { resource, namespace, name, .. } = object;
        matches(webhook, object).then(|| {
            format!(
                "the webhook {} of {} {} would be asked about the operator's own {resource} {namespace}/{name}, which \
                 must be written before webhooks answer: exclude the namespace by namespaceSelector, with {NAMESPACE_NAME}",
                webhook["name"], configuration["kind"], configuration["metadata"]["name"]
            )
        })
    })
}

/// Whether a webhook would be asked about a write of this object. Match conditions are not looked at.
fn matches(webhook: &Value, own: &OwnObject) -> bool {
    let mut rules = webhook["rules"].as_array().into_iter().flatten();
    let namespace = BTreeMap::from([(NAMESPACE_NAME, own.namespace.as_str())]);
    rules.any(|rule| rule_matches(rule, own))
        // The operator knows one label of its namespace, and may not read the others.
        && selects(&webhook["namespaceSelector"], &namespace, true)
        // The operator puts no labels on the object.
        && selects(&webhook["objectSelector"], &BTreeMap::new(), false)
}

fn rule_matches(rule: &Value, own: &OwnObject) -> bool {
    let any = |field: &str, wanted: &dyn Fn(&str) -> bool| {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).any(wanted)
    };
    any("apiGroups", &|group| group == "*" || group == own.group)
        && any("operations", &|operation| ["*", "CREATE", "UPDATE"].contains(&operation))
        && rule["scope"] != "Cluster"
        && any("resources", &|resource| {
            let (resource, sub) = resource.split_once('/').unwrap_or((resource, ""));
            (resource == "*" || resource == own.resource) && ["", "*"].contains(&sub)
        })
}

/// Whether a label selector selects an object with these labels. With `others`, the object may have further labels of any
/// value.
fn selects(selector: &Value, labels: &BTreeMap<&str, &str>, others: bool) -> bool {
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.all(|(key, value)| match labels.get(key.as_str()) {
        Some(label) => value == label,
        None => others,
    }) && expressions.all(|expression| {
        let label = labels.get(expression["key"].as_str().unwrap_or_default());
        let mut values = expression["values"].as_array().into_iter().flatten();
        match (expression["operator"].as_str(), label) {
            (_, None) if others => true,
            (Some("In"), Some(label)) => values.any(|value| value == label),
            (Some("NotIn"), Some(label)) => !values.any(|value| value == label),
            (Some("In" | "Exists"), label) => label.is_some(),
            (Some("DoesNotExist"), label) => label.is_none(),
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_refused(change: impl Fn(&mut Value)) -> bool {
        let mut webhook = json!({"name": "a.b.c", "rules": [{
            "apiGroups": [""], "resources": ["secrets"], "operations": ["CREATE"], "scope": "Namespaced",
        }]});
        change(&mut webhook);
        let own =
            [OwnObject { group: "", resource: "secrets", namespace: "cafe".into(), name: "tls".into() }];
        refusal(&json!({"kind": "X", "metadata": {"name": "y"}, "webhooks": [webhook]}), &own).is_some()
    }

    #[test]
    fn a_rule_that_matches_is_refused_unless_a_selector_leaves_the_namespace_out() {
        assert!(is_refused(|_| ()));
        for (field, value, refused) in [
            ("apiGroups", json!(["apps"]), false),
            ("apiGroups", json!(["*"]), true),
            ("resources", json!(["pods", "secrets/status"]), false),
            ("resources", json!(["*"]), true),
            ("resources", json!(["*/*"]), true),
            ("operations", json!(["DELETE"]), false),
            ("operations", json!(["*"]), true),
            ("scope", json!("Cluster"), false),
            ("scope", json!("*"), true),
        ] {
            assert_eq!(
                is_refused(|webhook| webhook["rules"][0][field] = value.clone()),
                refused,
                "{field} {value}"
            );
        }
        let name = "kubernetes.io/metadata.name";
        let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, refused) in [
            (json!({"matchLabels": {name: "other"}}), false),
            (json!({"matchLabels": {name: "cafe"}}), true),
            (json!({"matchLabels": {"team": "x"}}), true),
            (expression(name, "NotIn", json!(["cafe"])), false),
            (expression(name, "NotIn", json!(["other"])), true),
            (expression(name, "In", json!(["other"])), false),
            (expression(name, "DoesNotExist", json!(null)), false),
            (expression("team", "Exists", json!(null)), true),
        ] {
            assert_eq!(
                is_refused(|webhook| webhook["namespaceSelector"] = selector.clone()),
                refused,
                "{selector}"
            );
        }
        for (selector, refused) in [
            (json!({"matchLabels": {"checked": "yes"}}), false),
            (expression("checked", "Exists", json!(null)), false),
            (expression("skip", "DoesNotExist", json!(null)), true),
            (expression("skip", "NotIn", json!(["yes"])), true),
        ] {
            assert_eq!(
                is_refused(|webhook| webhook["objectSelector"] = selector.clone()),
                refused,
                "{selector}"
            );
        }
    }
}
