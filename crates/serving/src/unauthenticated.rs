//! Connections without an authenticated request. They are few: anybody can open them without credentials.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum number of such connections. A further one waits at most until the oldest has had its [`GRACE`].
pub(super) const MAX_UNAUTHENTICATED: usize = 256;
/// How long a connection may take to its first authenticated request while others wait for its place.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The connections that nobody has authenticated yet.
#[derive(Clone, Default)]
pub(super) struct Unauthenticated(Arc<Inner>);

#[derive(Default)]
struct Inner {
    seats: Mutex<Seats>,
    left: Notify,
}

#[derive(Default)]
struct Seats {
    next: u64,
    /// By age, oldest first.
    taken: BTreeMap<u64, (Instant, CancellationToken)>,
}

/// A connection's place among the unauthenticated connections; it is left when this is dropped.
pub(super) struct Seat {
    number: u64,
    unauthenticated: Unauthenticated,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.unauthenticated.seats().taken.remove(&self.number);
        self.unauthenticated.0.left.notify_one();
    }
}

impl Unauthenticated {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.0.seats.lock().expect("no holder of this lock panics")
    }

    /// Takes a place, that of the oldest if there is no other. The token says when the new one must go in its turn.
    pub(super) async fn seat(&self) -> (Seat, CancellationToken) {
        loop {
            let Err(wait_until) = self.try_seat() else { return self.take() };
            tokio::select! {
                biased;
                () = self.0.left.notified() => {}
                () = tokio::time::sleep_until(wait_until) => {}
            }
        }
    }

    /// Makes room, or says when there will be some at the latest.
    fn try_seat(&self) -> Result<(), Instant> {
        let mut seats = self.seats();
        if seats.taken.len() < MAX_UNAUTHENTICATED {
            return Ok(());
        }
        let oldest = seats.taken.first_entry().expect("the seats are all taken");
        let ripe = oldest.get().0 + GRACE;
        if ripe > Instant::now() {
            return Err(ripe);
        }
        let (_, leave) = oldest.remove();
        leave.cancel();
        Ok(())
    }

    fn take(&self) -> (Seat, CancellationToken) {
        let mut seats = self.seats();
        let (number, leave) = (seats.next, CancellationToken::new());
        seats.next += 1;
        seats.taken.insert(number, (Instant::now(), leave.clone()));
        (Seat { number, unauthenticated: self.clone() }, leave)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_connection_goes_when_another_needs_its_place_and_it_had_its_chance() {
        let unauthenticated = Unauthenticated::default();
        let mut seated = Vec::new();
        for _ in 0..MAX_UNAUTHENTICATED {
            seated.push(unauthenticated.seat().await);
        }
        let began = Instant::now();
        let one_more = unauthenticated.seat().await;
        assert_eq!(began.elapsed(), GRACE);
        assert!(seated[0].1.is_cancelled());
        assert!(seated[1..].iter().all(|(_, leave)| !leave.is_cancelled()));
        // A client that has authenticated by then makes room at once.
        drop(seated.swap_remove(5));
        let began = Instant::now();
        let another = unauthenticated.seat().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(!one_more.1.is_cancelled() && !another.1.is_cancelled());
    }
}
