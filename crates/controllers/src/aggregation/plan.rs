//! Computes the rules of an aggregated role, and the roles that a change concerns.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::object::selector::{Labels, matches};

fn selectors(role: &ClusterRole) -> impl Iterator<Item = &LabelSelector> {
    role.aggregation_rule.iter().flat_map(|rule| rule.cluster_role_selectors.iter().flatten())
}

/// Whether an aggregated role has the rules of one with these labels.
pub fn selects(role: &ClusterRole, labels: &Labels) -> bool {
    selectors(role).any(|selector| matches(selector, Some(labels)))
}

/// The rules that an aggregated role should have, if it has others: selector by selector, of each the roles by name,
/// every rule once.
pub fn plan<'a>(role: &ClusterRole, all: &'a [&'a ClusterRole]) -> Option<Vec<&'a PolicyRule>> {
    role.aggregation_rule.as_ref()?;
    let mut sorted = all.to_vec();
    sorted.sort_by_key(|other| other.metadata.name.as_deref());
    let mut rules: Vec<&PolicyRule> = Vec::new();
    for selector in selectors(role) {
        let others = sorted.iter().filter(|other| other.metadata.name != role.metadata.name);
        for other in others.filter(|other| matches(selector, other.metadata.labels.as_ref())) {
            for rule in other.rules.iter().flatten() {
                if !rules.iter().any(|known| says_the_same(known, rule)) {
                    rules.push(rule);
                }
            }
        }
    }
    let present: Vec<&PolicyRule> = role.rules.iter().flatten().collect();
    let same = rules.len() == present.len()
        && rules.iter().zip(present).all(|(wanted, present)| says_the_same(wanted, present));
    (!same).then_some(rules)
}

/// Whether two rules are the same: an empty list is none.
fn says_the_same(one: &PolicyRule, other: &PolicyRule) -> bool {
    let lists = |rule: &PolicyRule| {
        let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        [
            list(&rule.api_groups),
            list(&rule.resources),
            list(&rule.resource_names),
            list(&rule.non_resource_urls),
            rule.verbs.clone(),
        ]
    };
    lists(one) == lists(other)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn role(name: &str, label: &str, rules: Value) -> ClusterRole {
        let role = json!({ "metadata": { "name": name, "labels": { "x": label } }, "rules": rules });
        serde_json::from_value(role).unwrap()
    }

    fn rule(resource: &str, verb: &str) -> Value {
        json!({ "apiGroups": [""], "resources": [resource], "verbs": [verb] })
    }

    fn aggregated(label: &str, selectors: Value, rules: Value) -> ClusterRole {
        let mut role = role("all", label, rules);
        let rule = json!({ "clusterRoleSelectors": selectors });
        role.aggregation_rule = Some(serde_json::from_value(rule).unwrap());
        role
    }

    fn planned(role: &ClusterRole, all: &[ClusterRole]) -> Option<Value> {
        let all: Vec<&ClusterRole> = all.iter().chain([role]).collect();
        plan(role, &all).map(|rules| json!(rules))
    }

    /// Recorded behaviour of kube-controller-manager 1.37.
    #[test]
    fn rules_come_by_selector_then_by_name_and_once() {
        let first = role("a1", "1", json!([rule("pods", "get"), rule("pods", "list")]));
        let path = json!({ "nonResourceURLs": ["/x"], "verbs": ["get"] });
        let mut named = rule("secrets", "list");
        named["resourceNames"] = json!([]);
        let second = role("a2", "2", json!([rule("pods", "get"), named, path]));
        let selectors = json!([{ "matchLabels": { "x": "2" } },
            { "matchExpressions": [{ "key": "x", "operator": "In", "values": ["1", "2"] }] }]);
        let expected = json!([rule("pods", "get"), named, path, rule("pods", "list")]);
        let all = [second, first];
        let role = aggregated("none", selectors.clone(), json!([rule("gone", "get")]));
        assert_eq!(planned(&role, &all), Some(expected));
        let plain = [rule("pods", "get"), rule("secrets", "list"), path, rule("pods", "list")];
        assert_eq!(planned(&aggregated("none", selectors, json!(plain)), &all), None);
    }

    #[test]
    fn a_role_does_not_gather_from_itself_and_may_gather_nothing() {
        let itself = json!([{ "matchLabels": { "x": "1" } }]);
        let role = aggregated("1", itself.clone(), json!([rule("pods", "get")]));
        assert_eq!(planned(&role, &[]), Some(json!([])));
        assert_eq!(planned(&aggregated("1", itself, Value::Null), &[]), None);
        assert_eq!(planned(&self::role("plain", "1", json!([rule("pods", "get")])), &[]), None);
    }

    #[test]
    fn an_empty_selector_selects_every_role() {
        let all = [role("a", "1", json!([rule("pods", "get")]))];
        let role = aggregated("", json!([{}]), Value::Null);
        assert_eq!(planned(&role, &all), Some(json!([rule("pods", "get")])));
        assert!(selects(&role, &Labels::new()));
    }
}
