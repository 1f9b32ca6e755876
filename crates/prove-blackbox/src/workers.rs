//! Work on several threads. Each run has a runtime of its own, so a thread per run is the simplest owner.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};

/// Does all tasks on up to `jobs` threads. Calls `each` with the results as they come. A task that is not begun when
/// `stopped` says so is left out. Returns when all threads have ended.
pub fn run_all<T: Send, R: Send>(
    jobs: usize,
    tasks: impl IntoIterator<Item = T>,
    stopped: impl Fn() -> bool + Sync,
    work: impl Fn(T) -> R + Sync,
    mut each: impl FnMut(R),
) {
    let queue: Mutex<VecDeque<T>> = Mutex::new(tasks.into_iter().collect());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let (results, arrived) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let results = results.clone();
            let (next, stopped, work) = (&next, &stopped, &work);
            scope.spawn(move || {
                while !stopped() {
                    let Some(task) = next() else { return };
                    // The receiver lives until all workers have ended.
                    let _ = results.send(work(task));
                }
            });
        }
        drop(results);
        for result in arrived {
            each(result);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn all_tasks_are_done_unless_the_work_is_stopped() {
        let mut sum = 0;
        run_all(3, 1..=100, || false, |number| number, |number| sum += number);
        assert_eq!(sum, 5_050);

        let begun = AtomicUsize::new(0);
        let stopped = || begun.load(Ordering::SeqCst) >= 2;
        let mut done = 0;
        run_all(1, 0..100, stopped, |_| begun.fetch_add(1, Ordering::SeqCst), |_| done += 1);
        assert_eq!(done, 2);
    }
}
