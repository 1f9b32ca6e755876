//! Connections whose client is not authenticated yet. They are few: anybody can open them without credentials.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Time that a client has to authenticate while other connections wait for its place.
pub const GRACE: Duration = Duration::from_secs(1);

/// The connections whose clients are not authenticated yet.
#[derive(Clone)]
pub struct Unauthenticated(Arc<Inner>);

struct Inner {
    most: usize,
    seats: Mutex<Seats>,
    left: Notify,
}

#[derive(Default)]
struct Seats {
    next: u64,
    /// By age, oldest first.
    taken: BTreeMap<u64, (Instant, CancellationToken)>,
}

/// A connection's place among the unauthenticated connections. Dropping it leaves the place.
pub struct Seat {
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
    /// Bounds these connections to `most`. A further one waits at most until the oldest has had its [`GRACE`].
    pub fn new(most: usize) -> Self {
        Unauthenticated(Arc::new(Inner { most, seats: Mutex::default(), left: Notify::new() }))
    }

    /// Accepts the next connection and gives it a place. The token is cancelled when the connection must leave in its
    /// turn.
    pub async fn accept(&self, listener: &TcpListener) -> (TcpStream, Seat, CancellationToken) {
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    let (seat, leave) = self.seat().await;
                    return (socket, seat, leave);
                }
                // Out of file descriptors: the next connection that closes makes room.
                Err(error) => {
                    let address = listener.local_addr().ok();
                    tracing::warn!(?address, %error, "could not accept a connection; retrying");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.0.seats.lock().expect("no holder of this lock panics")
    }

    /// Takes a place, that of the oldest if there is no other.
    async fn seat(&self) -> (Seat, CancellationToken) {
        loop {
            let Err(wait_until) = self.try_seat() else { return self.take() };
            tokio::select! {
                biased;
                () = self.0.left.notified() => {}
                () = tokio::time::sleep_until(wait_until) => {}
            }
        }
    }

    /// Makes room, or returns the latest time at which there will be room.
    fn try_seat(&self) -> Result<(), Instant> {
        let mut seats = self.seats();
        if seats.taken.len() < self.0.most {
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
        let unauthenticated = Unauthenticated::new(8);
        let mut seated = Vec::new();
        for _ in 0..8 {
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
