//! The version that a watch has reached.

use crate::revision::Revision;

/// A resourceVersion; numbers are kept as such because one comes with every event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Version {
    Number(Revision),
    Text(String),
}

impl Version {
    pub(super) fn text(&self) -> String {
        match self {
            Version::Number(number) => number.to_string(),
            Version::Text(text) => text.clone(),
        }
    }
}
