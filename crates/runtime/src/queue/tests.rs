//! The queue against a reference that is as plain as possible, and the shell in virtual time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const AGEING_TIME: u64 = 50;

/// Why a key is queued, and how often it was said, within the bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Why {
    kept: Vec<(Reason, u16)>,
    forgotten: u16,
}

impl Why {
    fn note(&mut self, reason: Reason, times: u16) {
        let known = self.kept.iter().position(|(known, _)| *known == reason);
        match known {
            Some(place) => self.kept[place].1 += times,
            None if self.kept.len() < REASONS_PER_KEY => self.kept.push((reason, times)),
            None => self.forgotten += times,
        }
    }
}

fn reason(trigger: Trigger) -> Reason {
    Reason::new(SourceName::NONE, trigger)
}

/// A ready key of the reference.
#[derive(Clone, Debug)]
struct Waiting {
    key: u8,
    since: u64,
}

/// One priority of the reference: keys in order of arrival, and whose turn it is.
#[derive(Clone, Debug, Default)]
struct Rank {
    arrivals: Vec<Waiting>,
    turns: VecDeque<u8>,
}

/// The contract, written without regard to cost.
#[derive(Debug, Default)]
struct Reference {
    ranks: BTreeMap<std::cmp::Reverse<i32>, Rank>,
    dirty: BTreeMap<u8, i32>,
    processing: BTreeMap<u8, i32>,
    /// When each running key was added again.
    again: BTreeMap<u8, u64>,
    delayed: Vec<(u64, u64, u8, i32)>,
    /// Why each delayed key will be queued.
    later: BTreeMap<u8, Why>,
    sequence: u64,
    failures: BTreeMap<u8, u32>,
    /// Why each key is queued.
    reasons: BTreeMap<u8, Why>,
    since_aged: u32,
    fair: bool,
    shut: bool,
}

impl Reference {
    fn flow(&self, key: u8) -> u8 {
        if self.fair { key % 3 } else { 0 }
    }

    fn push(&mut self, key: u8, priority: i32, since: u64) {
        let flow = self.flow(key);
        let rank = self.ranks.entry(std::cmp::Reverse(priority)).or_default();
        rank.arrivals.push(Waiting { key, since });
        if !rank.turns.contains(&flow) {
            rank.turns.push_back(flow);
        }
    }

    fn add(&mut self, key: u8, priority: i32, reason: Reason, now: u64) {
        if self.shut {
            return;
        }
        self.reasons.entry(key).or_default().note(reason, 1);
        self.queue(key, priority, now);
    }

    fn queue(&mut self, key: u8, priority: i32, now: u64) {
        let processing = self.processing.contains_key(&key);
        match self.dirty.get(&key).copied() {
            Some(known) if priority <= known => {}
            Some(known) => {
                self.dirty.insert(key, priority);
                if !processing {
                    let rank = self.ranks.get_mut(&std::cmp::Reverse(known)).unwrap();
                    let place = rank.arrivals.iter().position(|waiting| waiting.key == key).unwrap();
                    let since = rank.arrivals.remove(place).since;
                    self.push(key, priority, since);
                }
            }
            None => {
                self.dirty.insert(key, priority);
                if processing {
                    self.again.insert(key, now);
                } else {
                    self.push(key, priority, now);
                }
            }
        }
    }

    fn add_after(&mut self, key: u8, delay: u64, priority: i32, reason: Reason, now: u64) {
        if self.shut {
            return;
        }
        if delay == 0 {
            return self.add(key, priority, reason, now);
        }
        self.later.entry(key).or_default().note(reason, 1);
        match self.delayed.iter_mut().find(|entry| entry.2 == key) {
            Some(entry) => {
                entry.0 = entry.0.min(now + delay);
                entry.3 = entry.3.max(priority);
            }
            None => {
                self.delayed.push((now + delay, self.sequence, key, priority));
                self.sequence += 1;
            }
        }
    }

    fn get(&mut self, now: u64) -> Option<(u8, i32)> {
        self.delayed.sort_unstable();
        while self.delayed.first().is_some_and(|entry| entry.0 <= now) {
            let (at, _, key, priority) = self.delayed.remove(0);
            let later = self.later.remove(&key).unwrap();
            let reasons = self.reasons.entry(key).or_default();
            later.kept.into_iter().for_each(|(reason, times)| reasons.note(reason, times));
            reasons.forgotten += later.forgotten;
            self.queue(key, priority, at);
        }
        let filled: Vec<i32> =
            self.ranks.iter().filter(|(_, rank)| !rank.arrivals.is_empty()).map(|(rank, _)| rank.0).collect();
        let top = *filled.first()?;
        let aged = filled[1..]
            .iter()
            .map(|priority| (self.ranks[&std::cmp::Reverse(*priority)].arrivals[0].clone(), *priority))
            .filter(|(oldest, _)| now.saturating_sub(oldest.since) >= AGEING_TIME)
            .min_by_key(|(oldest, priority)| (oldest.since, std::cmp::Reverse(*priority)));
        let mut chosen = None;
        if let Some((oldest, priority)) = aged {
            self.since_aged += 1;
            if self.since_aged >= AGED_SHARE {
                self.since_aged = 0;
                chosen = Some((oldest.key, priority));
            }
        }
        let fair = self.fair;
        let (key, priority) = chosen.unwrap_or_else(|| {
            let rank = self.ranks.get_mut(&std::cmp::Reverse(top)).unwrap();
            let flow_of = |key: u8| if fair { key % 3 } else { 0 };
            loop {
                let flow = rank.turns.pop_front().unwrap();
                let mut own = rank.arrivals.iter().filter(|waiting| flow_of(waiting.key) == flow);
                if let Some(first) = own.next().map(|waiting| waiting.key) {
                    if own.next().is_some() {
                        rank.turns.push_back(flow);
                    }
                    return (first, top);
                }
            }
        });
        let rank = self.ranks.get_mut(&std::cmp::Reverse(priority)).unwrap();
        rank.arrivals.retain(|waiting| waiting.key != key);
        self.dirty.remove(&key);
        self.processing.insert(key, priority);
        Some((key, priority))
    }

    fn done(&mut self, key: u8) {
        self.processing.remove(&key);
        if let Some(priority) = self.dirty.get(&key).copied() {
            let since = self.again.remove(&key).expect("it was added again");
            self.push(key, priority, since);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, i32, Trigger),
    AddAfter(u8, u64, i32, Trigger),
    RateLimited(u8),
    Forget(u8),
    Get,
    Done(u8),
    Advance(u64),
    ShutDown,
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop_oneof![4 => Just(0), 2 => Just(-100), 1 => Just(7)];
    let trigger = prop_oneof![Just(Trigger::Added), Just(Trigger::Updated), Just(Trigger::Deleted)];
    // With those above more than a key remembers.
    let later = prop_oneof![Just(Trigger::RequeueAfter), Just(Trigger::Requeue), Just(Trigger::Added)];
    prop_oneof![
        6 => (0..12u8, priority.clone(), trigger).prop_map(|(key, priority, why)| Step::Add(key, priority, why)),
        3 => (0..12u8, 0..30u64, priority, later).prop_map(|(key, d, p, why)| Step::AddAfter(key, d, p, why)),
        2 => (0..12u8).prop_map(Step::RateLimited),
        1 => (0..12u8).prop_map(Step::Forget),
        7 => Just(Step::Get),
        6 => (0..12u8).prop_map(Step::Done),
        3 => (1..40u64).prop_map(Step::Advance),
        1 => prop_oneof![30 => Just(Step::Advance(1)), 1 => Just(Step::ShutDown)],
    ]
}

/// The state that can be seen of both at any time.
fn compare(queue: &Queue<u8>, reference: &Reference, idle_keys: usize) {
    let ready: usize = reference.ranks.values().map(|rank| rank.arrivals.len()).sum();
    assert_eq!((queue.len(), queue.processing()), (ready, reference.processing.len()));
    assert_eq!(queue.delayed(), reference.delayed.len());
    for key in 0..12u8 {
        assert_eq!(queue.num_requeues(&key), reference.failures.get(&key).copied().unwrap_or(0));
    }
    let active: BTreeSet<u8> = reference.dirty.keys().chain(reference.processing.keys()).copied().collect();
    assert!(queue.known() <= active.len() + reference.delayed.len() + reference.failures.len() + idle_keys);
}

/// Plays the same steps on both and compares whatever can be seen.
fn play(steps: &[Step], fair: bool, idle_keys: usize) {
    let tick = Duration::from_millis;
    let mut queue: Queue<u8> = Queue::new(QueueOptions {
        limiter: RateLimiter::exponential(tick(5), tick(40)),
        fairness: fair.then_some((|key: &u8| u64::from(*key % 3)) as fn(&u8) -> u64),
        ageing: tick(AGEING_TIME),
        idle_keys,
        seed: 1,
    });
    let mut reference = Reference { fair, ..Reference::default() };
    let mut running: BTreeMap<u8, KeyId> = BTreeMap::new();
    let mut now = 0;
    for step in steps {
        match *step {
            Step::Add(key, priority, trigger) => {
                queue.add(&key, priority, reason(trigger), tick(now));
                reference.add(key, priority, reason(trigger), now);
            }
            Step::AddAfter(key, delay, priority, trigger) => {
                queue.add_after(&key, tick(delay), priority, reason(trigger), tick(now));
                reference.add_after(key, delay, priority, reason(trigger), now);
            }
            Step::RateLimited(key) => {
                let failed = reason(Trigger::Error);
                let delay = queue.add_rate_limited(&key, 0, failed, tick(now));
                if !reference.shut {
                    let failures = reference.failures.entry(key).or_default();
                    let expected = (5u64 << (*failures).min(10)).min(40);
                    *failures += 1;
                    assert_eq!(delay, tick(expected));
                    reference.add_after(key, expected, 0, failed, now);
                }
            }
            Step::Forget(key) => {
                queue.forget(&key);
                reference.failures.remove(&key);
            }
            Step::Get => {
                let got = queue.get(tick(now)).map(|run| {
                    let key = *queue.key(run.id).unwrap();
                    assert!(running.insert(key, run.id).is_none(), "{key} is with two workers");
                    let why = Why { kept: run.reasons.iter().collect(), forgotten: run.reasons.forgotten() };
                    (key, run.priority, why)
                });
                let expected = reference.get(now);
                let reasons =
                    expected.and_then(|(key, _)| reference.reasons.remove(&key)).unwrap_or_default();
                assert_eq!(got, expected.map(|(key, priority)| (key, priority, reasons)));
            }
            Step::Done(key) => {
                if let Some(id) = running.remove(&key) {
                    let again = queue.done(id, tick(now));
                    assert_eq!(again, reference.dirty.contains_key(&key));
                    reference.done(key);
                }
            }
            Step::Advance(by) => now += by,
            Step::ShutDown => {
                queue.shut_down();
                reference.shut = true;
                reference.delayed.clear();
                reference.later.clear();
            }
        }
        compare(&queue, &reference, idle_keys);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_the_contract_says(
        steps in prop::collection::vec(step(), 1..160),
        fair in any::<bool>(),
        idle in 0..6usize,
    ) {
        play(&steps, fair, idle);
    }
}

#[test]
fn with_one_priority_and_one_flow_it_is_first_in_first_out() {
    let mut queue: Queue<u32> = Queue::new(QueueOptions::default());
    for key in 0..100 {
        queue.add(&key, 0, Reason::MANUAL, Duration::ZERO);
        queue.add(&(key / 2), 0, Reason::MANUAL, Duration::ZERO);
    }
    let order: Vec<u32> = std::iter::from_fn(|| {
        let run = queue.get(Duration::ZERO)?;
        let key = *queue.key(run.id).unwrap();
        queue.done(run.id, Duration::ZERO);
        Some(key)
    })
    .collect();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
}

#[test]
fn joined_delays_are_answered_for_the_reasons_of_all() {
    let mut queue: Queue<u8> = Queue::new(QueueOptions::default());
    for (seconds, trigger) in [(9, Trigger::RequeueAfter), (5, Trigger::Error), (7, Trigger::RequeueAfter)] {
        queue.add_after(&1, Duration::from_secs(seconds), 0, reason(trigger), Duration::ZERO);
    }
    let run = queue.get(Duration::from_secs(5)).unwrap();
    assert_eq!(run.reasons.to_string(), "requeue-after x2, error");
    assert_eq!(queue.delayed(), 0);
}

#[test]
fn one_noisy_namespace_does_not_hold_up_the_others() {
    let options =
        QueueOptions { fairness: Some(|key: &(u8, u32)| u64::from(key.0)), ..QueueOptions::default() };
    let mut queue = Queue::new(options);
    for number in 0..1000 {
        queue.add(&(0, number), 0, Reason::MANUAL, Duration::ZERO);
    }
    queue.add(&(1, 0), 0, Reason::MANUAL, Duration::ZERO);
    queue.add(&(2, 0), 0, Reason::MANUAL, Duration::ZERO);
    let first: Vec<u8> = (0..3)
        .map(|_| {
            let run = queue.get(Duration::ZERO).unwrap();
            queue.key(run.id).unwrap().0
        })
        .collect();
    assert_eq!(first, [0, 1, 2]);
}

#[test]
fn low_priority_is_served_under_lasting_load() {
    let mut queue: Queue<u32> = Queue::new(QueueOptions::default());
    let mut now = Duration::ZERO;
    for key in 0..10 {
        queue.add(&key, Priority::LOW.0, Reason::MANUAL, now);
    }
    let mut served = Vec::new();
    for round in 0..20_000u32 {
        now += Duration::from_millis(1);
        // There is always live work.
        queue.add(&(1000 + round), 0, Reason::MANUAL, now);
        queue.add(&(100_000 + round), 0, Reason::MANUAL, now);
        let run = queue.get(now).unwrap();
        let key = *queue.key(run.id).unwrap();
        if key < 10 {
            served.push(now);
        }
        queue.done(run.id, now);
    }
    assert_eq!(served.len(), 10);
    assert!(served[0] >= AGEING && served[9] < AGEING + Duration::from_millis(100), "{served:?}");
}

#[test]
fn priorities_beyond_the_bound_join_the_nearest_level() {
    let mut queue: Queue<i32> = Queue::new(QueueOptions::default());
    for priority in 0..(MAX_LEVELS as i32 + 50) {
        queue.add(&priority, priority, Reason::MANUAL, Duration::ZERO);
    }
    assert_eq!(queue.depths().count(), MAX_LEVELS);
    assert_eq!(queue.len(), MAX_LEVELS + 50);
    let mut all = BTreeSet::new();
    while let Some(run) = queue.get(Duration::ZERO) {
        all.insert(*queue.key(run.id).unwrap());
        queue.done(run.id, Duration::ZERO);
    }
    assert_eq!(all.len(), MAX_LEVELS + 50);
}

#[tokio::test(start_paused = true)]
async fn delays_wake_waiting_workers_in_order() {
    let queue = WorkQueue::new("test", QueueOptions::default());
    let start = tokio::time::Instant::now();
    let worker = |queue: WorkQueue<&'static str>| async move {
        let mut got = Vec::new();
        while let Some(item) = queue.get().await {
            got.push((start.elapsed().as_millis(), *item.key()));
        }
        got
    };
    let script = async {
        queue.add_after(&"late", Duration::from_millis(500), Priority::DEFAULT, Reason::MANUAL);
        tokio::time::sleep(Duration::from_millis(50)).await;
        queue.add_after(&"early", Duration::from_millis(100), Priority::DEFAULT, Reason::MANUAL);
        queue.add_after(&"early", Duration::from_millis(300), Priority::DEFAULT, Reason::MANUAL);
        queue.add("now");
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.shut_down();
    };
    let (first, second, ()) = tokio::join!(worker(queue.clone()), worker(queue.clone()), script);
    let mut all: Vec<(u128, &str)> = first.into_iter().chain(second).collect();
    all.sort_unstable();
    assert_eq!(all, [(50, "now"), (150, "early"), (500, "late")]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_what_runs_and_for_what_was_added_meanwhile() {
    let queue = WorkQueue::new("test", QueueOptions::default());
    queue.add("a");
    let item = queue.get().await.unwrap();
    queue.add("a");
    let drain = async {
        queue.shut_down_with_drain().await;
        assert!(queue.is_idle());
    };
    let worker = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.add("refused");
        item.done();
        let again = queue.get().await.unwrap();
        assert_eq!(*again.key(), "a");
        drop(again);
        assert!(queue.get().await.is_none());
    };
    tokio::join!(drain, worker);
    let stuck = WorkQueue::new("test", QueueOptions::default());
    stuck.add("a");
    let _running = stuck.get().await;
    let ended = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stuck.shut_down();
    };
    tokio::join!(stuck.shut_down_with_drain(), ended);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_gives_up_waiting_hands_its_duties_on() {
    let queue: WorkQueue<u8> = WorkQueue::new("test", QueueOptions::default());
    queue.add_after(&1, Duration::from_secs(5), Priority::DEFAULT, Reason::MANUAL);
    let quitter = tokio::time::timeout(Duration::from_secs(1), queue.get());
    let keeper = queue.get();
    let (quit, kept) = tokio::join!(quitter, keeper);
    assert!(quit.is_err());
    assert_eq!(*kept.unwrap().key(), 1);
}

#[test]
fn a_long_queue_forgets_its_keys_and_gives_its_room_back_once_it_is_short() {
    let mut queue: Queue<u32> = Queue::new(QueueOptions::default());
    let mut work = |keys: u32, now: Duration| {
        for key in 0..keys {
            queue.add(&key, 0, Reason::MANUAL, now);
        }
        for key in 0..keys {
            let run = queue.get(now).unwrap();
            assert_eq!(queue.key(run.id), Some(&key));
            queue.done(run.id, now);
            assert!(queue.known() <= (keys - key) as usize + 31);
        }
        (queue.known(), queue.keys.slots.room() > 0)
    };
    assert_eq!(work(10_000, Duration::ZERO), (0, true));
    assert_eq!(work(1, Duration::from_millis(500)), (0, true), "such load may come again");
    assert_eq!(work(1, Duration::from_secs(2)), (0, false));
    assert_eq!(work(10_000, Duration::from_secs(3)), (0, true));
}
