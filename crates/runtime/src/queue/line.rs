//! Keys in the order of their arrival, in memory that is read in that order: with a million of them taking the next one
//! costs no trip to its neighbours.

use std::collections::VecDeque;

use super::slots::NONE;

/// A line that has so few entries is never put in order.
const SHORT: usize = 32;

/// A time that was not read: whoever reads the clock for every key spends a third of the queue's time on it.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// One that stands in a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// [`NONE`] once it has left.
    pub(super) place: u32,
    pub(super) since: u64,
}

/// First in, first out. Each has a number, by which it can leave from the middle. The first one has not left.
#[derive(Debug, Default)]
pub(super) struct Line {
    entries: VecDeque<Entry>,
    /// The number of the first one. Numbers wrap around: there are never so many at a time.
    first: u32,
    left: usize,
}

impl Line {
    /// Says its number.
    pub(super) fn push(&mut self, entry: Entry) -> u32 {
        let number = self.first.wrapping_add(self.entries.len() as u32);
        self.entries.push_back(entry);
        number
    }

    pub(super) fn front(&self) -> Option<Entry> {
        self.entries.front().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.first = self.first.wrapping_add(1);
        self.skip();
        Some(entry)
    }

    /// Takes the one with this number out. `moved` learns the new number of each one that gets another.
    pub(super) fn leave(&mut self, number: u32, moved: impl FnMut(u32, u32)) -> Option<Entry> {
        let entry = self.entries.get_mut(number.wrapping_sub(self.first) as usize)?;
        let left = *entry;
        entry.place = NONE;
        self.left += 1;
        self.skip();
        if self.left > SHORT && self.left * 2 > self.entries.len() {
            self.close_up(moved);
        }
        Some(left)
    }

    fn skip(&mut self) {
        while self.left > 0 && self.entries.front().is_some_and(|first| first.place == NONE) {
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1);
            self.left -= 1;
        }
    }

    fn close_up(&mut self, mut moved: impl FnMut(u32, u32)) {
        self.entries.retain(|entry| entry.place != NONE);
        self.left = 0;
        for (number, entry) in self.entries.iter().enumerate() {
            moved(entry.place, self.first.wrapping_add(number as u32));
        }
    }

    /// The place of the next ones.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().map(|entry| entry.place).filter(|place| *place != NONE)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn who_leaves_from_the_middle_changes_nothing_for_the_others(
            steps in prop::collection::vec((0..6u8, any::<prop::sample::Index>()), 1..600),
        ) {
            let mut line = Line { first: u32::MAX - 50, ..Line::default() };
            let mut reference: Vec<u32> = Vec::new();
            let mut numbers = vec![0; steps.len()];
            for (place, (step, which)) in steps.into_iter().enumerate() {
                match step {
                    0..3 => {
                        numbers[place] = line.push(Entry { place: place as u32, since: place as u64 });
                        reference.push(place as u32);
                    }
                    3..5 if !reference.is_empty() => {
                        let leaver = reference.remove(which.index(reference.len()));
                        let number = numbers[leaver as usize];
                        let left = line.leave(number, |place, number| numbers[place as usize] = number);
                        prop_assert_eq!(left.map(|entry| entry.since), Some(u64::from(leaver)));
                    }
                    _ => {
                        let expected = (!reference.is_empty()).then(|| reference.remove(0));
                        prop_assert_eq!(line.pop().map(|entry| entry.place), expected);
                    }
                }
                prop_assert_eq!(line.front().map(|entry| entry.place), reference.first().copied());
                prop_assert!(line.places().eq(reference.iter().copied()));
                prop_assert!(line.entries.len() <= 2 * reference.len() + SHORT + 1);
            }
        }
    }
}
