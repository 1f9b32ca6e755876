//! Heavy requests are worked on beside the threads that read connections, each in a task of its own. Their work stops
//! soon after their client has left or their deadline has passed.

use std::future::{pending, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::task::ready;

use setpoint_machinery::Interrupt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::PollSemaphore;

use crate::configured;
use crate::context::RequestContext;
use crate::negotiate::{Format, Representation};
use crate::request::Verb;
use crate::unsent;

/// Bodies and objects up to this length are quick to handle on the thread that reads connections.
const QUICK: usize = 64 * 1024;

/// A selector up to this length is quickly held against an object.
const QUICK_SELECTOR: usize = 1024;

/// Whether a request may keep its thread busy for long: its body is long, or what it changes is, or it goes through
/// many objects, or a long schema judges it, or it writes expressions that must be checked.
fn is_heavy(ctx: &RequestContext, sent: usize) -> bool {
    let resource = &ctx.resource;
    match ctx.info.verb {
        Verb::DeleteCollection => true,
        // In these forms each object of a list is decoded; others are written as they are stored.
        Verb::List => {
            ctx.negotiated.representation != Representation::Whole
                || ctx.negotiated.pretty
                || ctx.negotiated.format == Format::Yaml
                || ["labelSelector", "fieldSelector"]
                    .iter()
                    .any(|name| ctx.info.query.get(name).is_some_and(|text| text.len() > QUICK_SELECTOR))
        }
        _ if sent > QUICK => true,
        _ if resource.custom.as_ref().is_some_and(|custom| custom.validates_long(&resource.version)) => true,
        // Any write may meet a policy, whose expressions may take long.
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete
            if ctx.server.0.webhooks.current().is_some_and(|hooks| !hooks.policies.is_empty()) =>
        {
            true
        }
        Verb::Create | Verb::Update | Verb::Patch
            if resource.group == configured::GROUP || resource.group == "apiextensions.k8s.io" =>
        {
            true
        }
        Verb::Patch => {
            let key = ctx.resource.key(&ctx.info.namespace, &ctx.info.name);
            ctx.server.store().snapshot().get(&key).is_some_and(|entry| entry.value.len() > QUICK)
        }
        _ => false,
    }
}

/// Answers a request whose body has that length: a heavy one beside the threads that read connections.
pub(crate) async fn work<F>(
    ctx: RequestContext,
    sent: usize,
    request: impl FnOnce(RequestContext) -> F,
) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    if !(ctx.work.shares_thread && is_heavy(&ctx, sent)) {
        return Box::pin(request(ctx)).await;
    }
    let (places, interrupt) = (ctx.server.0.limits.heavy.clone(), ctx.work.interrupt.clone());
    apart(places, interrupt, Box::pin(request(ctx))).await
}

/// Runs a heavy request in a task of its own, so that the connection's task can see that the client leaves, and the
/// deadline can end it. Dropping this future raises the interrupt: what computes at that moment gives up.
async fn apart<F>(places: Arc<Semaphore>, interrupt: Interrupt, request: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let _raised = RaiseOnDrop(interrupt);
    let stream = unsent::current();
    let mut task = JoinSet::new();
    task.spawn(unsent::within(stream, beside(places, request)));
    match task.join_next().await.map(|ended| ended.map_err(tokio::task::JoinError::try_into_panic)) {
        Some(Ok(answer)) => answer,
        // A panic fails the request as if it had no task of its own.
        Some(Err(Ok(panic))) => resume_unwind(panic),
        // The runtime ends, and this future with it.
        Some(Err(Err(_))) | None => pending().await,
    }
}

struct RaiseOnDrop(Interrupt);

impl Drop for RaiseOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// Each step of a heavy request is taken where blocking is allowed; while it waits it holds no thread.
async fn beside<F: Future>(places: Arc<Semaphore>, request: F) -> F::Output {
    let mut places = PollSemaphore::new(places);
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
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::request_limits::MAX_HEAVY;

    fn places() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(MAX_HEAVY))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn heavy_requests_leave_the_thread_to_others() {
        let places = places();
        let mut requests = JoinSet::new();
        let mut senders = Vec::new();
        for _ in 0..MAX_HEAVY {
            let (send, receive) = mpsc::channel::<()>();
            let places = places.clone();
            senders.push(send);
            requests.spawn(async move {
                // Computes until another task of the same runtime has had its turn.
                beside(places, async move { receive.recv_timeout(Duration::from_secs(60)).is_ok() }).await
            });
        }
        let mut others = JoinSet::new();
        others.spawn(async move { senders.iter().for_each(|send| send.send(()).unwrap()) });
        while let Some(had_turn) = requests.join_next().await {
            assert!(had_turn.unwrap());
        }
        assert_eq!(places.available_permits(), MAX_HEAVY);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_heavy_request_that_waits_holds_no_place() {
        let places = places();
        let mut waiting = JoinSet::new();
        for _ in 0..2 * MAX_HEAVY {
            waiting.spawn(beside(places.clone(), pending::<()>()));
        }
        let mut quick = JoinSet::new();
        quick.spawn(beside(places, async {}));
        quick.join_next().await.unwrap().unwrap();
    }
}
