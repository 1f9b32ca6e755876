//! Answers of webhooks: how long one may be, and how many bytes of them are held at once.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::body::BoxError;

/// Bytes that an answer may have beyond twice the length of the request: a patch repeats an object at most, in
/// base64.
const SLACK: usize = 4 * 1024 * 1024;
/// The longest answer. Conversions of long lists need it.
const MAX_ANSWER: usize = 64 * 1024 * 1024;
/// The longest answer that takes no room: the number of calls bounds these.
const SMALL: usize = 64 * 1024;
/// The kilobytes of one webhook's answers that are held at once. An answer without room waits within its call's time.
const MAX_OF_ONE: usize = 64 * 1024;
/// The same limit for all webhooks of a server.
const MAX_OF_ALL: usize = 4 * MAX_OF_ONE;

/// Room for answers, in kilobytes.
pub(crate) type Room = Arc<Semaphore>;

/// Room for the answers of one webhook, or for those that one request waits for.
pub(crate) fn room() -> Room {
    Arc::new(Semaphore::new(MAX_OF_ONE))
}

/// Room for the answers of all webhooks of a server.
pub(crate) fn server_room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_OF_ALL))
}

/// The longest answer to a request of that length.
pub(crate) fn limit(asked: usize) -> usize {
    asked.saturating_mul(2).saturating_add(SLACK).min(MAX_ANSWER)
}

/// The bytes of an answer, and the room that they take until this is dropped.
pub(crate) struct Answer {
    pub(crate) bytes: Bytes,
    _room: Vec<OwnedSemaphorePermit>,
}

/// The reason why an answer could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("{0}")]
    Body(BoxError),
    #[error(transparent)]
    Closed(#[from] AcquireError),
}

/// Reads an answer. A long answer takes all its room before the server reads on: calls that each held a part and
/// waited for more could wait for each other.
pub(crate) async fn read<B>(mut body: B, limit: usize, rooms: [&Room; 3]) -> Result<Answer, AnswerError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let announced = body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    if announced.is_some_and(|length| length > limit) {
        return Err(AnswerError::TooLong(limit));
    }
    let mut taken = Vec::new();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| AnswerError::Body(error.into()))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > limit {
            return Err(AnswerError::TooLong(limit));
        }
        if length > SMALL && taken.is_empty() {
            let kilobytes = u32::try_from(announced.unwrap_or(limit).div_ceil(1024)).unwrap_or(u32::MAX);
            for room in rooms {
                taken.push(room.clone().acquire_many_owned(kilobytes).await?);
            }
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Answer { bytes: bytes.freeze(), _room: taken })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{FutureExt, StreamExt};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    fn endless() -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let piece = || Ok(Frame::data(Bytes::from_static(&[b' '; 1024])));
        StreamBody::new(futures::stream::repeat_with(piece).boxed())
    }

    #[tokio::test]
    async fn an_answer_is_in_proportion_to_its_question() {
        let (request, own, all) = (room(), room(), server_room());
        let rooms = [&request, &own, &all];
        assert_eq!(read(Full::from(vec![0; limit(0)]), limit(0), rooms).await.unwrap().bytes.len(), SLACK);
        for read in [
            read(Full::from(vec![0; limit(0) + 1]), limit(0), rooms).await,
            read(endless(), limit(0), rooms).await,
        ] {
            assert_eq!(read.err().unwrap().to_string(), "the answer is longer than 4194304 bytes");
        }
        assert_eq!((limit(1000), limit(usize::MAX)), (SLACK + 2000, MAX_ANSWER));
        assert_eq!((own.available_permits(), all.available_permits()), (MAX_OF_ONE, MAX_OF_ALL));
    }

    #[tokio::test]
    async fn long_answers_wait_for_room_and_short_ones_do_not() {
        let (request, own, all) = (room(), room(), server_room());
        let rooms = [&request, &own, &all];
        let long = || Full::from(vec![0; MAX_ANSWER]);
        let first = read(long(), MAX_ANSWER, rooms).await.unwrap();
        assert!(read(long(), MAX_ANSWER, rooms).now_or_never().is_none());
        read(Full::from(vec![0; SMALL]), MAX_ANSWER, rooms).now_or_never().unwrap().unwrap();
        // Another webhook has room of its own, but not for the same request.
        assert!(read(long(), MAX_ANSWER, [&request, &room(), &all]).now_or_never().is_none());
        read(long(), MAX_ANSWER, [&room(), &room(), &all]).now_or_never().unwrap().unwrap();
        drop(first);
        read(long(), MAX_ANSWER, rooms).now_or_never().unwrap().unwrap();
    }
}
