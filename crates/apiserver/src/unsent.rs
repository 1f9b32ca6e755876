//! Answers that an HTTP/2 client has not taken yet. This module limits how many of their bytes one connection holds,
//! and for how long.
//!
//! A client gives each stream a window, and may give it none. Its socket stays writable then, so only the streams
//! themselves can tell that the client does not read.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

use crate::body::{Body, BoxError};

/// How long a client may leave bytes unread before its connection is closed.
pub(crate) const WRITE_STALL: Duration = Duration::from_secs(60);
/// Bytes of answers that a connection may hold. Over this limit its further requests wait before they begin.
const MAX_UNSENT: usize = 16 * 1024 * 1024;
/// Answers and frames up to this length are neither counted nor cut: the number of streams bounds them.
const SMALL: usize = 64 * 1024;
/// Bytes of one piece. The next piece is taken when the client's window has room again.
const PIECE: usize = 256 * 1024;
/// The longest last piece, which is a copy. It stays in the connection after the stream's task has ended, and must
/// not keep a whole answer in memory.
const LAST: usize = 16 * 1024;

/// The answers that one connection holds.
#[derive(Clone, Default)]
pub(crate) struct Unsent(Arc<Held>);

#[derive(Default)]
struct Held {
    bytes: AtomicUsize,
    freed: Notify,
}

impl Unsent {
    async fn room(&self) {
        loop {
            let freed = self.0.freed.notified();
            if self.0.bytes.load(Ordering::Acquire) < MAX_UNSENT {
                return;
            }
            freed.await;
        }
    }

    fn hold(&self, bytes: usize) -> Share {
        self.0.bytes.fetch_add(bytes, Ordering::AcqRel);
        Share { bytes, unsent: self.clone() }
    }
}

/// One answer's part of the bytes that its connection holds.
struct Share {
    bytes: usize,
    unsent: Unsent,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.unsent.0.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.unsent.0.freed.notify_waiters();
    }
}

/// Bytes that count as long as a piece of them exists anywhere.
struct Counted {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// One HTTP/2 stream.
#[derive(Clone)]
pub(crate) struct Stream {
    unsent: Unsent,
    /// The time by which the client must have taken the last piece.
    due: Arc<Mutex<Option<Instant>>>,
}

impl Stream {
    fn set_due(&self, due: Option<Instant>) {
        *self.due.lock().expect("no holder of this lock panics") = due;
    }

    fn due(&self) -> Option<Instant> {
        *self.due.lock().expect("no holder of this lock panics")
    }
}

tokio::task_local! {
    static STREAM: Stream;
}

/// Runs the task of one HTTP/2 stream. If a client takes nothing of a piece for too long, the task ends, which resets
/// the stream.
pub(crate) async fn stream(unsent: Unsent, task: impl Future<Output = ()>) {
    let stream = Stream { unsent, due: Arc::default() };
    let watched = stream.clone();
    let run = async move {
        let mut task = pin!(task);
        let mut alarm: Option<Pin<Box<Sleep>>> = None;
        poll_fn(move |cx| {
            if task.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let Some(due) = watched.due() else {
                alarm = None;
                return Poll::Pending;
            };
            let alarm = alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if alarm.deadline() != due {
                alarm.as_mut().reset(due);
            }
            alarm.as_mut().poll(cx)
        })
        .await;
    };
    STREAM.scope(stream, run).await;
}

/// The stream of the current request; none for one that came in another way.
pub(crate) fn current() -> Option<Stream> {
    STREAM.try_with(Stream::clone).ok()
}

/// Runs a part of a request that has a task of its own.
pub(crate) async fn within<F: Future>(stream: Option<Stream>, part: F) -> F::Output {
    match stream {
        Some(stream) => STREAM.scope(stream, part).await,
        None => part.await,
    }
}

/// Waits until the connection of the current request holds few enough answers for one more. A request that has waited
/// for another event calls this again before it answers.
pub(crate) async fn room() {
    let Some(stream) = current() else { return };
    stream.unsent.room().await;
}

/// Counts an answer that goes to an HTTP/2 stream, and hands it over piece by piece.
pub(crate) fn pace(response: Response<Body>) -> Response<Body> {
    let exact = response.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
    if exact.is_some_and(|length| length <= SMALL) {
        return response;
    }
    let Some(stream) = current() else { return response };
    let share = exact.map(|length| stream.unsent.hold(length));
    response.map(|body| Paced { body, share, stream, rest: Bytes::new() }.boxed_unsync())
}

/// A body in pieces. The client must take each piece in time.
struct Paced {
    body: Body,
    /// The share of a body of known length: it exists already, and comes as one frame.
    share: Option<Share>,
    stream: Stream,
    /// The rest of the last long frame.
    rest: Bytes,
}

impl Paced {
    /// The next piece of a frame. A long frame counts while a piece of it lives.
    fn piece(&mut self, frame: Bytes) -> Bytes {
        if frame.len() <= SMALL {
            return frame;
        }
        let share = self.share.take().unwrap_or_else(|| self.stream.unsent.hold(frame.len()));
        self.rest = Bytes::from_owner(Counted { bytes: frame, _share: share });
        self.next_piece()
    }

    fn next_piece(&mut self) -> Bytes {
        match self.rest.len() {
            length if length > LAST => self.rest.split_to(PIECE.min(length - LAST)),
            _ => Bytes::copy_from_slice(&std::mem::take(&mut self.rest)),
        }
    }
}

impl http_body::Body for Paced {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = if self.rest.is_empty() {
            // The client has taken the last piece, or the next one would not be requested.
            self.stream.set_due(None);
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame.map_data(|bytes| self.piece(bytes)),
                other => return Poll::Ready(other),
            }
        } else {
            Frame::data(self.next_piece())
        };
        self.stream.set_due(Some(Instant::now() + WRITE_STALL));
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let mut hint = self.body.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}
