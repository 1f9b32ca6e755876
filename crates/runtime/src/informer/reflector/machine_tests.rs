//! Transcripts of the reflector's decisions about the state: what the server says, what is asked next.

use std::time::Duration;

use setpoint_api::Random;
use tokio::time::Instant;

use super::machine::{Command, Machine, Page, WatchEvent};
use super::options::ReflectorOptions;
use crate::informer::cache::Delta;
use crate::informer::cache::Object;
use crate::informer::failure::WatchFailure;
use crate::informer::watch::ListRequest;

/// The first wait.
pub(super) const SLEEP: &str = "sleep 0.8 s and up to twice that";
/// The next one.
pub(super) const SLEEP_LONGER: &str = "sleep 1.6 s and up to twice that";

/// A machine with the clock in the test's hands.
pub(super) struct Play {
    pub machine: Machine,
    pub now: Instant,
    pub deltas: Vec<Delta>,
}

impl Play {
    pub fn new(watch_list: bool) -> Self {
        let options = ReflectorOptions { watch_list, ..ReflectorOptions::default() };
        Play { machine: Machine::new(options, Random::from_seed(3)), now: Instant::now(), deltas: Vec::new() }
    }

    pub fn begin(&mut self) -> String {
        text(&self.machine.begin(self.now))
    }

    pub fn opens(&mut self) {
        assert_eq!(self.machine.opened(Ok(()), self.now), None);
    }

    pub fn fails(&mut self, failure: WatchFailure) -> String {
        text(&self.machine.opened(Err(failure), self.now).expect("a failure is followed by a command"))
    }

    pub fn hears(&mut self, event: WatchEvent) -> Option<String> {
        self.machine.heard(self.now);
        self.machine.event(event, self.now, &mut self.deltas).map(|command| text(&command))
    }

    pub fn closes(&mut self) -> String {
        text(&self.machine.closed(None, self.now))
    }

    pub fn breaks(&mut self, failure: WatchFailure) -> String {
        text(&self.machine.closed(Some(&failure), self.now))
    }

    pub fn lists(&mut self, page: Result<Page, WatchFailure>) -> String {
        text(&self.machine.page(page, self.now, &mut self.deltas))
    }

    pub fn wakes(&mut self) -> String {
        text(&self.machine.woke(self.now))
    }

    pub fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// Streamed the first state at revision 10 and watches.
    pub fn watching() -> Self {
        let mut play = Play::new(true);
        play.begin();
        play.opens();
        assert_eq!(play.hears(end("10")), None);
        // A new watch, so that nothing of the first state counts for it.
        play.later(5);
        assert_eq!(play.closes(), "watch from 10");
        play.opens();
        play
    }
}

fn text(command: &Command) -> String {
    match command {
        Command::Sleep(delay) => {
            // Jitter stretches each delay by less than its own length, so that the delay without it can be told.
            let doublings = (delay.as_secs_f64() / 0.8).log2();
            assert!((0.0..5.0).contains(&doublings), "{delay:?}");
            format!("sleep {:.1} s and up to twice that", 0.8 * doublings.floor().exp2())
        }
        Command::Watch(request) => {
            let verb = if request.send_initial_events { "stream" } else { "watch" };
            assert!((300..600).contains(&request.timeout_seconds), "{request:?}");
            format!("{verb} from {}", request.resource_version.as_deref().unwrap_or("newest"))
        }
        Command::List(ListRequest { resource_version, limit, continue_token }) => {
            let version = resource_version.as_deref().unwrap_or("newest");
            let limit = limit.map(|limit| format!(" limit {limit}")).unwrap_or_default();
            let token =
                continue_token.as_deref().map(|token| format!(" continue {token}")).unwrap_or_default();
            format!("list at {version}{limit}{token}")
        }
    }
}

fn object(name: &str, revision: u64) -> Object {
    let json = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{revision}"}}}}"#);
    Object::from_json(json.as_bytes()).unwrap()
}

pub(super) fn added(name: &str, revision: u64) -> WatchEvent {
    WatchEvent::Added(object(name, revision))
}

pub(super) fn bookmark(version: &str) -> WatchEvent {
    WatchEvent::Bookmark { resource_version: version.to_owned(), ends_initial: false }
}

pub(super) fn end(version: &str) -> WatchEvent {
    WatchEvent::Bookmark { resource_version: version.to_owned(), ends_initial: true }
}

fn page(version: &str, token: Option<&str>, names: &[&str]) -> Result<Page, WatchFailure> {
    let objects = names.iter().map(|name| object(name, 1)).collect();
    Ok(Page { resource_version: version.to_owned(), continue_token: token.map(str::to_owned), objects })
}

pub(super) fn expired() -> WatchFailure {
    WatchFailure::Expired(String::new())
}

pub(super) fn too_large() -> WatchFailure {
    WatchFailure::TooLarge(String::new())
}

pub(super) fn busy() -> WatchFailure {
    WatchFailure::TooManyRequests { retry_after: None }
}

fn replaced(deltas: &[Delta]) -> Vec<(u64, Vec<String>)> {
    let names = |objects: &[Object]| objects.iter().map(|object| object.name().to_owned()).collect();
    let replaced = deltas.iter().filter_map(|delta| match delta {
        Delta::Replaced { revision, objects } => Some((*revision, names(objects))),
        _ => None,
    });
    replaced.collect()
}

// The first state.

#[test]
fn a_streamed_state_goes_on_as_the_watch() {
    let mut play = Play::new(true);
    assert_eq!(play.begin(), "stream from newest");
    play.opens();
    // Out of order, twice, and gone again: the last word counts.
    let gone = |name| WatchEvent::Deleted(object(name, 5));
    for event in [
        added("b", 3),
        added("a", 2),
        added("b", 4),
        added("c", 1),
        gone("c"),
        gone("late"),
        added("late", 4),
        gone("again"),
        added("again", 6),
    ] {
        assert_eq!(play.hears(event), None);
    }
    assert!(play.deltas.is_empty(), "nothing is told before the state is complete");
    assert_eq!(play.hears(end("10")), None);
    let names = ["a", "again", "b"].map(str::to_owned).to_vec();
    assert_eq!(replaced(&play.deltas), [(10, names)]);
    assert_eq!(play.hears(added("d", 11)), None);
    assert_eq!(play.closes(), "watch from 11");
}

#[test]
fn a_late_word_of_a_predecessor_takes_nothing_from_a_streamed_state() {
    let mut play = Play::new(true);
    play.begin();
    play.opens();
    let gone = |name, revision| WatchEvent::Deleted(object(name, revision));
    for event in [
        added("anew", 6),
        gone("anew", 5),
        gone("twice", 8),
        gone("twice", 3),
        added("twice", 7),
        added("once", 4),
        gone("once", 4),
    ] {
        assert_eq!(play.hears(event), None);
    }
    play.hears(end("10"));
    assert_eq!(replaced(&play.deltas), [(10, vec!["anew".to_owned()])]);
}

#[test]
fn a_server_that_never_marks_the_end_gets_a_list_and_is_asked_to_stream_once_more() {
    let mut play = Play::new(true);
    play.begin();
    play.opens();
    let opened = play.now;
    play.hears(added("a", 1));
    assert_eq!(play.machine.deadline(), Some(opened + Duration::from_secs(30)));
    play.later(20);
    play.hears(added("b", 1));
    assert_eq!(play.machine.deadline(), Some(opened + Duration::from_secs(50)), "progress buys time");
    for number in 0..20 {
        play.later(20);
        play.hears(added(&format!("c{number:02}"), 1));
    }
    let moved = play.now;
    assert_eq!(play.machine.deadline(), Some(moved + Duration::from_secs(30)), "for as long as it goes on");
    // Changes, not the first state.
    for event in [WatchEvent::Modified(object("d", 2)), added("a1", 3), WatchEvent::Deleted(object("a", 4))] {
        play.later(25);
        play.hears(event);
    }
    play.later(25);
    play.hears(added("e", 5));
    assert_eq!(play.machine.deadline(), Some(moved + Duration::from_secs(120)), "but not for ever");
    assert_eq!(play.breaks(WatchFailure::Deadline(Duration::from_secs(30))), "list at 0 limit 500");
    assert_eq!(play.lists(page("7", None, &["a"])), "watch from 7");
    play.opens();
    assert_eq!(play.hears(WatchEvent::Error(expired())).as_deref(), Some(SLEEP));
    // It may have been slow that once.
    assert_eq!(play.wakes(), "stream from 7");
    play.opens();
    assert_eq!(play.breaks(WatchFailure::Deadline(Duration::from_secs(30))), "list at 7");
    assert_eq!(play.lists(page("8", None, &["a"])), "watch from 8");
    play.opens();
    assert_eq!(play.hears(WatchEvent::Error(expired())).as_deref(), Some(SLEEP_LONGER));
    assert_eq!(play.wakes(), "list at 8");
}

#[test]
fn a_server_that_cannot_stream_gets_a_list_for_good() {
    let mut play = Play::new(true);
    play.begin();
    let invalid = WatchFailure::Status { code: 422, reason: "Invalid".to_owned(), message: String::new() };
    assert_eq!(play.fails(invalid), "list at 0 limit 500");
    play.lists(page("7", None, &[]));
    play.opens();
    play.hears(WatchEvent::Error(expired()));
    assert_eq!(play.wakes(), "list at 7");
}

#[test]
fn lack_of_rights_or_of_the_kind_does_not_end_streaming_for_good() {
    // Any body counts: kube-apiserver answers an unknown group with a 404 in plain text, and proxies with their own text.
    for (code, reason) in [(403, "Forbidden"), (403, ""), (401, ""), (404, "NotFound"), (404, "")] {
        let mut play = Play::new(true);
        play.begin();
        let refused = WatchFailure::Status { code, reason: reason.to_owned(), message: String::new() };
        assert_eq!(play.fails(refused.clone()), "list at 0 limit 500");
        assert_eq!(play.lists(Err(refused)), SLEEP);
        assert_eq!(play.wakes(), "stream from newest", "{code} {reason}");
    }
}

#[test]
fn a_stream_that_breaks_before_its_end_is_followed_by_a_list() {
    for failure in [None, Some(WatchFailure::Transport("reset".to_owned()))] {
        let mut play = Play::new(true);
        play.begin();
        play.opens();
        play.hears(added("a", 1));
        let next = match failure {
            None => play.closes(),
            Some(failure) => play.breaks(failure),
        };
        assert_eq!(next, "list at 0 limit 500");
        assert_eq!(play.lists(page("7", None, &["b"])), "watch from 7");
        assert_eq!(replaced(&play.deltas), [(7, vec!["b".to_owned()])], "half a state is none");
    }
}

#[test]
fn a_busy_or_absent_server_is_waited_for_and_asked_to_stream_again() {
    for failure in [busy(), WatchFailure::Refused] {
        let mut play = Play::new(true);
        play.begin();
        assert_eq!(play.fails(failure), SLEEP);
        assert_eq!(play.wakes(), "stream from newest");
    }
}

#[test]
fn a_version_refused_while_streaming_is_left_out_at_once() {
    for failure in [expired(), too_large()] {
        let mut play = Play::watching();
        play.hears(WatchEvent::Error(expired()));
        assert_eq!(play.wakes(), "stream from 10");
        assert_eq!(play.fails(failure), "stream from newest");
        play.opens();
        play.hears(end("3"));
        assert_eq!(replaced(&play.deltas).last(), Some(&(3, vec![])), "the server went back");
        play.later(2);
        assert_eq!(play.closes(), "watch from 3");
    }
}

// Lists.

#[test]
fn a_list_comes_in_pages_and_an_expired_page_makes_it_a_whole_one() {
    let mut play = Play::new(false);
    assert_eq!(play.begin(), "list at 0 limit 500");
    assert_eq!(play.lists(page("7", Some("t1"), &["a"])), "list at newest limit 500 continue t1");
    assert_eq!(play.lists(Err(expired())), "list at newest");
    assert_eq!(play.lists(page("9", None, &["a", "b"])), "watch from 9");
    assert_eq!(replaced(&play.deltas), [(9, vec!["a".to_owned(), "b".to_owned()])]);
    // The server paged a list at version 0, so it honours limits at any version.
    play.opens();
    play.hears(WatchEvent::Error(expired()));
    assert_eq!(play.wakes(), "list at 9 limit 500");
}

#[test]
fn a_version_refused_by_a_list_is_left_out_at_once() {
    for failure in [expired(), too_large()] {
        let mut play = Play::new(false);
        play.begin();
        play.lists(page("7", None, &[]));
        play.opens();
        play.hears(WatchEvent::Error(expired()));
        assert_eq!(play.wakes(), "list at 7");
        assert_eq!(play.lists(Err(failure)), "list at newest limit 500");
        assert_eq!(play.lists(Err(expired())), SLEEP_LONGER, "the newest state cannot have expired: wait");
    }
}

#[test]
fn a_whole_list_that_is_long_in_coming_and_fails_is_asked_for_in_pages() {
    let late = || WatchFailure::Deadline(Duration::from_secs(60));
    let cut = || WatchFailure::Transport("cut off".to_owned());
    for failure in [late(), cut()] {
        let mut play = Play::new(false);
        assert_eq!(play.begin(), "list at 0 limit 500");
        play.later(60);
        assert_eq!(play.lists(Err(failure.clone())), "list at newest limit 500");
        assert_eq!(play.lists(page("7", Some("t1"), &["a"])), "list at newest limit 500 continue t1");
        play.later(60);
        assert_eq!(play.lists(Err(failure.clone())), SLEEP, "a page that does not come is waited for");
        assert_eq!(play.wakes(), "list at newest limit 500");
        assert_eq!(play.lists(page("8", None, &["a"])), "watch from 8");
        play.opens();
        play.hears(WatchEvent::Error(expired()));
        assert_eq!(play.wakes(), "list at 8", "which may come in time");
    }
    let mut play = Play::new(false);
    play.begin();
    play.later(1);
    assert_eq!(play.lists(Err(cut())), SLEEP);
    assert_eq!(play.wakes(), "list at 0 limit 500");
}

#[test]
fn other_list_failures_are_waited_out() {
    for failure in [busy(), WatchFailure::Refused, WatchFailure::Internal(String::new())] {
        let mut play = Play::new(false);
        play.begin();
        assert_eq!(play.lists(Err(failure)), SLEEP);
        assert_eq!(play.wakes(), "list at 0 limit 500");
    }
}
