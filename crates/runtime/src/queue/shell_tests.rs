//! The shell: the same contract as the core, through locks, an inbox and wake-ups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;

const KEYS: u64 = 40;

/// What a single thread may do with both.
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
        1 => prop_oneof![40 => Just(Step::Advance(1)), 1 => Just(Step::ShutDown)],
    ]
}

fn options(idle_keys: usize) -> QueueOptions<u64> {
    QueueOptions { idle_keys, fairness: Some(|key| key % 3), ..QueueOptions::default() }
}

/// The shell gives what the core gives, whatever lies in between.
async fn play(steps: &[Step], idle_keys: usize) {
    let start = tokio::time::Instant::now();
    let shell = WorkQueue::new("test", options(idle_keys));
    // The core forgets nothing, so that forgetting too much shows.
    let mut core = Queue::new(options(usize::MAX));
    let mut running: BTreeMap<u64, (Item<u64>, KeyId)> = BTreeMap::new();
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
            Step::ShutDown => {
                shell.shut_down();
                core.shut_down();
            }
        }
        assert_eq!(shell.len(), core.len());
        for key in 0..KEYS {
            assert_eq!(shell.num_requeues(&key), core.num_requeues(&key));
        }
    }
}

fn took(
    item: Option<Item<u64>>,
    core: &mut Queue<u64>,
    now: std::time::Duration,
    running: &mut BTreeMap<u64, (Item<u64>, KeyId)>,
) {
    let run = core.get(now);
    let expected = run.map(|run| (*core.key(run.id).unwrap(), run.priority, run.failures, run.waited));
    let got = item.as_ref().map(|item| (*item.key(), item.priority().0, item.failures(), item.waited()));
    assert_eq!(got, expected);
    if let (Some(item), Some(run)) = (item, run) {
        assert!(running.insert(*item.key(), (item, run.id)).is_none(), "a key is with two workers");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_shell_does_what_the_core_does(steps in prop::collection::vec(step(), 1..160), idle in 0..6usize) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(play(&steps, idle));
    }
}

/// One key: how often it was added and what the workers saw of it.
#[derive(Default)]
struct Seen {
    /// The number of the last add.
    added: AtomicU64,
    /// What the last run saw of it.
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
    let size = size_of::<shell::Shared<crate::reconcile::Request>>();
    assert!(size < 1024, "{size}");
}
