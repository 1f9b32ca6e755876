//! Label selectors, unpacked once and matched often.

use std::sync::Arc;

use kube::core::{Expression, Selector};
use setpoint_api::selector::{LabelSelector, Operator};

use super::labels::Labels;

pub use setpoint_api::selector::SelectorError;

/// A label selector.
///
/// ```
/// use setpoint::informer::LabelMatcher;
/// let matcher = LabelMatcher::parse("app in (web, api),!canary,tier!=test")?;
/// assert!(matcher.matches(|key| (key == "app").then_some("web")));
/// assert!(!matcher.matches(|key| (key == "app").then_some("batch")));
/// # Ok::<(), setpoint::informer::SelectorError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelMatcher(Arc<LabelSelector>);

impl LabelMatcher {
    /// Reads a selector in the form that the API and kubectl take: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
    ///
    /// # Errors
    /// When it has not that form; in Kubernetes' words.
    pub fn parse(selector: &str) -> Result<Self, SelectorError> {
        LabelSelector::parse(selector).map(|selector| LabelMatcher(Arc::new(selector)))
    }

    /// Whether it has no expression, and so matches every object.
    pub fn matches_everything(&self) -> bool {
        self.0.is_everything()
    }

    /// Whether an object matches whose labels `label` looks up.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.matches_by(label)
    }

    /// Whether an object with these labels matches.
    pub fn matches_labels(&self, labels: &Labels) -> bool {
        self.matches(|key| labels.get(key))
    }
}

impl From<Selector> for LabelMatcher {
    fn from(selector: Selector) -> Self {
        let requirements = selector.into_iter().map(|expression| match expression {
            Expression::In(key, values) => (key, Operator::In, values.into_iter().collect()),
            Expression::NotIn(key, values) => (key, Operator::NotIn, values.into_iter().collect()),
            Expression::Equal(key, value) => (key, Operator::Equals, vec![value]),
            Expression::NotEqual(key, value) => (key, Operator::NotEquals, vec![value]),
            Expression::Exists(key) => (key, Operator::Exists, Vec::new()),
            Expression::DoesNotExist(key) => (key, Operator::DoesNotExist, Vec::new()),
        });
        LabelMatcher(Arc::new(LabelSelector::from_requirements(requirements)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &'static str)]) -> bool {
        let find = |wanted: &str| labels.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
        LabelMatcher::parse(selector).unwrap().matches(find)
    }

    #[test]
    fn selectors_follow_kubernetes_rules_for_absent_keys() {
        let labels = [("app", "web"), ("empty", "")];
        for selector in [
            "",
            "app",
            "app=web",
            "app==web",
            "app in (web,api)",
            "absent notin (web)",
            "absent!=x",
            "!absent",
            "empty=",
            "empty in (,x)",
            " app = web , !absent ",
        ] {
            assert!(matches(selector, &labels), "{selector:?}");
        }
        for selector in
            ["absent", "absent=x", "absent in (x)", "!app", "app!=web", "app notin (web,api)", "app=web,x"]
        {
            assert!(!matches(selector, &labels), "{selector:?}");
        }
    }

    #[test]
    fn malformed_selectors_are_refused() {
        for selector in
            ["=x", "app in web", "app in (web", "app maybe (web)", "a b", "!", "a=b=c", "a>b", "_a"]
        {
            assert!(LabelMatcher::parse(selector).is_err(), "{selector:?}");
        }
    }

    #[test]
    fn numbers_are_compared() {
        let labels = [("size", "12"), ("name", "x")];
        assert!(matches("size>3", &labels) && matches("size<13", &labels));
        assert!(!matches("size>12", &labels) && !matches("name>3", &labels) && !matches("absent<3", &labels));
    }

    #[test]
    fn a_selector_of_kube_matches_like_its_text() {
        let selector: Selector =
            [Expression::NotIn("a".into(), ["1".into()].into()), Expression::Exists("b".into())]
                .into_iter()
                .collect();
        let matcher = LabelMatcher::from(selector);
        assert_eq!(matcher, LabelMatcher::parse("a notin (1),b").unwrap());
    }
}
