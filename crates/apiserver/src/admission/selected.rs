//! Whether the namespace and the object of a request are selected.

use serde_json::Value;
use setpoint_api::selector::LabelSelector;

use super::attributes::Attributes;

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
    use crate::admission::attributes::{Labels, Operation};

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
