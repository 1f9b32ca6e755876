//! Errors of declarations.

use crate::informer::SelectorError;

/// The reasons why a controller cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// Metrics and logs would not tell them apart.
    #[error("a controller named {0:?} exists already: choose another name with `.named(..)`")]
    NameTaken(String),
    /// A watch by owner and a predicate of the controller's own kind need that kind.
    #[error(
        "controller {0:?} has no kind of its own, so it owns and filters nothing: begin with `Controller::for_kind`"
    )]
    NoKind(String),
    /// Nothing would ever queue a key.
    #[error("controller {0:?} watches nothing")]
    NoSource(String),
    /// The server would refuse what the controller asks for, again and again.
    #[error("controller {controller:?}: {error}")]
    Selector {
        /// The controller's name.
        controller: String,
        /// The error of the selector.
        error: SelectorError,
    },
    /// The webhooks contradict each other, or would be asked about what they need themselves.
    #[error("webhooks: {0}")]
    Webhook(String),
    /// The manager has stopped.
    #[error("the manager has stopped")]
    Stopped,
}
