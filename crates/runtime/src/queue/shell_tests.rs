//! The shell: the same contract as the core, through locks, an inbox and wake-ups.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const KEYS: u64 = 40;

/// The steps that a single thread may take with both.
#[derive(Clone, Debug)]
enum Step {
    Add(u64, i32),
    AddAfter(u64, u64),
    RateLimited(u64),
    Forget(u64),
    Get,
    Done(u64),
    Next(u64),
    Advance(u64),
    Drain,
    ShutDown,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS;
    prop_oneof![
        8 => (key.clone(), prop_oneof![Just(0), Just(-100), Just(5)]).prop_map(|(key, p)| Step::Add(key, p)),
        2 => (key.clone(), 0..30u64).prop_map(|(key, delay)| Step::AddAfter(key, delay)),
        1 => key.clone().prop_map(Step::RateLimited),
        1 => key.clone().prop_map(Step::Forget),
        5 => Just(Step::Get),
        4 => key.clone().prop_map(Step::Done),
        3 => key.prop_map(Step::Next),
        3 => (1..40u64).prop_map(Step::Advance),
        1 => prop_oneof![40 => Just(Step::Advance(1)), 1 => Just(Step::ShutDown), 1 => Just(Step::Drain)],
    ]
}

/// The steps that may follow the first half: the queue is shut down, drained, given up, in any order.
fn late_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => step(),
        3 => Just(Step::Drain),
        1 => Just(Step::ShutDown),
    ]
}

/// Somebody who waits for a drain, and whether it was woken since it last looked.
struct Drain {
    waits: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
    /// The queue was shut down since.
    given_up: bool,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Drain {
    fn begin(queue: &WorkQueue<u64>) -> Self {
        let queue = queue.clone();
        let waits = Box::pin(async move { queue.shut_down_with_drain().await });
        Drain { waits, woken: Arc::new(Woken(AtomicBool::new(true))), given_up: false }
    }

    /// Looks only if it was woken, so that a wake-up that does not come shows.
    fn has_ended(&mut self) -> bool {
        self.woken.0.swap(false, Ordering::SeqCst)
            && self.waits.as_mut().poll(&mut Context::from_waker(&Arc::clone(&self.woken).into())).is_ready()
    }
}

fn options(idle_keys: usize) -> QueueOptions<u64> {
    QueueOptions { idle_keys, fairness: Some(|key| key % 3), ..QueueOptions::default() }
}

/// The shell gives what the core gives, whatever lies in between.
async fn play(steps: &[Step], idle_keys: usize, measured: bool) {
    let start = tokio::time::Instant::now();
    let shell = WorkQueue::new("test", options(idle_keys));
    if measured {
        shell.measure();
    }
    // The core forgets nothing, so that forgetting too much shows.
    let mut core = Queue::new(options(usize::MAX));
    let mut running: BTreeMap<u64, (Item<u64>, KeyId)> = BTreeMap::new();
    let mut drains: Vec<Drain> = Vec::new();
    for step in steps {
        let now = start.elapsed();
        match *step {
            Step::Add(key, priority) => {
                shell.add_with(&key, Priority(priority), Reason::MANUAL);
                core.add(&key, priority, Reason::MANUAL, now);
            }
            Step::AddAfter(key, delay) => {
                let delay = std::time::Duration::from_millis(delay);
                shell.add_after(&key, delay, Priority::DEFAULT, Reason::MANUAL);
                core.add_after(&key, delay, 0, Reason::MANUAL, now);
            }
            Step::RateLimited(key) => {
                let delay = shell.add_rate_limited(&key, Priority::DEFAULT, Reason::MANUAL);
                assert_eq!(delay, core.add_rate_limited(&key, 0, Reason::MANUAL, now));
            }
            Step::Forget(key) => {
                shell.forget(&key);
                core.forget(&key);
            }
            Step::Get => took(shell.try_get(), &mut core, now, &mut running),
            Step::Done(key) => {
                if let Some((item, id)) = running.remove(&key) {
                    item.done();
                    core.done(id, now);
                }
            }
            Step::Next(key) => {
                if let Some((item, id)) = running.remove(&key) {
                    core.done(id, now);
                    let next = tokio::time::timeout(std::time::Duration::ZERO, WorkQueue::next(item)).await;
                    took(next.ok().flatten(), &mut core, now, &mut running);
                }
            }
            Step::Advance(by) => tokio::time::advance(std::time::Duration::from_millis(by)).await,
            Step::Drain => {
                core.shut_down();
                // The newest looks first: what it does must not hide from the others that they were given up.
                drains.insert(0, Drain::begin(&shell));
            }
            Step::ShutDown => {
                shell.shut_down();
                core.shut_down();
                drains.iter_mut().for_each(|drain| drain.given_up = true);
                continue;
            }
        }
        drains.retain_mut(|drain| {
            let ends = drain.given_up || core.drained();
            assert_eq!(drain.has_ended(), ends);
            !ends
        });
        assert_eq!(shell.len(), core.len());
        for key in 0..KEYS {
            assert_eq!(shell.num_requeues(&key), core.num_requeues(&key));
        }
    }
    if measured {
        let stats = shell.report().stats;
        assert_eq!((stats.waited, stats.worked), (core.stats.waited, core.stats.worked));
    }
}

fn took(
    item: Option<Item<u64>>,
    core: &mut Queue<u64>,
    now: std::time::Duration,
    running: &mut BTreeMap<u64, (Item<u64>, KeyId)>,
) {
    let run = core.get(now);
    let expected = run.map(|run| (*core.key(run.id).unwrap(), run.priority, run.failures));
    let got = item.as_ref().map(|item| (*item.key(), item.priority().0, item.failures()));
    assert_eq!(got, expected);
    if let (Some(item), Some(run)) = (item, run) {
        assert!(running.insert(*item.key(), (item, run.id)).is_none(), "a key is with two workers");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_shell_does_what_the_core_does(
        mut steps in prop::collection::vec(step(), 1..160),
        late in prop::collection::vec(late_step(), 0..40),
        idle in 0..6usize,
        measured: bool,
    ) {
        steps.extend(late);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(play(&steps, idle, measured));
    }
}

/// Looks again in the very moment in which it is woken, as another thread may.
struct AtOnce(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl AtOnce {
    fn poll(self: &Arc<Self>) {
        let mut waits = self.0.lock().unwrap();
        let waker = Arc::clone(self).into();
        if waits
            .as_mut()
            .is_some_and(|waits| waits.as_mut().poll(&mut Context::from_waker(&waker)).is_ready())
        {
            *waits = None;
        }
    }
}

impl Wake for AtOnce {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

#[test]
fn a_second_drain_does_not_end_the_first() {
    let queue = WorkQueue::new("test", QueueOptions::default());
    queue.add(1u64);
    let running = queue.try_get().unwrap();
    let drain = || {
        let queue = queue.clone();
        let waits: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(async move { queue.shut_down_with_drain().await });
        let drain = Arc::new(AtOnce(Mutex::new(Some(waits))));
        drain.poll();
        drain
    };
    let drains = [drain(), drain(), drain()];
    let waiting = || drains.iter().filter(|drain| drain.0.lock().unwrap().is_some()).count();
    assert_eq!(waiting(), 3, "a key is running");
    running.done();
    assert_eq!(waiting(), 0);
}

/// Nobody reads the clock for keys that are all alike, yet they age once others go before them.
#[tokio::test(start_paused = true)]
async fn keys_that_came_before_there_were_priorities_age_too() {
    const URGENT: Priority = Priority(7);
    let queue = WorkQueue::new("test", QueueOptions::default());
    queue.add(0);
    tokio::time::advance(AGEING * 2).await;
    for key in 1..20 {
        queue.add_with(&key, URGENT, Reason::MANUAL);
    }
    for _ in 0..AGED_SHARE * 2 {
        assert_ne!(*queue.try_get().unwrap().key(), 0, "it counts as old as the priorities");
    }
    tokio::time::advance(AGEING).await;
    let mut taken = (0..AGED_SHARE).map(|_| *queue.try_get().unwrap().key());
    assert!(taken.any(|key| key == 0), "it waits for longer than the ageing time");
}

/// How long a key of each priority waits is told by the time that it came at.
#[tokio::test(start_paused = true)]
async fn keys_age_by_their_own_time_once_there_are_priorities() {
    let queue = WorkQueue::new("test", QueueOptions::default());
    queue.add_with(&1, Priority(7), Reason::MANUAL);
    queue.add_with(&2, Priority::LOW, Reason::MANUAL);
    tokio::time::advance(AGEING / 2).await;
    queue.add(0);
    tokio::time::advance(AGEING / 2).await;
    for key in 10..20 {
        queue.add_with(&key, Priority(7), Reason::MANUAL);
    }
    let taken: Vec<u64> = (0..AGED_SHARE * 2).map(|_| *queue.try_get().unwrap().key()).collect();
    assert!(taken.contains(&2), "{taken:?}");
    assert!(!taken.contains(&0), "{taken:?}");
}

/// A published queue is measured from then on; another one costs nothing and says nothing.
/// On one thread: a worker whose keys need no wait lets timers, watches and the lease have their turns.
#[tokio::test]
async fn a_worker_that_never_waits_lets_others_run() {
    const KEYS: u64 = 5000;
    let queue: WorkQueue<u64> = WorkQueue::new("test", options(0));
    for by_one_step in [false, true] {
        for key in 0..KEYS {
            queue.add(key);
        }
        let done = Arc::new(AtomicU64::new(0));
        let (others, counted) = (queue.clone(), done.clone());
        let mut worker = tokio::task::JoinSet::new();
        worker.spawn(async move {
            let mut item = others.get().await.unwrap();
            while counted.fetch_add(1, Ordering::Relaxed) + 1 < KEYS {
                if by_one_step {
                    assert!(item.advance().await);
                } else {
                    drop(item);
                    item = others.get().await.unwrap();
                }
            }
        });
        let (mut before, mut longest) = (0, 0);
        let mut ended = None;
        while ended.is_none() {
            tokio::task::yield_now().await;
            ended = worker.try_join_next();
            let now = done.load(Ordering::Relaxed);
            longest = longest.max(now - before);
            before = now;
        }
        ended.unwrap().unwrap();
        assert!(longest <= 256, "{longest} keys in one turn");
    }
}

#[tokio::test(start_paused = true)]
async fn times_are_taken_for_who_measures() {
    let queue = WorkQueue::new("test", QueueOptions::default());
    let work = async || {
        queue.add(1);
        queue.add(2);
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
        let (first, second) = (queue.try_get().unwrap(), queue.try_get().unwrap());
        tokio::time::advance(std::time::Duration::from_secs(3)).await;
        first.done();
        second.done();
    };
    work().await;
    assert_eq!(queue.report().stats.waited.count(), 0);
    queue.measure();
    work().await;
    let stats = queue.report().stats;
    assert_eq!((stats.waited.count(), stats.worked.count()), (2, 2));
    assert_eq!((stats.waited.sum_nanos, stats.worked.sum_nanos), (4_000_000_000, 6_000_000_000));
}

/// One key: how often it was added and what the workers saw of it.
#[derive(Default)]
struct Seen {
    /// The number of the last add.
    added: AtomicU64,
    /// The state of it that the last run saw.
    worked: AtomicU64,
    running: AtomicBool,
}

/// Several producers and workers on several threads: a key is with one worker at a time, and after the last add of
/// every key there is a run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_add_is_lost_between_threads_and_no_key_runs_twice() {
    const ADDS: u64 = 20_000;
    // Few idle keys, so that keys are forgotten and made anew all the time.
    let queue = WorkQueue::new("test", options(8));
    let seen: Arc<Vec<Seen>> = Arc::new((0..KEYS * 10).map(|_| Seen::default()).collect());
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..4 {
        let (queue, seen) = (queue.clone(), Arc::clone(&seen));
        workers.spawn(async move {
            let mut next = queue.get().await;
            while let Some(item) = next {
                let own = &seen[*item.key() as usize];
                assert!(!own.running.swap(true, Ordering::SeqCst), "the key is with another worker");
                let added = own.added.load(Ordering::SeqCst);
                if number % 2 == 0 {
                    tokio::task::yield_now().await;
                }
                own.worked.store(added, Ordering::SeqCst);
                own.running.store(false, Ordering::SeqCst);
                next = if number == 3 {
                    item.done();
                    queue.get().await
                } else {
                    WorkQueue::next(item).await
                };
            }
        });
    }
    let mut producers = tokio::task::JoinSet::new();
    for producer in 0..3u64 {
        let (queue, seen) = (queue.clone(), Arc::clone(&seen));
        producers.spawn(async move {
            let random = setpoint_api::Random::from_seed(producer);
            for _ in 0..ADDS {
                let key = random.below(seen.len() as u64);
                seen[key as usize].added.fetch_add(1, Ordering::SeqCst);
                queue.add(key);
                if random.below(50) == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    while producers.join_next().await.is_some() {}
    queue.shut_down_with_drain().await;
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
    for (key, own) in seen.iter().enumerate() {
        let (added, worked) = (own.added.load(Ordering::SeqCst), own.worked.load(Ordering::SeqCst));
        assert_eq!(added, worked, "the last add of {key} had no run");
    }
}

/// A process may have a hundred controllers with nothing to do.
#[test]
fn an_idle_queue_holds_less_than_a_kilobyte() {
    let size = size_of::<shell::Shared<crate::key::Key>>();
    assert!(size < 1024, "{size}");
}

#[test]
fn adds_retries_and_waits_are_counted_as_client_go_counts_them() {
    let mut queue: Queue<&str> = Queue::new(QueueOptions::default());
    let (now, why) = (Duration::from_secs, Reason::MANUAL);
    (0..3).for_each(|_| queue.add(&"a", 0, why, now(0)));
    assert_eq!(queue.stats.adds, 1, "one that is queued already is none");
    let run = queue.get(now(1)).unwrap();
    queue.add(&"a", 0, why, now(2));
    queue.add(&"a", 0, why, now(30));
    queue.done(run.id, now(60));
    assert_eq!(queue.stats.adds, 2);
    let again = queue.get(now(61)).unwrap();
    assert_eq!(
        (run.waited, again.waited),
        (now(1), now(59)),
        "since it was added again, not since it could run"
    );
    queue.add_after(&"b", now(5), 0, why, now(61));
    queue.add_after(&"c", Duration::ZERO, 0, why, now(61));
    queue.add_rate_limited(&"d", 0, why, now(61));
    assert_eq!((queue.stats.retries, queue.stats.adds), (3, 3));
}

/// The end of one delay made the other key leave the idle ones. It was then forgotten twice, and its place with it.
#[test]
fn a_shutdown_forgets_a_delayed_key_once() {
    let now = Duration::ZERO;
    for (first, second) in [(1, 2), (2, 1)] {
        let mut queue = Queue::new(options(1));
        queue.intern(&first);
        queue.add_after(&first, Duration::from_millis(10), 0, Reason::MANUAL, now);
        queue.add_after(&second, Duration::from_millis(5), 0, Reason::MANUAL, now);
        queue.shut_down();
        assert_eq!(queue.known(), 1, "one key may stay idle");
        queue.intern(&3);
        queue.intern(&4);
        assert_eq!(queue.known(), 1);
    }
}
