//! Requests for the newest state, made to the watches of one informer while they run.

use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use crate::revision::Revision;

/// The relists that were asked of one informer. Each has a number; a watch that finishes number *n* has applied
/// everything that was true when *n* was asked for.
#[derive(Debug, Default)]
pub(crate) struct Relists(Mutex<Requests>);

#[derive(Debug, Default)]
struct Requests {
    number: u64,
    /// Boxed, because it is rare and every informer holds the space for it.
    due: Option<Box<Due>>,
    /// One for each watch that runs.
    watches: Vec<Option<Watch>>,
}

/// A relist that is asked for at a time, unless the cache has reached a revision by then.
#[derive(Debug)]
struct Due {
    at: Instant,
    unless: Revision,
}

/// One watch's share.
#[derive(Debug)]
struct Watch {
    /// The number of the relist that this watch began last.
    begun: u64,
    /// Whether that is under way.
    is_listing: bool,
    waker: Option<Waker>,
}

impl Relists {
    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Asks for a relist and returns its number.
    pub fn ask(&self) -> u64 {
        let mut asked = self.lock();
        asked.number += 1;
        for watch in asked.watches.iter_mut().flatten() {
            watch.waker.take().into_iter().for_each(Waker::wake);
        }
        asked.number
    }

    /// Notes that a relist falls due at `at`, unless the cache has reached `unless` by then. Several become one: the
    /// earliest time, the highest revision. Returns whether the time is now `at`.
    pub fn falls_due(&self, at: Instant, unless: Revision) -> bool {
        let mut asked = self.lock();
        let known = asked.due.as_mut();
        let unless = known.as_ref().map_or(unless, |due| due.unless.max(unless));
        match known {
            Some(due) if due.at <= at => {
                due.unless = unless;
                false
            }
            _ => {
                asked.due = Some(Box::new(Due { at, unless }));
                true
            }
        }
    }

    /// Asks for the relist that falls due at `at`, if the cache, which has reached `reached`, still needs it.
    pub fn fall_due(&self, at: Instant, reached: Revision) {
        let due = self.lock().due.take_if(|due| due.at == at);
        if due.is_some_and(|due| reached < due.unless) {
            self.ask();
        }
    }

    /// The place of a watch that begins now.
    pub fn join(&self) -> usize {
        let mut asked = self.lock();
        let watch = Watch { begun: asked.number, is_listing: asked.number > 0, waker: None };
        let place = asked.watches.iter().position(Option::is_none).unwrap_or_else(|| {
            asked.watches.reserve_exact(1);
            asked.watches.push(None);
            asked.watches.len() - 1
        });
        asked.watches[place] = Some(watch);
        place
    }

    pub fn leave(&self, place: usize) {
        self.lock().watches[place] = None;
    }

    /// Whether the watch lists the newest state. One that begins does if a relist was asked for before.
    pub fn is_listing(&self, place: usize) -> bool {
        self.lock().watches[place].as_ref().is_some_and(|watch| watch.is_listing)
    }

    /// Ready when the watch has to relist. A relist that is under way is finished first: a list that takes longer than
    /// the requests come apart would otherwise never end.
    pub fn poll(&self, place: usize, context: &Context<'_>) -> Poll<()> {
        let mut asked = self.lock();
        let number = asked.number;
        let Some(watch) = &mut asked.watches[place] else { return Poll::Pending };
        if !watch.is_listing && watch.begun < number {
            (watch.begun, watch.is_listing) = (number, true);
            return Poll::Ready(());
        }
        match &mut watch.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// The watch has applied a full state. Returns the number of the relist that it finishes, if one was under way.
    pub fn finish(&self, place: usize) -> Option<u64> {
        let mut asked = self.lock();
        let watch = asked.watches[place].as_mut()?;
        std::mem::replace(&mut watch.is_listing, false).then_some(watch.begun)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_relist_under_way_is_finished_before_the_next_begins() {
        let relists = Relists::default();
        let place = relists.join();
        let poll = || relists.poll(place, &Context::from_waker(Waker::noop()));
        assert!(!relists.is_listing(place) && poll().is_pending() && relists.finish(place).is_none());
        assert_eq!(relists.ask(), 1);
        assert!(poll().is_ready());
        assert_eq!(relists.ask(), 2);
        assert!(poll().is_pending(), "the first is under way");
        assert_eq!(relists.finish(place), Some(1));
        assert!(poll().is_ready());
        assert_eq!((relists.finish(place), relists.finish(place)), (Some(2), None));
        let later = relists.join();
        assert!(relists.is_listing(later), "a watch that begins later begins with the newest state");
        assert_eq!(relists.finish(later), Some(2));
        relists.leave(place);
        assert_eq!(relists.join(), place);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_and_the_highest_revision_count() {
        let relists = Relists::default();
        let (soon, later) =
            (Instant::now() + Duration::from_secs(1), Instant::now() + Duration::from_secs(2));
        assert!(relists.falls_due(later, 7) && relists.falls_due(soon, 5) && !relists.falls_due(later, 6));
        relists.fall_due(later, 0);
        assert!(!relists.is_listing(relists.join()), "an earlier time took its place");
        relists.fall_due(soon, 6);
        assert!(relists.is_listing(relists.join()));
        assert!(relists.falls_due(soon, 7));
        relists.fall_due(soon, 7);
        assert_eq!(relists.ask(), 2, "the cache has caught up");
    }
}
