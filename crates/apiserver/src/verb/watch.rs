//! `GET` of a collection with `watch=true`: a cursor into the store's history, one line for each event.

pub(crate) mod socket;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use setpoint_api::cause::{Cause, Path};
use setpoint_store::{Entry, Event, KeyRange, ReadError, Watch, WatchError};
use tokio::time::Instant;

use crate::body::Body;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::registry::Resource;
use crate::request::Query;
use crate::selection::{Selection, parse_version, scope};
use crate::versions::conversion;
use crate::watch_frame::{FrameWriter, Kind};

/// The interval of bookmarks on an idle watch.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The time before a watch's end at which it sends a last bookmark.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// A watch without a timeout lasts this long and up to twice as long.
const SHORTEST_DEFAULT: u64 = 1800;
/// The limit of a longer timeout: about thirty years, beyond which clocks overflow.
const LONGEST: u64 = 1_000_000_000;
/// The pauses before a conversion webhook is called again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The size of a frame, in bytes. Events that are ready go out together.
const FRAME: usize = 64 * 1024;

fn check_options(query: &Query) -> Result<()> {
    let path = Path::new("resourceVersionMatch");
    let mut causes = Vec::new();
    let matching = query.get("resourceVersionMatch").unwrap_or("");
    let initial = query.has("sendInitialEvents");
    if initial && matching != "NotOlderThan" {
        let text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(Cause::forbidden(&path, text));
    }
    if !matching.is_empty() {
        if !initial {
            let text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(Cause::forbidden(&path, text));
        }
        if matching != "NotOlderThan" {
            causes.push(Cause::not_supported(&path, matching, &["NotOlderThan"]));
        }
        if query.get("continue").is_some() {
            let text = "resourceVersionMatch is forbidden when continue is provided";
            causes.push(Cause::forbidden(&path, text));
        }
    }
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid_options("ListOptions", causes)) }
}

/// Answers a watch.
pub(crate) async fn watch(ctx: &RequestContext) -> Result<Response<Body>> {
    let query = &ctx.info.query;
    check_options(query)?;
    let selection = Selection::parse(&ctx.resource, &ctx.info)?;
    let range = scope(&ctx.resource, &ctx.info, &selection);
    let timeout = match query.number("timeoutSeconds")? {
        // kube-apiserver's timer is over at once.
        Some(seconds) if seconds < 0 => 0,
        Some(seconds) if seconds > 0 => u64::try_from(seconds).unwrap_or(SHORTEST_DEFAULT),
        _ => SHORTEST_DEFAULT + ctx.server.options().random.below(SHORTEST_DEFAULT),
    };
    // The watch keeps one context as long as it lasts, without the headers: they are no longer needed.
    let ctx = Arc::new(RequestContext { headers: http::HeaderMap::new(), ..ctx.clone() });
    let frames = FrameWriter::new(&ctx)?;
    let content_type = frames.content_type();
    let mut run = Run {
        selection,
        bookmarks: query.flag("allowWatchBookmarks"),
        frames,
        ready: VecDeque::new(),
        unconverted: Vec::new(),
        source: Source::Ended,
        skip_until: 0,
        ends: Instant::now() + Duration::from_secs(timeout.min(LONGEST)),
        next_bookmark: Instant::now() + BOOKMARK_EVERY,
        last_bookmark_sent: Duration::from_secs(timeout) < BOOKMARK_BEFORE_END,
        ctx,
    };
    run.begin(range).await?;
    let frames = stream::unfold(run, |mut run| async move {
        let frame = run.frame().await?;
        Some((Ok(Frame::data(frame)), run))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

/// A watch under way.
struct Run {
    ctx: Arc<RequestContext>,
    selection: Selection,
    bookmarks: bool,
    frames: FrameWriter,
    ready: VecDeque<Ready>,
    /// Events in the stored version: one batch of the store's.
    unconverted: Vec<Arc<Event>>,
    source: Source,
    /// Events up to here are skipped: the client asked for a version in the future.
    skip_until: u64,
    ends: Instant,
    next_bookmark: Instant,
    last_bookmark_sent: bool,
}

/// The next thing to send.
enum Ready {
    Added(Arc<Entry>),
    Changed(Arc<Event>),
    InitialEnd(u64),
    Line(Bytes),
}

enum Source {
    Live(Watch),
    Ended,
}

impl Run {
    async fn begin(&mut self, range: KeyRange) -> Result<()> {
        let query = self.ctx.info.query.clone();
        let version = query.get("resourceVersion").map(parse_version).transpose();
        let version = version.map_err(|error| ApiError::internal_plain(error.to_string()))?.unwrap_or(0);
        let wants_initial = query.optional_flag("sendInitialEvents");
        if wants_initial == Some(true) {
            self.ctx.server.wait_for(version).await?;
            return self.begin_with_state(range, true).await;
        }
        if version == 0 && wants_initial.is_none() {
            return self.begin_with_state(range, false).await;
        }
        let store = self.ctx.server.store().clone();
        let from = if version == 0 { store.revision() } else { version };
        match store.watch(range.clone(), from) {
            Ok(watch) => self.source = Source::Live(watch),
            Err(ReadError::Future { current }) => {
                self.skip_until = version;
                let watch = store.watch(range, current).map_err(|e| ApiError::unreadable(&e, current))?;
                self.source = Source::Live(watch);
            }
            Err(ReadError::Compacted { floor }) => self.expire(version, floor),
            Err(other) => return Err(ApiError::internal(other)),
        }
        Ok(())
    }

    /// Begins with the current state, followed by events.
    async fn begin_with_state(&mut self, range: KeyRange, announce_end: bool) -> Result<()> {
        let store = self.ctx.server.store();
        let snapshot = store.snapshot();
        let revision = snapshot.revision();
        let watch = store.watch(range.clone(), revision).map_err(|e| ApiError::unreadable(&e, revision))?;
        let resource = self.ctx.resource.clone();
        if conversion::converted_by_webhook(&self.ctx.resource).is_some() {
            let found = snapshot.range(&range, None).cloned().collect();
            match conversion::views(&self.ctx, found).await {
                Ok(views) => {
                    let wanted = views.into_iter().filter(|entry| self.selection.matches(&resource, entry));
                    self.ready = wanted.map(Ready::Added).collect();
                }
                Err(failed) => {
                    let line =
                        self.frames.error(&ApiError::unreadable_list(&resource.group_resource(), &failed));
                    self.ready.push_back(Ready::Line(line));
                    return Ok(());
                }
            }
        } else {
            let wanted =
                snapshot.range(&range, None).filter(|entry| self.selection.matches(&resource, entry));
            self.ready = wanted.cloned().map(Ready::Added).collect();
        }
        if announce_end && self.bookmarks {
            self.ready.push_back(Ready::InitialEnd(revision));
        }
        self.source = Source::Live(watch);
        Ok(())
    }

    /// Ends the watch. Clients expect the error for a compacted version inside the stream.
    fn expire(&mut self, version: u64, floor: u64) {
        let text = format!("too old resource version: {version} ({})", floor.saturating_sub(1));
        let line = self.frames.error(&ApiError::expired(text));
        self.ready.push_back(Ready::Line(line));
        self.source = Source::Ended;
    }

    /// The next frame, or `None` at the end.
    async fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.drain() {
                return Some(frame);
            }
            if !self.unconverted.is_empty() {
                self.convert().await;
                continue;
            }
            let Source::Live(watch) = &mut self.source else { return None };
            let before_end = self.ends.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(self.ends);
            let say_so =
                if self.last_bookmark_sent { self.next_bookmark } else { self.next_bookmark.min(before_end) };
            let (ends, bookmarks) = (self.ends, self.bookmarks);
            tokio::select! {
                biased;
                batch = watch.next() => match batch {
                    Ok(batch) if conversion::converted_by_webhook(&self.ctx.resource).is_some() => self.unconverted = batch.events,
                    Ok(batch) => self.ready.extend(batch.events.into_iter().map(Ready::Changed)),
                    // A client that reads slower than the history is compacted must relist.
                    Err(WatchError::Compacted { .. } | WatchError::Closed) | Err(_) => self.source = Source::Ended,
                },
                () = tokio::time::sleep_until(say_so), if bookmarks => self.bookmark(before_end),
                () = tokio::time::sleep_until(ends) => self.source = Source::Ended,
            }
        }
    }

    /// Converts the next events. They wait for their webhook, as in kube-apiserver: the server calls it again until
    /// it answers, the watch ends, or the definition changes.
    async fn convert(&mut self) {
        let mut pause = FIRST_PAUSE;
        let converted = async {
            loop {
                match conversion::events(&self.ctx, &self.unconverted).await {
                    Ok(events) => return Some(events),
                    // Its webhook may have moved, or have another certificate: the client's next watch finds it.
                    Err(_) if self.is_outdated() => return None,
                    Err(failed) => {
                        let why = failed.first().map_or("", |one| one.why.0.as_str());
                        tracing::warn!(
                            why,
                            resource = self.ctx.resource.plural,
                            "a conversion webhook failed; the watch retries"
                        );
                    }
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        };
        let converted = tokio::time::timeout_at(self.ends, converted).await;
        self.unconverted.clear();
        match converted {
            Ok(Some(events)) => self.ready.extend(events.into_iter().map(Ready::Changed)),
            Ok(None) | Err(_) => self.source = Source::Ended,
        }
    }

    /// Whether the definition has changed since the watch began. kube-apiserver ends every watch of a kind whose
    /// definition changes.
    fn is_outdated(&self) -> bool {
        let generation = |resource: &Resource| resource.custom.as_ref().map(|custom| custom.generation());
        let own = &self.ctx.resource;
        let now = self.ctx.server.0.registry.find(&own.group, &own.version, &own.plural);
        now.as_deref().map(generation) != Some(generation(own))
    }

    fn bookmark(&mut self, before_end: Instant) {
        let now = Instant::now();
        self.next_bookmark = now + BOOKMARK_EVERY;
        self.last_bookmark_sent |= now >= before_end;
        if let Source::Live(watch) = &self.source {
            let revision = watch.progress();
            self.ready.push_back(Ready::Line(self.frames.bookmark(revision, false)));
        }
    }

    /// Joins the events that are ready into one frame. A single event is not copied.
    fn drain(&mut self) -> Option<Bytes> {
        let mut first: Option<Bytes> = None;
        let mut joined: Vec<u8> = Vec::new();
        while let Some(next) = self.ready.pop_front() {
            let Some(line) = self.line(next) else { continue };
            match &first {
                None => first = Some(line),
                Some(head) => {
                    if joined.is_empty() {
                        joined.extend_from_slice(head);
                    }
                    joined.extend_from_slice(&line);
                }
            }
            if joined.len() >= FRAME {
                break;
            }
        }
        if joined.is_empty() { first } else { Some(joined.into()) }
    }

    fn line(&mut self, next: Ready) -> Option<Bytes> {
        match next {
            Ready::Line(line) => Some(line),
            Ready::InitialEnd(revision) => Some(self.frames.bookmark(revision, true)),
            Ready::Added(entry) => self.frames.entry(Kind::Added, &entry),
            Ready::Changed(event) => {
                if event.revision <= self.skip_until {
                    return None;
                }
                let resource = &self.ctx.resource;
                let selected = |entry: &Option<Arc<Entry>>| {
                    entry.as_ref().is_some_and(|entry| self.selection.matches(resource, entry))
                };
                let kind = match (selected(&event.old), selected(&event.new)) {
                    (false, false) => return None,
                    (false, true) => Kind::Added,
                    (true, true) => Kind::Modified,
                    (true, false) => Kind::Deleted,
                };
                self.frames.event(kind, &event)
            }
        }
    }
}
