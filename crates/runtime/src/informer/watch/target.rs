//! The objects that an informer watches.

use std::collections::{BTreeMap, BTreeSet};

use kube::Resource;
use kube::core::ApiResource;

use crate::informer::cache::{LabelMatcher, SelectorError};
use crate::key::Key;
use crate::request_path::path;

/// The namespaces that an informer covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Namespaces {
    /// All of them with one watch; also for kinds that live outside namespaces.
    #[default]
    All,
    /// These, with one watch each.
    Named(BTreeSet<String>),
    /// Those whose labels match this selector, with one watch each, as they come and go.
    Labelled(String),
}

/// A kind and what part of it: informers with the same target share one watch and one cache.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use setpoint::Target;
/// let target = Target::of::<Pod>().in_namespace("default").labels("app=web");
/// assert_eq!(target.resource.plural, "pods");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Target {
    /// The kind.
    pub resource: ApiResource,
    /// The namespaces.
    pub namespaces: Namespaces,
    /// Label selector, as the API takes it.
    pub labels: Option<String>,
    /// Field selector, as the API takes it.
    pub fields: Option<String>,
    /// Ask the server for metadata alone: spec and status are not cached, nor sent by a server that can leave them out.
    pub metadata_only: bool,
}

impl Target {
    /// All objects of a kind that is known at compile time.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Target::resource(ApiResource::erase::<K>(&()))
    }

    /// All objects of a kind that is known at run time.
    pub fn resource(resource: ApiResource) -> Self {
        Target { resource, namespaces: Namespaces::All, labels: None, fields: None, metadata_only: false }
    }

    /// Only one namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        self.in_namespaces([namespace.to_owned()])
    }

    /// Only these namespaces, with a watch each.
    #[must_use]
    pub fn in_namespaces(self, namespaces: impl IntoIterator<Item = String>) -> Self {
        Target { namespaces: Namespaces::Named(namespaces.into_iter().collect()), ..self }
    }

    /// Only the namespaces that carry matching labels, as they come and go.
    #[must_use]
    pub fn in_namespaces_labelled(self, selector: &str) -> Self {
        Target { namespaces: Namespaces::Labelled(selector.to_owned()), ..self }
    }

    /// Only objects that match a label selector.
    #[must_use]
    pub fn labels(self, selector: &str) -> Self {
        Target { labels: Some(selector.to_owned()), ..self }
    }

    /// Only objects that match a field selector.
    #[must_use]
    pub fn fields(self, selector: &str) -> Self {
        Target { fields: Some(selector.to_owned()), ..self }
    }

    /// Metadata alone.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Target { metadata_only: true, ..self }
    }

    /// Whether its label selectors can be read. The server would refuse each request of one that cannot.
    ///
    /// # Errors
    /// When one cannot.
    pub fn validate(&self) -> Result<(), SelectorError> {
        let namespaces = match &self.namespaces {
            Namespaces::Labelled(selector) => Some(selector),
            Namespaces::All | Namespaces::Named(_) => None,
        };
        self.labels.iter().chain(namespaces).try_for_each(|selector| LabelMatcher::parse(selector).map(drop))
    }

    /// Whether an object with this key and these labels surely appears in a cache of this target, in the namespaces that
    /// it covers. What a field selector finds by anything but the key cannot be judged from here: the answer is no.
    pub(crate) fn surely_selects(&self, key: &Key, labels: &BTreeMap<String, String>) -> bool {
        let labels_match = self.labels.as_deref().is_none_or(|selector| {
            LabelMatcher::parse(selector)
                .is_ok_and(|matcher| matcher.matches(|key| labels.get(key).map(String::as_str)))
        });
        labels_match && self.fields.as_deref().is_none_or(|selector| surely_has_fields(key, selector))
    }

    /// The path of the collection below the server's root.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        path(&self.resource, namespace, None, None)
    }

    /// Orders targets, which the kind itself does not.
    pub(crate) fn identity(&self) -> (&str, &str, &Namespaces, Option<&str>, Option<&str>) {
        let ApiResource { api_version, plural, .. } = &self.resource;
        (api_version, plural, &self.namespaces, self.labels.as_deref(), self.fields.as_deref())
    }
}

/// Whether the fields that every kind can be selected by match, and no others are asked for.
fn surely_has_fields(key: &Key, selector: &str) -> bool {
    selector.split(',').all(|term| {
        let (field, wanted, equal) = match (term.split_once("!="), term.split_once("==")) {
            (Some((field, wanted)), _) => (field, wanted, false),
            (None, Some((field, wanted))) => (field, wanted, true),
            (None, None) => match term.split_once('=') {
                Some((field, wanted)) => (field, wanted, true),
                None => return false,
            },
        };
        let found = match field {
            "metadata.name" => key.name(),
            "metadata.namespace" => key.namespace().unwrap_or_default(),
            _ => return false,
        };
        // Names have no character that a selector would escape.
        (found == wanted) == equal
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn what_a_field_selector_finds_by_the_key_is_known() {
        let key = Key::new(Some("n"), "a");
        for (selector, expected) in [
            ("metadata.name=a", true),
            ("metadata.name==a,metadata.namespace=n", true),
            ("metadata.name!=b", true),
            ("metadata.name=b", false),
            ("metadata.name!=a", false),
            ("metadata.name=a,metadata.namespace=m", false),
            ("metadata.name=a,spec.nodeName=x", false),
            ("spec.nodeName!=x", false),
            ("metadata.name", false),
        ] {
            let target = Target::of::<Pod>().fields(selector);
            assert_eq!(target.surely_selects(&key, &BTreeMap::new()), expected, "{selector}");
        }
    }
}
