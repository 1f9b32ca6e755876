//! Label selectors (text and JSON form) and field selectors: parse, match, print, with Kubernetes' error texts.

mod field;
mod label;
mod lexer;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelSelector, Operator, Requirement};

/// Why a selector was refused, in Kubernetes' words. The server answers it with a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);
