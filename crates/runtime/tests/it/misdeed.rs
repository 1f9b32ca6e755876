//! The misdeeds of a server to its clients.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use futures::stream::BoxStream;
use hyper::body::Frame;
use serde_json::{Value, json};

use crate::world::{event, one};

/// The answer to a request instead of, or in addition to, a proper one.
#[derive(Debug, Clone, Default)]
pub struct Misdeed {
    /// An HTTP error instead of an answer.
    pub status: Option<(u16, &'static str)>,
    pub retry_after: Option<u32>,
    /// The body breaks off with an error after so many bytes.
    pub cut_after: Option<usize>,
    /// The body ends properly after so many events of a watch.
    pub close_after: Option<usize>,
    /// Nothing follows the first so many events of a watch, not even its end.
    pub mute_after: Option<usize>,
    /// This event follows the first so many ones, then the body ends.
    pub last_words: Option<(usize, Value)>,
    /// The bookmark behind the first state is never sent.
    pub no_end_bookmark: bool,
    /// The bookmark behind the first state comes only behind so many changes.
    pub late_end: Option<usize>,
    /// Every event is sent twice.
    pub duplicate: bool,
    /// Pairs of events change places.
    pub swap: bool,
    /// An event, or an object of a list, that nobody can read is sent before each other one.
    pub garbage: bool,
    /// So many bytes at a time, with a pause between.
    pub trickle: Option<(usize, Duration)>,
    /// Nothing but bookmarks until the watch ends after a while.
    pub bookmarks_only: bool,
    /// The body is compressed, although the client refused that.
    pub gzip: bool,
    /// The body is said to be compressed in a way that nobody knows.
    pub strange_encoding: bool,
    /// No answer at all.
    pub silent: bool,
}

/// The connection broke.
#[derive(Debug, thiserror::Error)]
#[error("connection reset")]
pub struct Broken;

/// Misdeeds among the events of a watch.
pub fn disturb(events: BoxStream<'static, Bytes>, misdeed: &Misdeed) -> BoxStream<'static, Bytes> {
    let mut events = events;
    if misdeed.duplicate {
        events = events.flat_map(|event| futures::stream::iter([event.clone(), event])).boxed();
    }
    if misdeed.swap {
        // Only events that are there together change places: nothing is held back.
        events = events
            .ready_chunks(2)
            .map(|mut pair| {
                let bookmark = pair.iter().any(|event| event.starts_with(br#"{"type":"BOOKMARK""#));
                if !bookmark {
                    pair.reverse();
                }
                futures::stream::iter(pair)
            })
            .flatten()
            .boxed();
    }
    if misdeed.garbage {
        let garbage = [
            &br#"{"type":"ADDED","object":{"metadata":{"name":7}}}"#[..],
            b"{\"type\":\"MODIFIED\"}",
            b"garbage",
            br#"{"type":"UNHEARD-OF","object":{"metadata":{"name":"x","namespace":"a"}}}"#,
        ];
        let mut turn = 0;
        events = events
            .flat_map(move |event| {
                turn += 1;
                let line = [garbage[turn % garbage.len()], b"\n"].concat();
                futures::stream::iter([Bytes::from(line), event])
            })
            .boxed();
    }
    if let Some((count, value)) = misdeed.last_words.clone() {
        events = events.take(count).chain(one(event("ERROR", &value))).boxed();
    }
    if let Some(count) = misdeed.close_after {
        events = events.take(count).boxed();
    }
    if let Some(count) = misdeed.mute_after {
        events = events.take(count).chain(futures::stream::pending()).boxed();
    }
    events
}

/// Misdeeds among the objects of a list.
pub fn litter(mut list: Value, misdeed: &Misdeed) -> Value {
    if misdeed.garbage {
        let garbage =
            [json!({"metadata": {"name": 7}}), json!({}), json!(null), json!("garbage"), json!([{}])];
        let items = list["items"].as_array_mut().unwrap();
        let mixed = items.drain(..).enumerate();
        *items = mixed.flat_map(|(turn, item)| [garbage[turn % garbage.len()].clone(), item]).collect();
    }
    list
}

/// Misdeeds among the bytes of a body.
pub fn spoil(
    chunks: BoxStream<'static, Bytes>,
    misdeed: &Misdeed,
) -> BoxStream<'static, Result<Frame<Bytes>, Broken>> {
    let mut chunks = chunks;
    if misdeed.gzip {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        chunks = chunks
            .map(move |chunk| {
                encoder.write_all(&chunk).unwrap();
                encoder.flush().unwrap();
                Bytes::from(std::mem::take(encoder.get_mut()))
            })
            .boxed();
    }
    if let Some((size, pause)) = misdeed.trickle {
        chunks = chunks
            .flat_map(move |chunk| {
                let pieces: Vec<Bytes> = chunk.chunks(size).map(Bytes::copy_from_slice).collect();
                futures::stream::iter(pieces).then(move |piece| async move {
                    tokio::time::sleep(pause).await;
                    piece
                })
            })
            .boxed();
    }
    let frames = chunks.map(|chunk| Ok(Frame::data(chunk)));
    let Some(limit) = misdeed.cut_after else { return frames.boxed() };
    let cut = frames.scan((0, false), move |(sent, broken), frame| {
        let item = if *broken {
            None
        } else {
            let mut chunk: Bytes = frame.unwrap().into_data().unwrap();
            let room = limit - *sent;
            *broken = chunk.len() > room;
            chunk.truncate(room);
            *sent += chunk.len();
            Some(if *broken {
                vec![Ok(Frame::data(chunk)), Err(Broken)]
            } else {
                vec![Ok(Frame::data(chunk))]
            })
        };
        futures::future::ready(item)
    });
    cut.flat_map(futures::stream::iter).boxed()
}
