//! Watchers of the same range, as one: who must wake for a key, and which events are theirs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::bell::Bell;
use crate::history::History;
use crate::key::KeyRange;

pub(crate) type GroupId = u64;

/// All watchers of one range share this: which events of the history match, so that no watcher ever walks past
/// events of others, and an idle one needs nothing when the floor rises.
pub(crate) struct Group {
    pub(crate) range: KeyRange,
    pub(crate) bell: Arc<Bell>,
    /// Sequence numbers of matching events since the group began, as far as the history still has them.
    matches: VecDeque<u64>,
    /// The number of matches that were dropped together with their history.
    dropped: u64,
    watchers: usize,
}

impl Group {
    /// The position after the newest match.
    pub(crate) fn end(&self) -> u64 {
        self.dropped + self.matches.len() as u64
    }

    /// The matches from `position` on, as sequence numbers; `None` when some of them are gone.
    pub(crate) fn matches_from(
        &mut self,
        position: u64,
        history: &History,
    ) -> Option<impl Iterator<Item = u64> + '_> {
        self.trim(history);
        let skip = position.checked_sub(self.dropped)?;
        Some(self.matches.range(skip as usize..).copied())
    }

    fn trim(&mut self, history: &History) {
        let oldest = history.sequences().start;
        while self.matches.front().is_some_and(|sequence| *sequence < oldest) {
            self.matches.pop_front();
            self.dropped += 1;
        }
    }
}

/// Every group, found by the keys that concern it.
#[derive(Default)]
pub(crate) struct Groups {
    groups: BTreeMap<GroupId, Group>,
    next: GroupId,
    prefixes: BTreeMap<Bytes, GroupId>,
    /// The lengths among `prefixes`, with how many have each: a key is looked up once a length.
    prefix_lengths: BTreeMap<usize, usize>,
    keys: BTreeMap<Bytes, GroupId>,
    between: Vec<GroupId>,
}

impl Groups {
    pub(crate) fn get_mut(&mut self, id: GroupId) -> &mut Group {
        self.groups.get_mut(&id).expect("a group lives as long as its watchers")
    }

    pub(crate) fn join(&mut self, range: &KeyRange) -> GroupId {
        if let Some(id) = self.find(range) {
            self.get_mut(id).watchers += 1;
            return id;
        }
        let id = self.next;
        self.next += 1;
        match range {
            KeyRange::Prefix(prefix) => {
                self.prefixes.insert(prefix.clone(), id);
                *self.prefix_lengths.entry(prefix.len()).or_default() += 1;
            }
            KeyRange::Key(key) => {
                self.keys.insert(key.clone(), id);
            }
            KeyRange::Between(..) => self.between.push(id),
        }
        let group = Group {
            range: range.clone(),
            bell: Arc::default(),
            matches: VecDeque::new(),
            dropped: 0,
            watchers: 1,
        };
        self.groups.insert(id, group);
        id
    }

    pub(crate) fn leave(&mut self, id: GroupId) {
        let group = self.get_mut(id);
        group.watchers -= 1;
        if group.watchers > 0 {
            return;
        }
        let group = self.groups.remove(&id).expect("found just now");
        match group.range {
            KeyRange::Prefix(prefix) => {
                self.prefixes.remove(&prefix);
                let count = self.prefix_lengths.get_mut(&prefix.len()).expect("counted when it joined");
                *count -= 1;
                if *count == 0 {
                    self.prefix_lengths.remove(&prefix.len());
                }
            }
            KeyRange::Key(key) => {
                self.keys.remove(&key);
            }
            KeyRange::Between(..) => self.between.retain(|other| *other != id),
        }
    }

    fn find(&self, range: &KeyRange) -> Option<GroupId> {
        match range {
            KeyRange::Prefix(prefix) => self.prefixes.get(prefix).copied(),
            KeyRange::Key(key) => self.keys.get(key).copied(),
            KeyRange::Between(..) => {
                self.between.iter().copied().find(|id| self.groups.get(id).is_some_and(|g| g.range == *range))
            }
        }
    }

    /// Notes that the event `sequence` changed `key`, and adds the groups to wake to `wake`.
    pub(crate) fn matched(
        &mut self,
        key: &[u8],
        sequence: u64,
        history: &History,
        wake: &mut Vec<Arc<Bell>>,
    ) {
        if self.groups.is_empty() {
            return;
        }
        let lengths = self.prefix_lengths.keys().take_while(|length| **length <= key.len());
        let by_prefix = lengths.filter_map(|length| self.prefixes.get(&key[..*length]));
        let by_range = self.between.iter().filter(|id| self.groups[id].range.contains(key));
        let ids: Vec<GroupId> = by_prefix.chain(self.keys.get(key)).chain(by_range).copied().collect();
        for id in ids {
            let group = self.get_mut(id);
            group.trim(history);
            group.matches.push_back(sequence);
            if !wake.iter().any(|other| Arc::ptr_eq(other, &group.bell)) {
                wake.push(group.bell.clone());
            }
        }
    }

    /// Wakes everyone, to find that the store is closed.
    pub(crate) fn wake_all(&self) {
        for group in self.groups.values() {
            group.bell.notify.notify_waiters();
        }
    }
}
