//! Decides what a reflector asks for next. Knows no I/O: answers and time come in, requests and deltas go out.

use std::time::Duration;

use setpoint_api::Random;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::first_state::FirstState;
use super::options::ReflectorOptions;
use super::version::Version;
use crate::clock::after;
use crate::informer::cache::Delta;
use crate::informer::cache::Object;
use crate::informer::failure::WatchFailure;
use crate::informer::watch::{ListRequest, WatchRequest};
use crate::revision::{Revision, parse_revision};

/// A watch that ends sooner than this and told nothing counts as a failure.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// Servers that send bookmarks send one about each minute, once there is a newer version than the watch began with: a
/// watch that has had one and then hears nothing for so long is deaf, its connection may be gone without a word.
const DEAF: Duration = Duration::from_secs(150);
/// Streamed first states that stall, one after the other, before the server is taken to be unable to stream.
const STALLS: u32 = 2;
/// The time that a watch may outlive the end that the server was asked for.
const OVERTIME: Duration = Duration::from_secs(10);
/// A streamed list that brings no further object of the first state for this many sync deadlines is given up, whatever
/// else it brings: a server that never marks the end goes on with changes.
const PATIENCE: u32 = 4;

/// The next thing to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    List(ListRequest),
    Watch(WatchRequest),
    Sleep(Duration),
}

/// One event of a watch.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    Added(Object),
    Modified(Object),
    Deleted(Object),
    Bookmark {
        resource_version: String,
        ends_initial: bool,
    },
    Error(WatchFailure),
    /// Cannot be read; its object is left as it is.
    Unreadable,
}

/// One page of a list.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub resource_version: String,
    pub continue_token: Option<String>,
    pub objects: Vec<Object>,
}

pub(crate) struct Machine {
    options: ReflectorOptions,
    random: Random,
    backoff: Backoff,
    last: Option<Version>,
    /// The server refused the last version as too old or too new, or did not bring its state to an end: ask for the
    /// newest state instead.
    unavailable: bool,
    /// The server can stream a first state, as far as is known.
    can_stream: bool,
    /// The first list, from the server's cache, came in pages: that server honours limits at any version.
    pages_from_cache: bool,
    /// How many streamed first states have stalled since one came to its end.
    stalls: u32,
    /// Nobody listened at the server's address, and nothing new was heard since: it may have been restored from a backup
    /// meanwhile. Until it has caught up with our version it then says nothing at all on a watch from there.
    was_away: bool,
    phase: Phase,
}

enum Phase {
    /// Between requests.
    Idle,
    /// Asleep, then again with the first state or only the watch.
    Waiting(Next),
    /// A list is under way.
    Listing { request: ListRequest, asked: Instant, objects: Vec<Object> },
    /// The first state is being streamed.
    Streaming { heard: Instant, moved: Instant, first: FirstState },
    /// Changes come in.
    Watching {
        opened: Instant,
        heard: Instant,
        ends: Instant,
        events: u64,
        advanced: bool,
        disordered: bool,
        bookmarked: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    State,
    Watch,
}

impl Machine {
    pub fn new(options: ReflectorOptions, random: Random) -> Self {
        let can_stream = options.watch_list;
        Machine {
            options,
            backoff: Backoff::new(random.clone()),
            random,
            last: None,
            unavailable: false,
            can_stream,
            pages_from_cache: false,
            stalls: 0,
            was_away: false,
            phase: Phase::Idle,
        }
    }

    /// The resourceVersion reached.
    pub fn last_version(&self) -> Option<String> {
        self.last.as_ref().map(Version::text)
    }

    /// The first request.
    pub fn begin(&mut self, now: Instant) -> Command {
        if self.can_stream { self.stream(now) } else { self.list(now) }
    }

    /// The sleep is over.
    pub fn woke(&mut self, now: Instant) -> Command {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Waiting(Next::Watch) => self.watch(now),
            _ => self.begin(now),
        }
    }

    /// When a watch that stays silent must be given up.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Streaming { heard, moved, .. } => {
                let sync_deadline = self.options.sync_deadline;
                let silence = after(*heard, sync_deadline);
                Some(silence.min(after(*moved, sync_deadline.saturating_mul(PATIENCE))))
            }
            // A watch that has had one has one each minute; before that, where nothing happens, none may come.
            Phase::Watching { heard, ends, bookmarked: true, .. } => Some((*heard + DEAF).min(*ends)),
            Phase::Watching { ends, .. } => Some(*ends),
            _ => None,
        }
    }

    /// A watch was opened, or not. `None` means: read it.
    pub fn opened(&mut self, result: Result<(), WatchFailure>, now: Instant) -> Option<Command> {
        match (&mut self.phase, result) {
            (Phase::Streaming { heard, moved, .. }, Ok(())) => {
                (*heard, *moved) = (now, now);
                None
            }
            (Phase::Streaming { .. }, Err(failure)) => Some(self.streaming_failed(&failure, now)),
            (Phase::Watching { opened, heard, .. }, Ok(())) => {
                (*opened, *heard) = (now, now);
                None
            }
            (_, Ok(())) => None,
            (_, Err(failure)) => Some(self.watching_failed(&failure, now)),
        }
    }

    /// Some bytes of a watch arrived, perhaps of an event that is long in coming.
    pub fn heard(&mut self, now: Instant) {
        if let Phase::Streaming { heard, .. } | Phase::Watching { heard, .. } = &mut self.phase {
            *heard = now;
        }
    }

    /// One event arrived. `None` means: read on.
    pub fn event(&mut self, event: WatchEvent, now: Instant, deltas: &mut Vec<Delta>) -> Option<Command> {
        match &mut self.phase {
            Phase::Streaming { first, moved, .. } => match event {
                WatchEvent::Added(object) => {
                    if first.put(object) {
                        *moved = now;
                    }
                    None
                }
                WatchEvent::Modified(object) => {
                    first.put(object);
                    None
                }
                WatchEvent::Deleted(object) => {
                    first.delete(&object);
                    None
                }
                WatchEvent::Bookmark { resource_version, ends_initial: true } => {
                    let objects = std::mem::take(first).objects();
                    self.stalls = 0;
                    self.replace(resource_version, objects, deltas);
                    self.watching(now);
                    None
                }
                WatchEvent::Bookmark { .. } | WatchEvent::Unreadable => None,
                WatchEvent::Error(failure) => Some(self.streaming_failed(&failure, now)),
            },
            _ => self.change(event, now, deltas),
        }
    }

    /// Whether the first full state has come, so that each event is handed over by itself.
    pub fn is_watching(&self) -> bool {
        matches!(self.phase, Phase::Watching { .. })
    }

    /// The watch ended: cleanly, or because the connection broke or our own deadline passed.
    pub fn closed(&mut self, failure: Option<&WatchFailure>, now: Instant) -> Command {
        match &self.phase {
            Phase::Streaming { .. } => {
                if matches!(failure, Some(WatchFailure::Deadline(_))) {
                    self.stalls += 1;
                    self.can_stream &= self.stalls < STALLS;
                }
                // The end of the first state was never told: a list tells it.
                self.list(now)
            }
            Phase::Watching { opened, events, advanced, disordered, .. } => {
                let lasted = now.duration_since(*opened);
                let short = lasted < VERY_SHORT;
                match (short, *events, *advanced, *disordered) {
                    // An event may have come after the version that a new watch would start from.
                    (_, _, _, true) => self.wait(Next::State, None, now),
                    (true, 0, _, _) => self.wait(Next::State, None, now),
                    (true, _, false, _) => self.wait(Next::Watch, None, now),
                    (false, 0, _, _) if self.was_away && lasted >= DEAF => self.begin(now),
                    _ => self.watch(now),
                }
            }
            _ => self.wait(Next::State, None, now),
        }
    }

    /// Drops whatever was under way and asks for the newest state, which no cache of the server may answer.
    pub fn relist(&mut self, now: Instant) -> Command {
        self.unavailable = true;
        self.begin(now)
    }

    /// Whatever was under way ended in a panic of somebody's code: the state is asked for after a wait.
    pub fn panicked(&mut self, now: Instant) -> Command {
        self.wait(Next::State, None, now)
    }

    /// Whether the watch that just ended was a very short one without events.
    pub fn was_short(&self, now: Instant) -> bool {
        matches!(&self.phase, Phase::Watching { opened, events: 0, .. } if now.duration_since(*opened) < VERY_SHORT)
    }

    /// A page arrived, or not.
    pub fn page(
        &mut self,
        page: Result<Page, WatchFailure>,
        now: Instant,
        deltas: &mut Vec<Delta>,
    ) -> Command {
        let Phase::Listing { request, asked, mut objects } = std::mem::replace(&mut self.phase, Phase::Idle)
        else {
            return self.begin(now);
        };
        let page = match page {
            Ok(page) => page,
            Err(failure) => return self.listing_failed(&request, asked, &failure, now),
        };
        objects.extend(page.objects);
        if let Some(token) = page.continue_token {
            self.pages_from_cache |= request.resource_version.as_deref() == Some("0");
            let request = ListRequest { resource_version: None, continue_token: Some(token), ..request };
            self.phase = Phase::Listing { request: request.clone(), asked: now, objects };
            return Command::List(request);
        }
        self.replace(page.resource_version, objects, deltas);
        self.watch(now)
    }

    fn change(&mut self, event: WatchEvent, now: Instant, deltas: &mut Vec<Delta>) -> Option<Command> {
        let delta = match event {
            WatchEvent::Added(object) => Delta::Added(object),
            WatchEvent::Modified(object) => Delta::Updated(object),
            WatchEvent::Deleted(object) => Delta::Deleted(object),
            WatchEvent::Bookmark { resource_version, .. } => {
                let revision = parse_revision(&resource_version);
                if let Phase::Watching { bookmarked, .. } = &mut self.phase {
                    *bookmarked = true;
                }
                if self.is_ahead_of(revision) {
                    // The server was set back: events of ours that it has not seen will never be mentioned.
                    self.unavailable = true;
                    return Some(self.wait(Next::State, None, now));
                }
                self.advance(revision, || resource_version);
                deltas.extend(revision.map(|revision| Delta::Bookmark { revision }));
                return None;
            }
            WatchEvent::Unreadable => {
                self.count_event(false, false);
                return None;
            }
            WatchEvent::Error(failure) => return Some(self.watching_failed(&failure, now)),
        };
        let (Delta::Added(object) | Delta::Updated(object) | Delta::Deleted(object)) = &delta else {
            unreachable!("only these three were made above")
        };
        let revision = Some(object.revision()).filter(|revision| *revision != 0);
        self.advance(revision, || object.resource_version());
        deltas.push(delta);
        None
    }

    fn is_ahead_of(&self, revision: Option<Revision>) -> bool {
        matches!((&self.last, revision), (Some(Version::Number(last)), Some(revision)) if revision < *last)
    }

    /// Moves the version forward, never back.
    fn advance(&mut self, revision: Option<Revision>, text: impl FnOnce() -> String) {
        let (version, disordered) = match (revision, &self.last) {
            (Some(revision), Some(Version::Number(last))) if revision < *last => (None, true),
            (Some(revision), Some(Version::Number(last))) if revision == *last => (None, false),
            (Some(revision), _) => (Some(Version::Number(revision)), false),
            // An object whose transform left nothing of it does not say its version, where that is no number.
            (None, _) => (Some(text()).filter(|text| !text.is_empty()).map(Version::Text), false),
        };
        self.count_event(version.is_some(), disordered);
        if version.is_some() {
            self.last = version;
            self.was_away = false;
        }
    }

    fn count_event(&mut self, moved: bool, out_of_order: bool) {
        if let Phase::Watching { events, advanced, disordered, .. } = &mut self.phase {
            *events += 1;
            *advanced |= moved;
            *disordered |= out_of_order;
        }
    }

    fn replace(&mut self, resource_version: String, objects: Vec<Object>, deltas: &mut Vec<Delta>) {
        let revision = parse_revision(&resource_version);
        self.last = Some(revision.map_or(Version::Text(resource_version), Version::Number));
        self.unavailable = false;
        self.was_away = false;
        deltas.push(Delta::Replaced { revision: revision.unwrap_or(0), objects });
    }

    fn streaming_failed(&mut self, failure: &WatchFailure, now: Instant) -> Command {
        match failure {
            WatchFailure::TooManyRequests { retry_after } => self.wait(Next::State, *retry_after, now),
            WatchFailure::Refused => self.wait(Next::State, None, now),
            WatchFailure::Expired(_) | WatchFailure::TooLarge(_)
                if !self.unavailable && self.last.is_some() =>
            {
                self.unavailable = true;
                self.begin(now)
            }
            WatchFailure::Status { code: code @ 400..=499, .. } => {
                // The server does not know the request: do not ask again. Lack of rights or of the kind may be mended.
                self.can_stream &= matches!(code, 401 | 403 | 404);
                self.list(now)
            }
            _ => self.list(now),
        }
    }

    fn listing_failed(
        &mut self,
        request: &ListRequest,
        asked: Instant,
        failure: &WatchFailure,
        now: Instant,
    ) -> Command {
        let deadline = matches!(failure, WatchFailure::Deadline(_));
        match failure {
            WatchFailure::TooManyRequests { retry_after } => self.wait(Next::State, *retry_after, now),
            WatchFailure::Expired(_) if request.continue_token.is_some() => {
                self.list_with(ListRequest { resource_version: None, limit: None, continue_token: None }, now)
            }
            WatchFailure::Expired(_) | WatchFailure::TooLarge(_) if request.resource_version.is_some() => {
                self.unavailable = true;
                self.list(now)
            }
            // From its cache the server sends the whole state as one. If that takes longer than it, or anything between,
            // allows for one answer, only pages come to an end.
            _ if request.resource_version.is_some()
                && (deadline || now.duration_since(asked) >= self.options.sync_deadline) =>
            {
                self.unavailable = true;
                self.list(now)
            }
            _ => self.wait(Next::State, None, now),
        }
    }

    fn watching_failed(&mut self, failure: &WatchFailure, now: Instant) -> Command {
        // An event may have come after the version that a new watch would start from.
        let disordered = matches!(self.phase, Phase::Watching { disordered: true, .. });
        let next = if disordered { Next::State } else { Next::Watch };
        match failure {
            WatchFailure::TooManyRequests { retry_after } => self.wait(next, *retry_after, now),
            WatchFailure::Refused => {
                self.was_away = true;
                self.wait(next, None, now)
            }
            WatchFailure::TooLarge(_) => {
                self.unavailable = true;
                self.wait(Next::State, None, now)
            }
            _ => self.wait(Next::State, None, now),
        }
    }

    fn wait(&mut self, next: Next, at_least: Option<Duration>, now: Instant) -> Command {
        self.phase = Phase::Waiting(next);
        Command::Sleep(self.backoff.delay(now).max(at_least.unwrap_or_default()))
    }

    fn stream(&mut self, now: Instant) -> Command {
        self.phase = Phase::Streaming { heard: now, moved: now, first: FirstState::default() };
        Command::Watch(WatchRequest {
            resource_version: self.last_version().filter(|_| !self.unavailable),
            send_initial_events: true,
            timeout_seconds: self.timeout_seconds(),
        })
    }

    fn list(&mut self, now: Instant) -> Command {
        let version = match (&self.last, self.unavailable) {
            (_, true) => None,
            (None, false) if self.options.consistent_first_list => None,
            (None, false) => Some("0".to_owned()),
            (Some(last), false) => Some(last.text()),
        };
        // A limit makes the server read its store; without one, any version but the newest comes from its cache.
        let limited = self.pages_from_cache || matches!(version.as_deref(), None | Some("0"));
        let limit = limited.then_some(self.options.page_size);
        self.list_with(ListRequest { resource_version: version, limit, continue_token: None }, now)
    }

    fn list_with(&mut self, request: ListRequest, now: Instant) -> Command {
        self.phase = Phase::Listing { request: request.clone(), asked: now, objects: Vec::new() };
        Command::List(request)
    }

    fn watch(&mut self, now: Instant) -> Command {
        let timeout_seconds = self.timeout_seconds();
        self.watching_for(timeout_seconds, now);
        Command::Watch(WatchRequest {
            resource_version: self.last_version(),
            send_initial_events: false,
            timeout_seconds,
        })
    }

    /// The streamed list goes on as a watch.
    fn watching(&mut self, now: Instant) {
        let longest = self.options.shortest_watch.as_secs().saturating_mul(2);
        self.watching_for(u32::try_from(longest).unwrap_or(u32::MAX), now);
        // The connection has proven itself already, so its end is not a very short watch.
        self.count_event(true, false);
    }

    fn watching_for(&mut self, seconds: u32, now: Instant) {
        let ends = now + Duration::from_secs(u64::from(seconds)) + OVERTIME;
        self.phase = Phase::Watching {
            opened: now,
            heard: now,
            ends,
            events: 0,
            advanced: false,
            disordered: false,
            bookmarked: false,
        };
    }

    fn timeout_seconds(&self) -> u32 {
        let shortest = self.options.shortest_watch.as_secs().max(1);
        u32::try_from(shortest.saturating_add(self.random.below(shortest))).unwrap_or(u32::MAX)
    }
}
