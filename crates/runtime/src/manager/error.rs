//! Errors of declarations.

use crate::informer::SelectorError;

/// What cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// Metrics and logs would not tell them apart.
    #[error("a controller named {0:?} exists already: choose another name with `.named(..)`")]
    NameTaken(String),
    /// `owns` needs the kind that owns.
    #[error("controller {0:?} owns something but has no kind of its own: begin with `Controller::for_kind`")]
    NoKind(String),
    /// Nothing would ever queue a request.
    #[error("controller {0:?} watches nothing")]
    NoSource(String),
    /// `with_predicate` does not follow a source whose events it could filter.
    #[error(
        "controller {0:?} has a predicate that filters nothing: `with_predicate` follows `for_kind`, `owns` or \
         `watches`; `with_predicate_for_all` filters all of them"
    )]
    MisplacedPredicate(String),
    /// The server would refuse what the controller asks for, again and again.
    #[error("controller {controller:?}: {error}")]
    Selector {
        /// The controller's name.
        controller: String,
        /// What is wrong with a selector.
        error: SelectorError,
    },
    /// The manager has stopped.
    #[error("the manager has stopped")]
    Stopped,
}
