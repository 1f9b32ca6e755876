//! Label selectors of typed objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use setpoint::Object;

/// Labels of an object, as metadata carries them.
pub type Labels = BTreeMap<String, String>;

/// The labels of a cached object.
pub fn labels_of(object: &Object) -> Labels {
    object.labels().iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// An unknown operator, for which a selector selects nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a valid label selector operator")]
pub struct InvalidOperator(String);

/// Whether the selector has no requirement, hence selects everything.
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// Refuses a selector with an unknown operator.
pub fn check(selector: &LabelSelector) -> Result<(), InvalidOperator> {
    for requirement in selector.match_expressions.iter().flatten() {
        if !matches!(requirement.operator.as_str(), "In" | "NotIn" | "Exists" | "DoesNotExist") {
            return Err(InvalidOperator(requirement.operator.clone()));
        }
    }
    Ok(())
}

/// Whether the labels meet every requirement. An unknown operator matches nothing.
pub fn matches(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let value = |key: &str| labels.and_then(|labels| labels.get(key));
    let equal = selector.match_labels.iter().flatten().all(|(key, wanted)| value(key) == Some(wanted));
    equal
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let found = value(&requirement.key);
            let listed =
                found.is_some_and(|found| requirement.values.iter().flatten().any(|value| value == found));
            match requirement.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// Whether the labels contain every pair of an equality selector (a Service's, a template's labels).
pub fn contains(labels: Option<&Labels>, wanted: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: key.into(),
                operator: operator.into(),
                values: Some(values.iter().map(|v| v.to_string()).collect()),
            }]),
            ..Default::default()
        }
    }

    #[test]
    fn every_operator_decides_on_present_absent_and_other_values() {
        let (a, b, none) = (labels(&[("k", "a")]), labels(&[("k", "b")]), labels(&[]));
        for (operator, values, on_a, on_b, on_none) in [
            ("In", &["a"][..], true, false, false),
            ("NotIn", &["a"][..], false, true, true),
            ("Exists", &[][..], true, true, false),
            ("DoesNotExist", &[][..], false, false, true),
            ("Like", &["a"][..], false, false, false),
        ] {
            let selector = expression("k", operator, values);
            assert_eq!(matches(&selector, Some(&a)), on_a, "{operator} a");
            assert_eq!(matches(&selector, Some(&b)), on_b, "{operator} b");
            assert_eq!(matches(&selector, Some(&none)), on_none, "{operator} none");
            assert_eq!(matches(&selector, None), on_none, "{operator} nil");
            assert_eq!(check(&selector).is_ok(), operator != "Like");
        }
    }

    #[test]
    fn an_empty_selector_is_known_as_such() {
        assert!(is_empty(&LabelSelector::default()));
        assert!(is_empty(&LabelSelector {
            match_labels: Some(labels(&[])),
            match_expressions: Some(vec![])
        }));
        assert!(!is_empty(&LabelSelector {
            match_labels: Some(labels(&[("a", "b")])),
            ..Default::default()
        }));
    }
}
