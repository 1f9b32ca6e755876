//! A decision: what a write comes to on one state of the store, or what must be asked before it can be made.

use setpoint_api::Status;

use crate::error::ApiError;

/// The result of a decision, or of a part of it.
pub(crate) type Decision<T> = Result<T, Stop>;

/// Why a decision ended early.
///
/// A transaction cannot wait for a webhook. A decision that needs one stops with what it needs;
/// [`crate::write::transaction`] asks, with no lock held, and has the write decided again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    /// The write is refused.
    #[error("{0}")]
    Refused(ApiError),
    /// A conversion webhook must be asked first.
    #[error("a conversion webhook must be asked first")]
    NeedsConversion,
    /// Admission policies or webhooks must be asked first.
    #[error("admission policies or webhooks must be asked first")]
    NeedsReview,
    /// The authorization webhook must be asked first.
    #[error("the authorization webhook must be asked first")]
    NeedsAuthorization,
}

impl Stop {
    /// A refusal with what the request was warned of before.
    pub(crate) fn with_warnings(self, warnings: &[String]) -> Self {
        match self {
            Stop::Refused(error) => Stop::Refused(error.with_warnings(warnings)),
            needs => needs,
        }
    }
}

impl From<ApiError> for Stop {
    fn from(error: ApiError) -> Self {
        Stop::Refused(error)
    }
}

impl From<Status> for Stop {
    fn from(status: Status) -> Self {
        Stop::Refused(status.into())
    }
}
