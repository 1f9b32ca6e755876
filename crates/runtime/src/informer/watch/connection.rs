//! The tasks of the HTTP connections, which let whoever reads from them finish first.
//!
//! A reader that takes a piece of an answer wakes the connection that it came through. tokio would run the connection next,
//! before whoever the reader wakes in turn, and wake a second thread for the one that was put off. So a reader can hold
//! those wake-ups back until what it read has been passed on.

use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use futures::task::AtomicWaker;
use hyper::rt::Executor;
use hyper_util::rt::TokioExecutor;

thread_local! {
    /// Connections that were woken while a reader on this thread holds them back.
    static HELD: RefCell<Option<Vec<Arc<Connection>>>> = const { RefCell::new(None) };
}

/// Runs connections on the present tokio runtime. They end with the pool that they belong to.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionExecutor;

impl Executor<Pin<Box<dyn Future<Output = ()> + Send>>> for ConnectionExecutor {
    fn execute(&self, mut connection: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let task = Arc::new(Connection::default());
        let waker = Waker::from(Arc::clone(&task));
        TokioExecutor::new().execute(std::future::poll_fn(move |context| {
            task.0.register(context.waker());
            connection.as_mut().poll(&mut Context::from_waker(&waker))
        }));
    }
}

/// The task of a connection.
#[derive(Default)]
struct Connection(AtomicWaker);

impl Wake for Connection {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A thread that ends holds nothing back any more.
        let held = HELD.try_with(|held| held.borrow_mut().as_mut().map(|held| held.push(Arc::clone(self))));
        let held = held.is_ok_and(|held| held.is_some());
        if !held {
            self.0.wake();
        }
    }
}

/// Connections that wait to be woken. They are when this is dropped, at the latest.
#[derive(Default)]
pub(crate) struct HeldBack(Vec<Arc<Connection>>);

impl HeldBack {
    /// Awaits `read`, and holds back the connections that its last poll wakes, if `wanted` says so then. Tells whether
    /// it did.
    pub(crate) async fn during<F: Future>(
        &mut self,
        wanted: impl Fn() -> bool,
        read: F,
    ) -> (F::Output, bool) {
        let mut read = pin!(read);
        std::future::poll_fn(|context| {
            let hold = wanted().then(Hold::begin);
            let polled = read.as_mut().poll(context);
            polled.map(|output| {
                // A read that still waits has passed nothing on, and may wait for a connection that it woke.
                let held = hold.map(Hold::end);
                let wanted = held.is_some();
                self.0.extend(held.into_iter().flatten());
                (output, wanted)
            })
        })
        .await
    }

    /// Wakes them.
    pub(crate) fn wake(&mut self) {
        self.0.drain(..).for_each(|connection| connection.0.wake());
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        self.wake();
    }
}

/// Holds the connections of this thread back; wakes them when it is dropped.
struct Hold;

impl Hold {
    fn begin() -> Self {
        HELD.set(Some(Vec::new()));
        Hold
    }

    fn end(self) -> Vec<Arc<Connection>> {
        HELD.take().unwrap_or_default()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        drop(HeldBack(HELD.take().unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;

    use futures::FutureExt;

    use super::*;

    /// A connection that counts its polls, and what wakes it.
    #[derive(Default)]
    struct Watched {
        polls: AtomicUsize,
        waker: Mutex<Option<Waker>>,
    }

    impl Watched {
        async fn start() -> Arc<Self> {
            let watched = Arc::new(Watched::default());
            let own = Arc::clone(&watched);
            ConnectionExecutor.execute(Box::pin(std::future::poll_fn(move |context| {
                own.polls.fetch_add(1, Ordering::Relaxed);
                *own.waker.lock().unwrap() = Some(context.waker().clone());
                Poll::Pending
            })));
            assert_eq!(watched.polls().await, 1);
            watched
        }

        fn wake(&self) {
            self.waker.lock().unwrap().as_ref().expect("it was polled").wake_by_ref();
        }

        async fn polls(&self) -> usize {
            // Everything that was woken before runs before this goes on: the runtime has one thread.
            tokio::task::yield_now().await;
            self.polls.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn a_connection_that_its_reader_woke_is_held_back_until_the_reader_says_so() {
        let connection = Watched::start().await;
        connection.wake();
        assert_eq!(connection.polls().await, 2, "nobody holds it back");
        let mut held = HeldBack::default();
        held.during(|| true, async { connection.wake() }).await;
        assert_eq!(connection.polls().await, 2, "held back");
        held.wake();
        assert_eq!(connection.polls().await, 3);
        held.wake();
        assert_eq!(connection.polls().await, 3, "once");
        held.during(|| true, async { connection.wake() }).await;
        drop(held);
        assert_eq!(connection.polls().await, 4, "at the latest with its end");
    }

    #[tokio::test]
    async fn a_reader_that_still_waits_holds_nothing_back() {
        let connection = Watched::start().await;
        let mut held = HeldBack::default();
        let waits = held.during(|| true, async {
            connection.wake();
            std::future::pending::<()>().await;
        });
        assert!(waits.now_or_never().is_none());
        assert_eq!(connection.polls().await, 2);
    }

    #[tokio::test]
    async fn nothing_is_held_back_that_the_reader_does_not_want_to_be() {
        let connection = Watched::start().await;
        let mut held = HeldBack::default();
        held.during(|| false, async { connection.wake() }).await;
        assert_eq!(connection.polls().await, 2);
    }

    #[tokio::test]
    async fn what_others_wake_is_not_held_back() {
        let connection = Watched::start().await;
        let mut held = HeldBack::default();
        held.during(|| true, async {
            connection.wake();
            std::thread::scope(|scope| scope.spawn(|| connection.wake()).join().unwrap());
        })
        .await;
        assert_eq!(connection.polls().await, 2, "the socket has more for it");
    }

    #[tokio::test]
    async fn a_reader_that_panics_holds_nothing_back() {
        let connection = Watched::start().await;
        let mut held = HeldBack::default();
        let panics = held.during(|| true, async {
            connection.wake();
            panic!("as a reader may");
        });
        assert!(std::panic::AssertUnwindSafe(panics).catch_unwind().await.is_err());
        assert_eq!(connection.polls().await, 2);
        connection.wake();
        assert_eq!(connection.polls().await, 3);
    }
}
