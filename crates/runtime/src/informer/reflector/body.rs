//! Reads the page of a list.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::clock::after;
use crate::informer::failure::WatchFailure;
use crate::informer::watch::WatchStream;

/// Bytes that buy a body another deadline: a large list may take long on a slow network, as long as it comes. What is
/// slower than that does not get anywhere.
const PROGRESS: usize = 16 * 1024;

/// Reads a body that was asked for at `begun` to its end. It may take `deadline` for each [`PROGRESS`] bytes.
pub(super) async fn whole(
    mut body: WatchStream,
    begun: Instant,
    deadline: Duration,
) -> Result<Bytes, WatchFailure> {
    let (mut pieces, mut length) = (Vec::new(), 0);
    let (mut due, mut next) = (after(begun, deadline), PROGRESS);
    loop {
        let piece = timeout_at(due, body.next()).await.map_err(|_| WatchFailure::Deadline(deadline))?;
        let Some(piece) = piece.transpose()? else { return Ok(join(pieces, length)) };
        length += piece.len();
        pieces.push(piece);
        if length >= next {
            (due, next) = (after(Instant::now(), deadline), length + PROGRESS);
        }
    }
}

fn join(mut pieces: Vec<Bytes>, length: usize) -> Bytes {
    if pieces.len() == 1 {
        return pieces.swap_remove(0);
    }
    let mut whole = BytesMut::with_capacity(length);
    pieces.into_iter().for_each(|piece| whole.extend_from_slice(&piece));
    whole.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    /// Reads a body of `pieces`, each of `size` bytes and a `pause` after the one before.
    async fn read(pieces: usize, size: usize, pause: Duration) -> Result<usize, WatchFailure> {
        let body = futures::stream::iter(0..pieces).then(move |_| async move {
            tokio::time::sleep(pause).await;
            Ok(Bytes::from(vec![b'x'; size]))
        });
        whole(body.boxed(), Instant::now(), DEADLINE).await.map(|whole| whole.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_long_if_it_gets_on() {
        assert_eq!(read(1, 10, Duration::from_secs(59)).await, Ok(10));
        assert_eq!(read(1000, 4096, Duration::from_secs(14)).await, Ok(4_096_000));
        let late = Err(WatchFailure::Deadline(DEADLINE));
        assert_eq!(read(1, 10, Duration::from_secs(61)).await, late);
        assert_eq!(read(1000, 4096, Duration::from_secs(16)).await, late, "less than 16 KiB a minute");
        assert_eq!(read(1000, 1, Duration::from_secs(1)).await, late, "a byte each second");
    }
}
