//! The states that a cache shows once it has seen a write.

use tokio::time::Instant;

use crate::informer::{Progress, Snapshot, Uid};
use crate::key::Key;
use crate::revision::Revision;

/// The state that a cache must show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Seen {
        uid: Uid,
        revision: Revision,
        epoch: u64,
    },
    /// Gone, and not merely not come yet: the cache has reached the revision that the object was written at.
    Gone {
        uid: Uid,
        written: Revision,
        epoch: u64,
    },
    /// Not there: it was deleted before the cache had it, and nobody said at which revision it existed. It may still come
    /// and go, so this stays noted also when it is true, as long as anybody would wait for it.
    Absent {
        uid: Uid,
        /// The revision of another object that this process wrote under the same name; or 0.
        written: Revision,
        epoch: u64,
        /// Boxed, because this is rare and each future that waits holds several of these.
        coming: Box<Coming>,
    },
    /// Gone, or in a newer state than the one before this revision: its deletion began, or it no longer is what the cache
    /// looks for.
    Left {
        uid: Uid,
        /// The state that the cache has, or is about to have.
        state: Revision,
        written: Revision,
        epoch: u64,
    },
    /// As `Left`, and of newer states only one counts in which its deletion has begun: that was asked for at whatever state.
    Ending {
        uid: Uid,
        state: Revision,
        written: Revision,
        epoch: u64,
    },
}

/// A deleted object that may still come to a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Coming {
    /// Other objects that must not be there under its name: the one that the cache had, and those that were deleted
    /// before it.
    pub(in crate::client) others: Vec<Uid>,
    /// How long anybody would wait for it.
    pub(in crate::client) until: Instant,
}

impl Expected {
    /// Whether it has come true in a state of its epoch, which has got as far as `progress` in the namespace of `key`.
    pub(in crate::client) fn fulfilled(&self, progress: &Progress, state: &Snapshot, key: &Key) -> bool {
        if !progress.synced || progress.revision < self.floor() {
            return false;
        }
        let there = state.get(key.as_str());
        let still = |uid: &Uid| there.as_ref().filter(|object| object.uid() == uid);
        match self {
            Expected::Seen { .. } => true,
            Expected::Gone { uid, .. } => still(uid).is_none(),
            Expected::Absent { uid, coming, .. } => {
                still(uid).is_none() && coming.others.iter().all(|other| still(other).is_none())
            }
            Expected::Left { uid, written, .. } => {
                still(uid).is_none_or(|object| object.revision() >= *written)
            }
            Expected::Ending { uid, written, .. } => {
                still(uid).is_none_or(|object| object.revision() >= *written && object.is_terminating())
            }
        }
    }

    /// Whether what is true now may cease to be so without another write.
    pub(in crate::client) fn may_come(&self) -> bool {
        matches!(self, Expected::Absent { coming, .. } if Instant::now() < coming.until)
    }

    pub(in crate::client) fn uid(&self) -> &Uid {
        match self {
            Expected::Seen { uid, .. }
            | Expected::Gone { uid, .. }
            | Expected::Absent { uid, .. }
            | Expected::Ending { uid, .. }
            | Expected::Left { uid, .. } => uid,
        }
    }

    /// The revision that the cache has to reach before it can say anything.
    fn floor(&self) -> Revision {
        match self {
            Expected::Seen { revision, .. } => *revision,
            Expected::Gone { written, .. } | Expected::Absent { written, .. } => *written,
            Expected::Left { state, .. } | Expected::Ending { state, .. } => *state,
        }
    }

    pub(in crate::client) fn epoch(&self) -> u64 {
        match self {
            Expected::Seen { epoch, .. }
            | Expected::Gone { epoch, .. }
            | Expected::Absent { epoch, .. }
            | Expected::Ending { epoch, .. }
            | Expected::Left { epoch, .. } => *epoch,
        }
    }

    /// The revision at which a cache has surely seen the write.
    pub(in crate::client) fn sufficient(&self) -> Revision {
        match self {
            Expected::Seen { revision, .. } => *revision,
            Expected::Gone { .. }
            | Expected::Absent { .. }
            | Expected::Left { .. }
            | Expected::Ending { .. } => Revision::MAX,
        }
    }

    /// The revision of the write.
    pub(in crate::client) fn written(&self) -> Revision {
        match self {
            Expected::Seen { revision: written, .. }
            | Expected::Gone { written, .. }
            | Expected::Absent { written, .. }
            | Expected::Ending { written, .. }
            | Expected::Left { written, .. } => *written,
        }
    }

    /// The expectation after this write too. Answers to two writes may come in another order than the server acted: the newer state counts, and an object that is gone stays so.
    pub(in crate::client) fn after(self, known: &Expected) -> Expected {
        if known.epoch() != self.epoch() {
            return self;
        }
        if known.uid() != self.uid() {
            return self.after_another(known);
        }
        match (known, self) {
            (Expected::Gone { uid, written, epoch }, fresh) => {
                Expected::Gone { uid: uid.clone(), written: fresh.written().max(*written), epoch: *epoch }
            }
            (_, gone @ (Expected::Gone { .. } | Expected::Absent { .. })) => gone,
            // Now it is known when it existed.
            (Expected::Absent { uid, epoch, .. }, fresh) => {
                Expected::Gone { uid: uid.clone(), written: fresh.written(), epoch: *epoch }
            }
            (known, fresh) if known.is_ending() || fresh.is_ending() => {
                let (uid, epoch) = (known.uid().clone(), known.epoch());
                let written = known.written().max(fresh.written());
                let state = known.floor().max(fresh.floor());
                Expected::Ending { uid, state, written, epoch }
            }
            (known, fresh) if known.written() > fresh.written() => known.clone(),
            (_, fresh) => fresh,
        }
    }

    fn is_ending(&self) -> bool {
        matches!(self, Expected::Ending { .. })
    }

    /// As [`Expected::after`], where what is known is about another object under the same name.
    fn after_another(self, known: &Expected) -> Expected {
        match self {
            // It says nothing of when it was: neither forgets the other.
            Expected::Absent { uid, written, epoch, mut coming } => {
                match known {
                    Expected::Absent { uid, coming: before, .. } => {
                        coming.others.push(uid.clone());
                        coming.others.extend_from_slice(&before.others);
                    }
                    Expected::Gone { uid, .. } => coming.others.push(uid.clone()),
                    Expected::Seen { .. } | Expected::Left { .. } | Expected::Ending { .. } => {}
                }
                Expected::Absent { uid, written: written.max(known.written()), epoch, coming }
            }
            fresh if known.written() > fresh.written() => known.clone(),
            fresh => fresh,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::Delta;
    use crate::informer::{Object, Scope, Store};

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn seen(uid: &str, revision: Revision) -> Expected {
        Expected::Seen { uid: Uid::new(uid), revision, epoch: 0 }
    }

    fn gone(uid: &str, written: Revision) -> Expected {
        Expected::Gone { uid: Uid::new(uid), written, epoch: 0 }
    }

    #[test]
    fn the_newer_of_two_writes_counts_whichever_answer_comes_last() {
        assert_eq!(seen("a", 11).after(&seen("a", 10)), seen("a", 11));
        assert_eq!(seen("a", 10).after(&seen("a", 11)), seen("a", 11));
        // The server was restored: what it counted before says nothing.
        let anew = Expected::Seen { uid: Uid::new("a"), revision: 3, epoch: 1 };
        assert_eq!(anew.clone().after(&seen("a", 11)), anew);
    }

    #[test]
    fn what_is_gone_stays_gone_until_another_comes_in_its_place() {
        assert_eq!(seen("a", 10).after(&gone("a", 0)), gone("a", 10));
        assert_eq!(seen("b", 12).after(&gone("a", 0)), seen("b", 12));
        assert_eq!(gone("a", 10).after(&seen("a", 10)), gone("a", 10));
        assert_eq!(gone("a", 0).after(&seen("b", 12)), seen("b", 12), "the answer to the deletion came last");
    }

    #[test]
    fn what_may_still_come_and_go_is_known_better_by_any_other_write() {
        let until = Instant::now();
        let absent = |written| {
            let coming = Coming { others: vec![Uid::new("z")], until };
            Expected::Absent { uid: Uid::new("a"), written, epoch: 0, coming: Box::new(coming) }
        };
        assert_eq!(seen("a", 10).after(&absent(0)), gone("a", 10));
        assert_eq!(gone("a", 10).after(&absent(0)), gone("a", 10));
        assert_eq!(seen("b", 10).after(&absent(0)), seen("b", 10));
        assert_eq!(absent(10).after(&seen("b", 10)), absent(10));
        assert_eq!(absent(0).after(&seen("b", 10)), absent(10), "what was written before is seen first");
        let Expected::Absent { coming, written, .. } = absent(0).after(&gone("b", 10)) else {
            panic!("the deletion that came last was forgotten");
        };
        assert_eq!((written, coming.others), (10, vec![Uid::new("z"), Uid::new("b")]));
    }

    #[test]
    fn what_leaves_is_older_or_newer_by_its_own_write() {
        let left = Expected::Left { uid: Uid::new("a"), state: 5, written: 10, epoch: 0 };
        assert_eq!(seen("a", 10).after(&left), seen("a", 10));
        assert_eq!(seen("a", 9).after(&left), left);
        assert_eq!(left.clone().after(&seen("a", 11)), seen("a", 11));
        assert_eq!(left.clone().after(&seen("a", 9)), left);
        assert_eq!(left.after(&gone("a", 0)), gone("a", 10));
    }

    #[test]
    fn a_state_between_is_not_the_one_that_was_written() {
        let store = Store::default();
        let object = |revision: Revision| {
            let json = format!(
                r#"{{"metadata":{{"name":"x","namespace":"n","uid":"a","resourceVersion":"{revision}"}}}}"#
            );
            Object::from_json(json.as_bytes()).unwrap()
        };
        let replace = |revision, objects| {
            store.apply(&Scope::All, Delta::Replaced { revision, objects });
        };
        let key = Key::new(Some("n"), "x");
        let left = |epoch| Expected::Left { uid: Uid::new("a"), state: 10, written: 15, epoch };
        let came = |expected: Expected| {
            let state = store.snapshot();
            expected.fulfilled(&state.progress(Some("n")).unwrap(), &state, &key)
        };
        replace(12, vec![object(12)]);
        let epoch = store.progress(Some("n")).unwrap().epoch;
        assert!(!came(left(epoch)), "somebody's state between");
        replace(16, vec![object(15)]);
        assert!(came(left(epoch)));
        // Somebody changed it between the list that a deletion answered with and the deletion.
        let deleted = Expected::Ending { uid: Uid::new("a"), state: 10, written: 11, epoch };
        assert!(!came(deleted.clone()), "it lives");
        let (later, expected) = (Expected::Seen { uid: Uid::new("a"), revision: 15, epoch }, deleted.clone());
        for both in [expected.clone().after(&later), later.after(&expected)] {
            assert_eq!((both.is_ending(), both.written(), both.floor()), (true, 15, 15));
        }
        let going = format!(
            r#"{{"metadata":{{"name":"x","namespace":"n","uid":"a","resourceVersion":"16","deletionTimestamp":"{NOW}"}}}}"#
        );
        replace(16, vec![Object::from_json(going.as_bytes()).unwrap()]);
        assert!(came(deleted.clone()));
        replace(17, vec![]);
        assert!(came(left(epoch)) && came(deleted));
    }
}
