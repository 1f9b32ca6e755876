//! The waiting room of delayed keys: an indexed binary heap with one place per key.

use super::reason::{Reason, Reasons};

/// A place in the heap that no entry has.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Earliest first; equal times in the order they were scheduled.
#[derive(Debug)]
pub(super) struct Delays<Id> {
    heap: Vec<Delayed<Id>>,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Delayed<Id> {
    pub(super) at: u64,
    sequence: u64,
    pub(super) id: Id,
    pub(super) priority: i32,
    pub(super) reasons: Reasons,
}

impl<Id: Copy> Delays<Id> {
    pub(super) fn new() -> Self {
        Delays { heap: Vec::new(), sequence: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn earliest(&self) -> Option<u64> {
        self.heap.first().map(|first| first.at)
    }

    /// `moved` learns the new place of every entry that moves.
    pub(super) fn push(
        &mut self,
        at: u64,
        id: Id,
        priority: i32,
        reason: Reason,
        moved: impl FnMut(Id, u32),
    ) {
        self.heap.push(Delayed { at, sequence: self.sequence, id, priority, reasons: Reasons::of(reason) });
        self.sequence += 1;
        self.rise(self.heap.len() - 1, moved);
    }

    /// Joins another delay of the same key to the entry at `place`: the earlier end counts, and the higher priority,
    /// for the reasons of both.
    pub(super) fn join(
        &mut self,
        place: u32,
        at: u64,
        priority: i32,
        reason: Reason,
        moved: impl FnMut(Id, u32),
    ) {
        let entry = &mut self.heap[place as usize];
        entry.priority = entry.priority.max(priority);
        entry.reasons.note(reason);
        if at < entry.at {
            entry.at = at;
            self.rise(place as usize, moved);
        }
    }

    pub(super) fn pop(&mut self, mut moved: impl FnMut(Id, u32)) -> Option<Delayed<Id>> {
        if self.heap.is_empty() {
            return None;
        }
        let first = self.heap.swap_remove(0);
        moved(first.id, NOWHERE);
        if !self.heap.is_empty() {
            self.sink(0, moved);
        }
        Some(first)
    }

    pub(super) fn clear(&mut self, mut moved: impl FnMut(Id, u32)) {
        for entry in self.heap.drain(..) {
            moved(entry.id, NOWHERE);
        }
    }

    fn before(&self, a: usize, b: usize) -> bool {
        (self.heap[a].at, self.heap[a].sequence) < (self.heap[b].at, self.heap[b].sequence)
    }

    fn rise(&mut self, mut place: usize, mut moved: impl FnMut(Id, u32)) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if !self.before(place, parent) {
                break;
            }
            self.heap.swap(place, parent);
            moved(self.heap[place].id, place as u32);
            place = parent;
        }
        moved(self.heap[place].id, place as u32);
    }

    fn sink(&mut self, mut place: usize, mut moved: impl FnMut(Id, u32)) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let mut least = place;
            if left < self.heap.len() && self.before(left, least) {
                least = left;
            }
            if right < self.heap.len() && self.before(right, least) {
                least = right;
            }
            if least == place {
                break;
            }
            self.heap.swap(place, least);
            moved(self.heap[place].id, place as u32);
            place = least;
        }
        moved(self.heap[place].id, place as u32);
    }
}
