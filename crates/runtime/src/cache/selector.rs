//! Label selectors, unpacked once and matched often.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::core::{Expression, Selector};

use super::labels::Labels;

/// A label selector.
///
/// ```
/// use setpoint::LabelMatcher;
/// let matcher = LabelMatcher::parse("app in (web, api),!canary,tier!=test")?;
/// assert!(matcher.matches(|key| (key == "app").then_some("web")));
/// assert!(!matcher.matches(|key| (key == "app").then_some("batch")));
/// # Ok::<(), setpoint::SelectorError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelMatcher(Arc<[Expression]>);

/// A text that is no label selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse requirement {requirement:?} of the label selector")]
pub struct SelectorError {
    /// The part that could not be read.
    pub requirement: String,
}

impl LabelMatcher {
    /// Reads a selector in the form that the API and kubectl take: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    ///
    /// # Errors
    /// When a part has none of these forms.
    pub fn parse(selector: &str) -> Result<Self, SelectorError> {
        split_requirements(selector)
            .into_iter()
            .map(parse_requirement)
            .collect::<Result<Vec<_>, _>>()
            .map(|expressions| LabelMatcher(expressions.into()))
    }

    /// Whether it has no expression, and so matches every object.
    pub fn matches_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object matches whose labels `label` looks up.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|expression| match expression {
            Expression::In(key, values) => label(key).is_some_and(|value| values.contains(value)),
            Expression::NotIn(key, values) => label(key).is_none_or(|value| !values.contains(value)),
            Expression::Equal(key, wanted) => label(key) == Some(wanted),
            Expression::NotEqual(key, unwanted) => label(key) != Some(unwanted),
            Expression::Exists(key) => label(key).is_some(),
            Expression::DoesNotExist(key) => label(key).is_none(),
        })
    }

    /// Whether an object with these labels matches.
    pub fn matches_labels(&self, labels: &Labels) -> bool {
        self.matches(|key| labels.get(key))
    }
}

impl From<Selector> for LabelMatcher {
    fn from(selector: Selector) -> Self {
        LabelMatcher(selector.into_iter().collect())
    }
}

/// Splits at the commas that are not inside parentheses.
fn split_requirements(selector: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = selector.split(move |character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn parse_requirement(requirement: &str) -> Result<Expression, SelectorError> {
    let malformed = || SelectorError { requirement: requirement.to_owned() };
    let expression = if let Some(key) = requirement.strip_prefix('!') {
        Expression::DoesNotExist(key.trim().to_owned())
    } else if let Some((head, values)) = requirement.split_once('(') {
        let values: BTreeSet<String> = values
            .strip_suffix(')')
            .ok_or_else(malformed)?
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect();
        match head.split_whitespace().collect::<Vec<_>>()[..] {
            [key, "in"] => Expression::In(key.to_owned(), values),
            [key, "notin"] => Expression::NotIn(key.to_owned(), values),
            _ => return Err(malformed()),
        }
    } else if let Some((key, value)) = requirement.split_once("!=") {
        Expression::NotEqual(key.trim().to_owned(), value.trim().to_owned())
    } else if let Some((key, value)) = requirement.split_once("==").or_else(|| requirement.split_once('=')) {
        Expression::Equal(key.trim().to_owned(), value.trim().to_owned())
    } else {
        Expression::Exists(requirement.to_owned())
    };
    if key_of(&expression).is_empty() || key_of(&expression).contains(char::is_whitespace) {
        return Err(malformed());
    }
    Ok(expression)
}

fn key_of(expression: &Expression) -> &str {
    match expression {
        Expression::In(key, _) | Expression::NotIn(key, _) | Expression::Equal(key, _) => key,
        Expression::NotEqual(key, _) | Expression::Exists(key) | Expression::DoesNotExist(key) => key,
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
        for selector in ["=x", "app in web", "app in (web", "app maybe (web)", "a b", "!"] {
            assert!(LabelMatcher::parse(selector).is_err(), "{selector:?}");
        }
    }
}
