//! Heavy requests are worked on beside the threads that read connections.

use std::future::poll_fn;
use std::pin::pin;
use std::task::ready;

use tokio_util::sync::PollSemaphore;

use crate::context::RequestContext;
use crate::negotiate::{Format, Representation};
use crate::request::Verb;
use crate::request_limits::Limits;

/// Bodies and objects up to this length are quick to handle on the thread that reads connections.
const QUICK: usize = 64 * 1024;

/// Whether a request may keep its thread busy for long: its body is long, or what it changes is, or it goes through
/// many objects.
fn is_heavy(ctx: &RequestContext, sent: usize) -> bool {
    match ctx.info.verb {
        Verb::DeleteCollection => true,
        // In these forms each object of a list is decoded; others are written as they are stored.
        Verb::List => {
            ctx.negotiated.representation != Representation::Whole
                || ctx.negotiated.pretty
                || ctx.negotiated.format == Format::Yaml
        }
        _ if sent > QUICK => true,
        Verb::Patch => {
            let key = ctx.resource.key(&ctx.info.namespace, &ctx.info.name);
            ctx.server.store().snapshot().get(&key).is_some_and(|entry| entry.value.len() > QUICK)
        }
        _ => false,
    }
}

/// Answers a request whose body has that length: a heavy one beside the threads that read connections.
pub(crate) async fn work<T>(ctx: &RequestContext, sent: usize, request: impl Future<Output = T>) -> T {
    if ctx.work.shares_thread && is_heavy(ctx, sent) {
        return beside(&ctx.server.0.limits, request).await;
    }
    request.await
}

/// Each step of a heavy request is taken where blocking is allowed; while it waits it holds no thread.
async fn beside<F: Future>(limits: &Limits, request: F) -> F::Output {
    let mut places = PollSemaphore::new(limits.heavy.clone());
    let mut request = pin!(request);
    poll_fn(move |cx| {
        // The semaphore is never closed.
        let place = ready!(places.poll_acquire(cx));
        let polled = tokio::task::block_in_place(|| request.as_mut().poll(cx));
        drop(place);
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use tokio::sync::Semaphore;
    use tokio::task::JoinSet;

    use super::*;
    use crate::request_limits::MAX_HEAVY;

    fn limits() -> Limits {
        let places = || Arc::new(Semaphore::new(1));
        Limits { reading: places(), mutating: places(), heavy: Arc::new(Semaphore::new(MAX_HEAVY)) }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn heavy_requests_leave_the_thread_to_others() {
        let limits = Arc::new(limits());
        let mut requests = JoinSet::new();
        let mut senders = Vec::new();
        for _ in 0..MAX_HEAVY {
            let (send, receive) = mpsc::channel::<()>();
            let limits = limits.clone();
            senders.push(send);
            requests.spawn(async move {
                // Computes until another task of the same runtime has had its turn.
                beside(&limits, async move { receive.recv_timeout(Duration::from_secs(60)).is_ok() }).await
            });
        }
        let mut others = JoinSet::new();
        others.spawn(async move { senders.iter().for_each(|send| send.send(()).unwrap()) });
        while let Some(had_turn) = requests.join_next().await {
            assert!(had_turn.unwrap());
        }
        assert_eq!(limits.heavy.available_permits(), MAX_HEAVY);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_heavy_request_that_waits_holds_no_place() {
        let limits = Arc::new(limits());
        let mut waiting = JoinSet::new();
        for _ in 0..2 * MAX_HEAVY {
            let limits = limits.clone();
            waiting.spawn(async move { beside(&limits, std::future::pending::<()>()).await });
        }
        let mut quick = JoinSet::new();
        quick.spawn(async move { beside(&limits, async {}).await });
        quick.join_next().await.unwrap().unwrap();
    }
}
