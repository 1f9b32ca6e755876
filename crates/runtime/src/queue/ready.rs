//! The keys that may run now: levels by priority, in each level a ring of flows (namespaces), in each flow a
//! first-in-first-out list. Everything is linked through the keys' slots, so that no step allocates and every
//! step costs the same whatever the length of the queue.

use std::collections::VecDeque;

use super::slots::{NONE, Slots};

/// How many distinct priorities are told apart. A further one joins the nearest level that exists.
pub const MAX_LEVELS: usize = 32;

/// While a key of lower priority has waited longer than the ageing time, one of this many gets takes the one
/// that has waited longest.
pub const AGED_SHARE: u32 = 4;

/// Where a key stands among the ready ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    flow_previous: u32,
    /// Of a free slot: the next free one.
    pub(super) flow_next: u32,
    age_previous: u32,
    age_next: u32,
    pub(super) since: u64,
    priority: i32,
}

impl Default for Links {
    fn default() -> Self {
        Links {
            flow_previous: NONE,
            flow_next: NONE,
            age_previous: NONE,
            age_next: NONE,
            since: 0,
            priority: 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct FlowList {
    head: u32,
    tail: u32,
    in_ring: bool,
}

impl Default for FlowList {
    fn default() -> Self {
        FlowList { head: NONE, tail: NONE, in_ring: false }
    }
}

#[derive(Debug)]
struct Level {
    priority: i32,
    flows: Vec<FlowList>,
    ring: VecDeque<u32>,
    oldest: u32,
    newest: u32,
    len: usize,
}

impl Level {
    fn new(priority: i32) -> Self {
        Level { priority, flows: Vec::new(), ring: VecDeque::new(), oldest: NONE, newest: NONE, len: 0 }
    }
}

/// All ready keys. Levels stand from the highest priority to the lowest.
#[derive(Debug)]
pub(super) struct Ready {
    levels: Vec<Level>,
    ageing: u64,
    since_aged: u32,
    len: usize,
}

impl Ready {
    pub(super) fn new(ageing: u64) -> Self {
        Ready { levels: Vec::new(), ageing, since_aged: 0, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Ready keys by priority, for the depth metric.
    pub(super) fn depths(&self) -> impl Iterator<Item = (i32, usize)> + '_ {
        self.levels.iter().map(|level| (level.priority, level.len))
    }

    fn level_for(&mut self, priority: i32) -> usize {
        let place = self.levels.partition_point(|level| level.priority > priority);
        if self.levels.get(place).is_some_and(|level| level.priority == priority) {
            return place;
        }
        if self.levels.len() < MAX_LEVELS {
            self.levels.insert(place, Level::new(priority));
            return place;
        }
        let distance = |at: usize| self.levels[at].priority.abs_diff(priority);
        let below = place.min(self.levels.len() - 1);
        let above = place.saturating_sub(1);
        if distance(above) <= distance(below) { above } else { below }
    }

    pub(super) fn push<T>(&mut self, slots: &mut Slots<T>, id: u32, priority: i32, now: u64) {
        let place = self.level_for(priority);
        let level = &mut self.levels[place];
        let flow = slots[id].flow;
        if level.flows.len() <= flow as usize {
            level.flows.resize(flow as usize + 1, FlowList::default());
        }
        let list = &mut level.flows[flow as usize];
        let links = Links {
            flow_previous: list.tail,
            flow_next: NONE,
            age_previous: level.newest,
            age_next: NONE,
            since: now,
            priority: level.priority,
        };
        if let Some(tail) = slots.get_mut(list.tail) {
            tail.links.flow_next = id;
        } else {
            list.head = id;
        }
        list.tail = id;
        if let Some(newest) = slots.get_mut(level.newest) {
            newest.links.age_next = id;
        } else {
            level.oldest = id;
        }
        level.newest = id;
        slots[id].links = links;
        if !list.in_ring {
            list.in_ring = true;
            level.ring.push_back(flow);
        }
        level.len += 1;
        self.len += 1;
    }

    /// Takes `id` out of wherever it stands.
    pub(super) fn remove<T>(&mut self, slots: &mut Slots<T>, id: u32) {
        let place = self.level_for(slots[id].links.priority);
        self.unlink(slots, place, id);
    }

    fn unlink<T>(&mut self, slots: &mut Slots<T>, place: usize, id: u32) {
        let level = &mut self.levels[place];
        let Links { flow_previous, flow_next, age_previous, age_next, .. } = slots[id].links;
        let list = &mut level.flows[slots[id].flow as usize];
        match slots.get_mut(flow_previous) {
            Some(previous) => previous.links.flow_next = flow_next,
            None => list.head = flow_next,
        }
        match slots.get_mut(flow_next) {
            Some(next) => next.links.flow_previous = flow_previous,
            None => list.tail = flow_previous,
        }
        match slots.get_mut(age_previous) {
            Some(previous) => previous.links.age_next = age_next,
            None => level.oldest = age_next,
        }
        match slots.get_mut(age_next) {
            Some(next) => next.links.age_previous = age_previous,
            None => level.newest = age_previous,
        }
        level.len -= 1;
        self.len -= 1;
    }

    /// The next key to run.
    pub(super) fn pop<T>(&mut self, slots: &mut Slots<T>, now: u64) -> Option<u32> {
        let top = self.levels.iter().position(|level| level.len > 0)?;
        if let Some((place, id)) = self.aged(slots, top, now) {
            self.since_aged += 1;
            if self.since_aged >= AGED_SHARE {
                self.since_aged = 0;
                self.unlink(slots, place, id);
                return Some(id);
            }
        }
        let level = &mut self.levels[top];
        loop {
            let flow = *level.ring.front().expect("a level with keys has a flow in its ring");
            let list = &mut level.flows[flow as usize];
            let id = list.head;
            if id == NONE || slots[id].links.flow_next == NONE {
                list.in_ring = false;
                level.ring.pop_front();
            } else if level.ring.len() > 1 {
                level.ring.rotate_left(1);
            }
            if id == NONE {
                continue;
            }
            self.unlink(slots, top, id);
            return Some(id);
        }
    }

    /// The key below `top` that has waited longest, if it has waited for longer than the ageing time.
    fn aged<T>(&self, slots: &Slots<T>, top: usize, now: u64) -> Option<(usize, u32)> {
        self.levels
            .iter()
            .enumerate()
            .skip(top + 1)
            .filter_map(|(place, level)| {
                let since = slots.get(level.oldest)?.links.since;
                (now.saturating_sub(since) >= self.ageing).then_some((since, place, level.oldest))
            })
            .min_by_key(|(since, place, _)| (*since, *place))
            .map(|(_, place, id)| (place, id))
    }
}
