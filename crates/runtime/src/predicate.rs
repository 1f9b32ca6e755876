//! Predicates: which events queue a key at all.
//!
//! A predicate sees what happened and the object before and after, as the cache has it: metadata costs nothing,
//! the rest is decoded only if the predicate asks for it. Predicates never reduce what is cached.

use std::fmt;
use std::sync::Arc;

use kube::core::Selector;

use crate::informer::{LabelMatcher, Object};
use crate::queue::Trigger;

/// One event on its way to the queue.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The event.
    pub trigger: Trigger,
    /// The object before, if the cache had it.
    pub old: Option<&'a Object>,
    /// The object now, if it exists.
    pub new: Option<&'a Object>,
}

impl<'a> Change<'a> {
    /// The object now, or as it was last seen.
    pub fn object(&self) -> Option<&'a Object> {
        self.new.or(self.old)
    }

    /// Old and new, without repetition of one and the same.
    pub fn objects(&self) -> impl Iterator<Item = &'a Object> {
        self.old.into_iter().chain(self.new)
    }

    /// Old and new, if this is an update.
    pub fn update(&self) -> Option<(&'a Object, &'a Object)> {
        self.old.zip(self.new)
    }
}

/// Says whether an event matters. Combine with [`Predicate::and`], [`Predicate::or`] and [`Predicate::not`].
///
/// ```
/// use setpoint::predicate::{self, Predicate};
/// let mine = Predicate::new(|event| event.object().is_some_and(|object| object.name() != "kube-root-ca.crt"));
/// let predicate = predicate::generation_changed().or(predicate::labels_changed()).and(mine);
/// # let _ = predicate;
/// ```
#[derive(Clone)]
pub struct Predicate(Arc<dyn Fn(&Change<'_>) -> bool + Send + Sync>);

impl Predicate {
    /// A predicate of one's own. It must be quick and must not wait: most events are tested where they come in, before the
    /// next one is read, so that a slow one holds up the watch of its kind for every handler. It may read caches and
    /// subscribe to informers.
    pub fn new(test: impl Fn(&Change<'_>) -> bool + Send + Sync + 'static) -> Self {
        Predicate(Arc::new(test))
    }

    /// A predicate that only filters updates; everything else passes.
    pub fn on_update(test: impl Fn(&Object, &Object) -> bool + Send + Sync + 'static) -> Self {
        Predicate::new(move |event| event.update().is_none_or(|(old, new)| test(old, new)))
    }

    /// Whether the event matters.
    pub fn test(&self, event: &Change<'_>) -> bool {
        (self.0)(event)
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Predicate) -> Self {
        Predicate::new(move |event| self.test(event) && other.test(event))
    }

    /// Either.
    #[must_use]
    pub fn or(self, other: Predicate) -> Self {
        Predicate::new(move |event| self.test(event) || other.test(event))
    }

    /// The opposite.
    #[must_use]
    #[allow(clippy::should_implement_trait)]
    pub fn not(self) -> Self {
        Predicate::new(move |event| !self.test(event))
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

/// Passes updates that changed `metadata.resourceVersion`: drops resyncs.
pub fn resource_version_changed() -> Predicate {
    Predicate::on_update(|old, new| {
        let texts = || old.revision() == 0 && old.resource_version() != new.resource_version();
        old.revision() != new.revision() || old.uid() != new.uid() || texts()
    })
}

/// Passes updates that changed `metadata.generation`: the spec, not the status.
///
/// The start of a deletion raises the generation too. A new object under an old name passes.
pub fn generation_changed() -> Predicate {
    Predicate::on_update(|old, new| {
        old.generation() != new.generation()
            || old.uid() != new.uid()
            || old.is_terminating() != new.is_terminating()
    })
}

/// Passes updates that changed a label.
pub fn labels_changed() -> Predicate {
    Predicate::on_update(|old, new| old.labels() != new.labels())
}

/// Passes updates that changed an annotation.
pub fn annotations_changed() -> Predicate {
    Predicate::on_update(|old, new| old.annotations_hash() != new.annotations_hash())
}

/// Passes events of objects that `selector` matches, before or after the change.
pub fn matches(selector: Selector) -> Predicate {
    let matcher = LabelMatcher::from(selector);
    Predicate::new(move |event| event.objects().any(|object| matcher.matches_labels(object.labels())))
}

/// Drops the periodic resync.
pub fn no_resync() -> Predicate {
    Predicate::new(|event| event.trigger != Trigger::Resync)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Expression;

    fn object(generation: u32, label: &str, version: u32) -> Object {
        let json = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": "a", "namespace": "b", "uid": "u", "generation": generation,
            "resourceVersion": version.to_string(), "labels": {"app": label}, "annotations": {"note": label}}});
        Object::from_json(&serde_json::to_vec(&json).unwrap()).unwrap()
    }

    fn update(predicate: &Predicate, old: &Object, new: &Object) -> bool {
        predicate.test(&Change { trigger: Trigger::Updated, old: Some(old), new: Some(new) })
    }

    #[test]
    fn updates_are_filtered_by_what_changed() {
        let old = object(1, "x", 5);
        let status = object(1, "x", 6);
        let spec = object(2, "x", 6);
        let label = object(1, "y", 6);
        assert!(!update(&resource_version_changed(), &old, &old));
        assert!(update(&resource_version_changed(), &old, &status));
        let opaque = |version: &str| {
            let json = format!(r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"{version}"}}}}"#);
            Object::from_json(json.as_bytes()).unwrap()
        };
        assert!(update(&resource_version_changed(), &opaque("x-1"), &opaque("x-2")));
        assert!(!update(&resource_version_changed(), &opaque("x-1"), &opaque("x-1")));
        assert!(!update(&generation_changed(), &old, &status));
        assert!(update(&generation_changed(), &old, &spec));
        assert!(!update(&labels_changed(), &old, &spec));
        assert!(update(&labels_changed(), &old, &label));
        assert!(update(&annotations_changed(), &old, &label));
        assert!(update(&generation_changed().or(labels_changed()), &old, &label));
        assert!(!update(&generation_changed().and(labels_changed()), &old, &label));
        assert!(update(&generation_changed().not(), &old, &label));
    }

    #[test]
    fn creations_and_deletions_pass_the_change_predicates() {
        let object = object(1, "x", 5);
        for event in [
            Change { trigger: Trigger::Added, old: None, new: Some(&object) },
            Change { trigger: Trigger::Deleted, old: Some(&object), new: None },
        ] {
            for predicate in [generation_changed(), labels_changed(), annotations_changed()] {
                assert!(predicate.test(&event));
            }
        }
    }

    #[test]
    fn a_selector_matches_what_was_or_is() {
        let selector = || Expression::Equal("app".into(), "x".into()).into();
        let (was, is) = (object(1, "x", 1), object(1, "y", 2));
        assert!(update(&matches(selector()), &was, &is));
        assert!(!update(&matches(selector()), &is, &is));
    }
}
