//! Which failures of a reflector are told, and when they have ended.

use tokio::time::Instant;

use crate::informer::failure::WatchFailure;
use crate::repeated::Repeated;

/// The failures of a reflector. Most never have one, so an informer keeps them beside its state.
#[derive(Default)]
pub(super) struct Failures {
    /// The failure of each verb, until it goes well again.
    failing: Vec<(&'static str, WatchFailure)>,
    /// Failures that were told in the last minute: a watch may fail and recover again and again.
    repeated: Repeated<&'static str>,
    /// A failure was told whose end was not.
    told: bool,
}

impl Failures {
    /// Notes a failure. Returns how often it was not told since it was told last, if it is to be told now.
    pub(super) fn failed(&mut self, verb: &'static str, failure: &WatchFailure, now: Instant) -> Option<u64> {
        // A failure that lasts is told once, not at each try. A client without a right mostly lacks it for both verbs.
        let is_known = self.failing.iter().any(|(_, known)| known.is_like(failure));
        self.failing.retain(|(failing, _)| *failing != verb);
        self.failing.push((verb, failure.clone()));
        // A version that the server has no more is part of its life.
        let is_usual = matches!(failure, WatchFailure::Expired(_) | WatchFailure::TooLarge(_));
        if is_known || is_usual {
            return None;
        }
        let untold = self.repeated.failed(verb, &failure.to_string(), now)?;
        self.told = true;
        Some(untold)
    }

    /// Notes a success. Returns whether a failure that was told has ended by it.
    pub(super) fn succeeded(&mut self, verb: &'static str) -> bool {
        // With a watch all is well: a list may not be asked for again. A list says nothing of the right to watch.
        self.failing.retain(|(failing, _)| verb != "watch" && *failing != verb);
        self.failing.is_empty() && std::mem::take(&mut self.told)
    }
}
