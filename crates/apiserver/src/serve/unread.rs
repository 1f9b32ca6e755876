//! Bodies of requests that nobody read to their end: a refused write must still get its answer.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::body::{Body, BoxError};

/// Bytes that are discarded of a body that nobody read, as Go's server does it.
const DISCARD: usize = 256 * 1024;
/// How long a client may take to send them.
const DISCARD_FOR: Duration = Duration::from_secs(1);

/// The part of a body that a handler did not read.
#[derive(Clone, Default)]
pub(super) struct Left(Arc<Mutex<Option<Body>>>);

/// Lends a body to a handler; `Left` gets it back when the handler drops it before its end.
pub(super) fn lend(body: Body) -> (Body, Left) {
    let left = Left::default();
    // Most requests have no body.
    if body.is_end_stream() {
        return (body, left);
    }
    (Lent { body: Some(body), left: left.clone() }.boxed_unsync(), left)
}

impl Left {
    /// Discards a short rest. False if there is more, or if the client waits to be asked for it: then the connection
    /// (HTTP/1) or the stream (HTTP/2) ends with the answer.
    pub(super) async fn discard(&self, is_expected: bool) -> bool {
        let left = self.0.lock().expect("no holder of this lock panics").take();
        match left {
            None => true,
            // Reading the body would tell the client to send it, and the server has no use for it.
            Some(_) if is_expected => false,
            Some(body) => tokio::time::timeout(DISCARD_FOR, discard(body)).await.unwrap_or(false),
        }
    }
}

async fn discard(mut body: Body) -> bool {
    let mut taken = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        taken += frame.data_ref().map_or(0, Bytes::len);
        if taken > DISCARD {
            return false;
        }
    }
    true
}

/// A body that goes back to where it came from.
struct Lent {
    body: Option<Body>,
    left: Left,
}

impl http_body::Body for Lent {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        // Not every body knows afterwards that this was its end.
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let unread = self.body.take().filter(|body| !body.is_end_stream());
        *self.left.0.lock().expect("no holder of this lock panics") = unread;
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use http_body_util::StreamBody;

    use super::*;

    fn pieces(count: usize, more: bool) -> Body {
        let pieces =
            std::iter::repeat_with(|| Ok::<_, BoxError>(Frame::data(Bytes::from_static(&[0; 1024]))));
        let rest = futures::stream::pending().take(usize::from(more));
        StreamBody::new(futures::stream::iter(pieces.take(count)).chain(rest)).boxed_unsync()
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_rest_is_discarded_and_a_long_or_slow_one_is_not_waited_for() {
        for (count, more, is_expected, ends) in [
            (256, false, false, true),
            (257, false, false, false),
            (1, true, false, false),
            (1, false, true, false),
        ] {
            let began = tokio::time::Instant::now();
            let (body, left) = lend(pieces(count, more));
            drop(body);
            assert_eq!(left.discard(is_expected).await, ends, "{count} {more} {is_expected}");
            assert!(began.elapsed() <= DISCARD_FOR);
        }
    }

    #[tokio::test]
    async fn a_body_that_was_read_leaves_nothing() {
        let (body, left) = lend(pieces(3, false));
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), 3 * 1024);
        assert!(left.discard(true).await);
    }
}
