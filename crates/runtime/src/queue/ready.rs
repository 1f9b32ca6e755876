//! The keys that may run now: levels by priority, in each level a ring of flows (namespaces), in each flow a
//! line. Every step costs the same whatever the length of the queue, and allocates only when it is longer than ever.

use std::collections::VecDeque;

use super::line::{Entry, Line, UNKNOWN};
use super::slots::Slots;

/// How many distinct priorities are told apart at a time. A further one joins the nearest level that has keys.
pub const MAX_LEVELS: usize = 32;

/// While a key of lower priority has waited longer than the ageing time, one of this many gets takes the one
/// that has waited longest.
pub const AGED_SHARE: u32 = 4;

/// The keys of one flow, and whether it has a turn.
#[derive(Debug, Default)]
struct Flow {
    line: Line,
    in_ring: bool,
}

#[derive(Debug)]
struct Level {
    priority: i32,
    flows: Vec<Flow>,
    ring: VecDeque<u32>,
    /// All keys of the level. With one flow that is the flow's line, and this one stays empty.
    ages: Line,
    len: usize,
}

impl Level {
    fn new(priority: i32) -> Self {
        Level { priority, flows: Vec::new(), ring: VecDeque::new(), ages: Line::default(), len: 0 }
    }

    fn oldest(&self, fair: bool) -> Option<Entry> {
        if fair { self.ages.front() } else { self.flows.first()?.line.front() }
    }
}

/// All ready keys. Levels stand from the highest priority to the lowest.
#[derive(Debug)]
pub(super) struct Ready {
    levels: Vec<Level>,
    /// There may be more than one flow.
    fair: bool,
    ageing: u64,
    since_aged: u32,
    len: usize,
    /// Keys may stand in a level of another priority, and are found there only while the levels stay as they are.
    joined: bool,
    /// When a second priority was first seen. A key that came at an unknown time counts as old as that: it came before
    /// there was a priority that could go before it.
    levelled: u64,
}

impl Ready {
    pub(super) fn new(ageing: u64, fair: bool) -> Self {
        Ready { levels: Vec::new(), fair, ageing, since_aged: 0, len: 0, joined: false, levelled: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Ready keys by priority, for the depth metric.
    pub(super) fn depths(&self) -> impl Iterator<Item = (i32, usize)> + '_ {
        self.levels.iter().map(|level| (level.priority, level.len))
    }

    /// The level of a priority that keys have or had; the nearest, if there were too many.
    fn level_of(&self, priority: i32) -> usize {
        let place = self.levels.partition_point(|level| level.priority > priority);
        if self.levels.get(place).is_some_and(|level| level.priority == priority) {
            return place;
        }
        let distance = |at: usize| self.levels[at].priority.abs_diff(priority);
        let below = place.min(self.levels.len() - 1);
        let above = place.saturating_sub(1);
        if distance(above) <= distance(below) { above } else { below }
    }

    /// The level for a key that comes, made if need be, and whether it was.
    fn level_for(&mut self, priority: i32) -> (usize, bool) {
        let place = self.levels.partition_point(|level| level.priority > priority);
        if self.levels.get(place).is_some_and(|level| level.priority == priority) {
            return (place, false);
        }
        if self.levels.len() < MAX_LEVELS {
            self.levels.insert(place, Level::new(priority));
            return (place, true);
        }
        self.joined &= self.len > 0;
        let unused = self.levels.iter().position(|level| level.len == 0).filter(|_| !self.joined);
        let Some(unused) = unused else {
            self.joined = true;
            return (self.level_of(priority), false);
        };
        let mut level = self.levels.remove(unused);
        level.priority = priority;
        let place = if unused < place { place - 1 } else { place };
        self.levels.insert(place, level);
        (place, true)
    }

    pub(super) fn push<T>(&mut self, slots: &mut Slots<T>, place: u32, priority: i32, since: u64) {
        let (level, made) = self.level_for(priority);
        // Those that came at an unknown time came before the first of them.
        if made && since != UNKNOWN && self.levelled == 0 {
            self.levelled = since;
        }
        let level = &mut self.levels[level];
        let slot = &mut slots[place];
        let flow = slot.flow;
        if level.flows.len() <= flow as usize {
            level.flows.resize_with(flow as usize + 1, Flow::default);
        }
        let list = &mut level.flows[flow as usize];
        slot.stands_at = list.line.push(Entry { place, since });
        if self.fair {
            slot.ages_at = level.ages.push(Entry { place, since });
        }
        if !list.in_ring {
            list.in_ring = true;
            level.ring.push_back(flow);
        }
        level.len += 1;
        self.len += 1;
    }

    /// Takes a key out that was pushed with this priority. Says since when it was ready.
    pub(super) fn remove<T>(&mut self, slots: &mut Slots<T>, place: u32, priority: i32) -> u64 {
        let level = self.level_of(priority);
        self.leave(slots, level, place).since
    }

    fn leave<T>(&mut self, slots: &mut Slots<T>, level: usize, place: u32) -> Entry {
        let slot = &slots[place];
        let (number, flow) = (slot.stands_at, slot.flow);
        let line = &mut self.levels[level].flows[flow as usize].line;
        let left = line.leave(number, |place, number| slots[place].stands_at = number);
        self.left(slots, level, place);
        left.expect("a ready key stands in the line of its flow")
    }

    /// After a key has left the line of its flow.
    fn left<T>(&mut self, slots: &mut Slots<T>, level: usize, place: u32) {
        let level = &mut self.levels[level];
        if self.fair {
            let number = slots[place].ages_at;
            level.ages.leave(number, |place, number| slots[place].ages_at = number);
        }
        level.len -= 1;
        self.len -= 1;
    }

    /// The next key to run, and since when it was ready.
    pub(super) fn pop<T>(&mut self, slots: &mut Slots<T>, now: u64) -> Option<Entry> {
        let top = self.levels.iter().position(|level| level.len > 0)?;
        if let Some((level, place)) = self.aged(top, now) {
            self.since_aged += 1;
            if self.since_aged >= AGED_SHARE {
                self.since_aged = 0;
                return Some(self.leave(slots, level, place));
            }
        }
        let level = &mut self.levels[top];
        loop {
            let flow = *level.ring.front().expect("a level with keys has a flow in its ring");
            let list = &mut level.flows[flow as usize];
            let entry = list.line.pop();
            if list.line.is_empty() {
                list.in_ring = false;
                level.ring.pop_front();
            } else if level.ring.len() > 1 {
                level.ring.pop_front();
                level.ring.push_back(flow);
            }
            if let Some(entry) = entry {
                self.left(slots, top, entry.place);
                return Some(entry);
            }
        }
    }

    /// The key below `top` that has waited longest, if it has waited for longer than the ageing time.
    fn aged(&self, top: usize, now: u64) -> Option<(usize, u32)> {
        self.levels
            .iter()
            .enumerate()
            .skip(top + 1)
            .filter_map(|(place, level)| {
                let Entry { place: oldest, since } = level.oldest(self.fair)?;
                let since = if since == UNKNOWN { self.levelled } else { since };
                (now.saturating_sub(since) >= self.ageing).then_some((since, place, oldest))
            })
            .min_by_key(|(since, place, _)| (*since, *place))
            .map(|(_, place, id)| (place, id))
    }

    /// The places of about `many` of the keys that are next.
    pub(super) fn ahead(&self, many: usize) -> impl Iterator<Item = u32> + '_ {
        let level = self.levels.iter().find(|level| level.len > 0);
        level.into_iter().flat_map(move |level| {
            let each = many.div_ceil(level.ring.len().max(1));
            level.ring.iter().take(many).flat_map(move |flow| {
                let line = &level.flows[*flow as usize].line;
                line.places().take(each)
            })
        })
    }

    /// Gives back all room; nothing is ready.
    pub(super) fn clear(&mut self) {
        for level in &mut self.levels {
            *level = Level::new(level.priority);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Queue, QueueOptions, Reason};
    use super::MAX_LEVELS;

    const NOW: Duration = Duration::ZERO;

    fn drain(queue: &mut Queue<i32>) -> Vec<i32> {
        let mut order = Vec::new();
        while let Some(run) = queue.get(NOW) {
            order.push(*queue.key(run.id).unwrap());
            queue.done(run.id, NOW);
        }
        order
    }

    /// A caller that computes priorities uses more of them over time than there are levels.
    #[test]
    fn levels_that_have_no_keys_are_used_for_new_priorities() {
        let mut queue: Queue<i32> = Queue::new(QueueOptions::default());
        let most = i32::try_from(MAX_LEVELS).unwrap();
        for round in 0..4 {
            for priority in 0..most {
                queue.add(&priority, 1000 * round + priority, Reason::MANUAL, NOW);
            }
            assert_eq!(drain(&mut queue), (0..most).rev().collect::<Vec<_>>());
        }
        // More at a time than there are levels: none is lost, and afterwards they are told apart again.
        for priority in 0..2 * most {
            queue.add(&priority, -1000 * priority, Reason::MANUAL, NOW);
        }
        let mut all = drain(&mut queue);
        all.sort_unstable();
        assert_eq!(all, (0..2 * most).collect::<Vec<_>>());
        queue.add(&1, 77, Reason::MANUAL, NOW);
        queue.add(&2, 99_999, Reason::MANUAL, NOW);
        // Raised while it waits: found in the level that it stands in.
        queue.add(&1, 100_000, Reason::MANUAL, NOW);
        assert_eq!(drain(&mut queue), [1, 2]);
    }
}
