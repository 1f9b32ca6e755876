//! The five conditions that say why a namespace is still there.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NamespaceCondition;

use crate::object::time::whole_seconds;

/// The findings of one pass over the content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// The reason why some kinds could not be discovered.
    pub discovery_failure: Option<String>,
    /// Group versions that are none.
    pub parse_failure: Option<String>,
    pub delete_failures: Vec<String>,
    /// Objects left, by `resource.group`.
    pub remaining: BTreeMap<String, usize>,
    /// Objects left, by the finalizer they have.
    pub finalizers: BTreeMap<String, usize>,
}

impl Content {
    fn failure(&self, type_: &str) -> Option<(&'static str, String)> {
        let listed = |counts: &BTreeMap<String, usize>, text: &str| {
            let mut lines: Vec<String> = counts
                .iter()
                .map(|(what, count)| text.replace("{what}", what).replace("{count}", &count.to_string()))
                .collect();
            lines.sort_unstable();
            lines.join(", ")
        };
        match type_ {
            "NamespaceDeletionDiscoveryFailure" => Some(("DiscoveryFailed", self.discovery_failure.clone()?)),
            "NamespaceDeletionGroupVersionParsingFailure" => {
                Some(("GroupVersionParsingFailed", self.parse_failure.clone()?))
            }
            "NamespaceDeletionContentFailure" if !self.delete_failures.is_empty() => {
                let mut failures = self.delete_failures.clone();
                failures.sort_unstable();
                let (count, list) = (failures.len(), failures.join(", "));
                let message = format!("Failed to delete all resource types, {count} remaining: {list}");
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if !self.remaining.is_empty() => {
                let list = listed(&self.remaining, "{what} has {count} resource instances");
                Some(("SomeResourcesRemain", format!("Some resources are remaining: {list}")))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() => {
                let list = listed(&self.finalizers, "{what} in {count} resource instances");
                let message = format!("Some content in the namespace has finalizers remaining: {list}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}

/// Type, reason and message of each condition when all is well.
const WELL: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// The conditions after a pass, or none if they did not change.
pub fn conditions(
    before: &[NamespaceCondition],
    content: &Content,
    now: Timestamp,
) -> Option<Vec<NamespaceCondition>> {
    let mut after = before.to_vec();
    for (type_, reason, message) in WELL {
        let (status, reason, message) = match content.failure(type_) {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", reason, message.to_owned()),
        };
        let wanted = NamespaceCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(whole_seconds(now)),
        };
        match after.iter_mut().find(|condition| condition.type_ == type_) {
            None => after.push(wanted),
            Some(present) => {
                let since = present.last_transition_time.clone().filter(|_| present.status == wanted.status);
                *present = NamespaceCondition {
                    last_transition_time: since.or(wanted.last_transition_time),
                    ..wanted
                };
            }
        }
    }
    (after != before).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn all_five_are_said_and_change_only_with_their_content() {
        let content = Content {
            discovery_failure: Some("no groups".into()),
            delete_failures: vec!["b".into(), "a".into()],
            remaining: BTreeMap::from([("pods.".into(), 2), ("things.example.com".into(), 1)]),
            finalizers: BTreeMap::from([("example.com/hold".into(), 1)]),
            parse_failure: Some("bad/version/x".into()),
        };
        let first = conditions(&[], &content, at(1)).unwrap();
        let said: Vec<_> = first
            .iter()
            .map(|c| (c.status.as_str(), c.reason.as_deref().unwrap(), c.message.as_deref().unwrap()))
            .collect();
        assert_eq!(
            said,
            [
                ("True", "DiscoveryFailed", "no groups"),
                ("True", "GroupVersionParsingFailed", "bad/version/x"),
                ("True", "ContentDeletionFailed", "Failed to delete all resource types, 2 remaining: a, b"),
                (
                    "True",
                    "SomeResourcesRemain",
                    "Some resources are remaining: pods. has 2 resource instances, things.example.com has 1 resource instances"
                ),
                (
                    "True",
                    "SomeFinalizersRemain",
                    "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
                ),
            ]
        );
        assert_eq!(conditions(&first, &content, at(2)), None);
        // Fewer remain: the message changes, the time of transition does not.
        let fewer = Content { remaining: BTreeMap::from([("pods.".into(), 1)]), ..content };
        let second = conditions(&first, &fewer, at(3)).unwrap();
        assert_eq!(second[3].last_transition_time, first[3].last_transition_time);
        let done = conditions(&second, &Content::default(), at(4)).unwrap();
        assert!(done.iter().all(|condition| condition.status == "False"));
        assert_eq!(done[3].message.as_deref(), Some("All content successfully removed"));
        assert_ne!(done[3].last_transition_time, second[3].last_transition_time);
    }
}
