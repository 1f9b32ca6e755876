//! Transcripts of the reflector's decisions: what the server says, what is asked next.

use std::time::Duration;

use setpoint_api::Random;
use tokio::time::Instant;

use super::machine::{Command, Machine, Page, ReflectorOptions, WatchEvent};
use crate::cache::Object;
use crate::delta::Delta;
use crate::watch::{ListRequest, WatchFailure};

/// A machine with the clock in the test's hands.
struct Play {
    machine: Machine,
    now: Instant,
    deltas: Vec<Delta>,
}

impl Play {
    fn new(watch_list: bool) -> Self {
        let options = ReflectorOptions { watch_list, ..ReflectorOptions::default() };
        Play { machine: Machine::new(options, Random::from_seed(3)), now: Instant::now(), deltas: Vec::new() }
    }

    fn begin(&mut self) -> String {
        text(&self.machine.begin(self.now))
    }

    fn opens(&mut self) {
        assert_eq!(self.machine.opened(Ok(()), self.now), None);
    }

    fn fails(&mut self, failure: WatchFailure) -> String {
        text(&self.machine.opened(Err(failure), self.now).expect("a failure is followed by a command"))
    }

    fn hears(&mut self, event: WatchEvent) -> Option<String> {
        self.machine.event(event, self.now, &mut self.deltas).map(|command| text(&command))
    }

    fn closes(&mut self) -> String {
        text(&self.machine.closed(None, self.now))
    }

    fn breaks(&mut self, failure: WatchFailure) -> String {
        text(&self.machine.closed(Some(&failure), self.now))
    }

    fn lists(&mut self, page: Result<Page, WatchFailure>) -> String {
        text(&self.machine.page(page, self.now, &mut self.deltas))
    }

    fn wakes(&mut self) -> String {
        text(&self.machine.woke(self.now))
    }

    fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// Streamed the first state at revision 10 and watches.
    fn watching() -> Self {
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
        Command::Sleep(_) => "sleep".to_owned(),
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

fn added(name: &str, revision: u64) -> WatchEvent {
    WatchEvent::Added(object(name, revision))
}

fn bookmark(version: &str) -> WatchEvent {
    WatchEvent::Bookmark { resource_version: version.to_owned(), ends_initial: false }
}

fn end(version: &str) -> WatchEvent {
    WatchEvent::Bookmark { resource_version: version.to_owned(), ends_initial: true }
}

fn page(version: &str, token: Option<&str>, names: &[&str]) -> Result<Page, WatchFailure> {
    let objects = names.iter().map(|name| object(name, 1)).collect();
    Ok(Page { resource_version: version.to_owned(), continue_token: token.map(str::to_owned), objects })
}

fn expired() -> WatchFailure {
    WatchFailure::Expired(String::new())
}

fn too_large() -> WatchFailure {
    WatchFailure::TooLarge(String::new())
}

fn busy() -> WatchFailure {
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
    for event in
        [added("b", 3), added("a", 2), added("b", 4), added("c", 1), WatchEvent::Deleted(object("c", 5))]
    {
        assert_eq!(play.hears(event), None);
    }
    assert!(play.deltas.is_empty(), "nothing is told before the state is complete");
    assert_eq!(play.hears(end("10")), None);
    assert_eq!(replaced(&play.deltas), [(10, vec!["a".to_owned(), "b".to_owned()])]);
    assert_eq!(play.hears(added("d", 11)), None);
    assert_eq!(play.closes(), "watch from 11");
}

#[test]
fn a_server_that_never_marks_the_end_gets_a_list_and_is_not_asked_to_stream_again() {
    let mut play = Play::new(true);
    play.begin();
    play.opens();
    let opened = play.now;
    play.hears(added("a", 1));
    assert_eq!(play.machine.deadline(), Some(opened + Duration::from_secs(30)));
    play.later(20);
    play.hears(added("b", 1));
    assert_eq!(play.machine.deadline(), Some(opened + Duration::from_secs(50)), "progress buys time");
    for _ in 0..10 {
        play.later(20);
        play.hears(added("c", 1));
    }
    assert_eq!(play.machine.deadline(), Some(opened + Duration::from_secs(120)), "but not for ever");
    assert_eq!(play.breaks(WatchFailure::Deadline(Duration::from_secs(30))), "list at 0 limit 500");
    assert_eq!(play.lists(page("7", None, &["a"])), "watch from 7");
    play.opens();
    assert_eq!(play.hears(WatchEvent::Error(expired())).as_deref(), Some("sleep"));
    assert_eq!(play.wakes(), "list at 7");
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
fn lack_of_rights_does_not_end_streaming_for_good() {
    let mut play = Play::new(true);
    play.begin();
    let forbidden =
        WatchFailure::Status { code: 403, reason: "Forbidden".to_owned(), message: String::new() };
    assert_eq!(play.fails(forbidden.clone()), "list at 0 limit 500");
    assert_eq!(play.lists(Err(forbidden)), "sleep");
    assert_eq!(play.wakes(), "stream from newest");
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
        assert_eq!(play.fails(failure), "sleep");
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
    // That server paged a list at version 0, so it honours limits at any version.
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
        assert_eq!(play.lists(Err(expired())), "sleep", "the newest state cannot have expired: wait");
    }
}

#[test]
fn other_list_failures_are_waited_out() {
    for failure in [busy(), WatchFailure::Refused, WatchFailure::Internal(String::new())] {
        let mut play = Play::new(false);
        play.begin();
        assert_eq!(play.lists(Err(failure)), "sleep");
        assert_eq!(play.wakes(), "list at 0 limit 500");
    }
}

// The end of a watch, row by row.

#[test]
fn a_clean_close_is_watched_on_at_once() {
    let mut play = Play::watching();
    play.hears(bookmark("12"));
    assert_eq!(play.closes(), "watch from 12", "with events, however short");
    play.opens();
    play.later(2);
    assert_eq!(play.closes(), "watch from 12", "without events, if it lasted");
}

#[test]
fn a_very_short_watch_without_events_asks_for_the_state_again_after_a_wait() {
    let mut play = Play::watching();
    assert!(play.machine.was_short(play.now));
    assert_eq!(play.closes(), "sleep");
    assert_eq!(play.wakes(), "stream from 10");
}

#[test]
fn a_very_short_watch_that_tells_nothing_new_is_waited_out_without_asking_for_the_state() {
    let mut play = Play::watching();
    play.hears(bookmark("10"));
    assert_eq!(play.closes(), "sleep");
    assert_eq!(play.wakes(), "watch from 10");
}

#[test]
fn a_broken_connection_is_watched_on_from_the_last_version() {
    let mut play = Play::watching();
    play.hears(added("a", 11));
    assert_eq!(play.breaks(WatchFailure::Transport("reset".to_owned())), "watch from 11");
    play.opens();
    play.later(700);
    assert_eq!(play.breaks(WatchFailure::Deadline(Duration::from_secs(610))), "watch from 11");
}

#[test]
fn expired_in_the_stream_or_as_status_asks_for_the_state_from_the_last_version() {
    let mut play = Play::watching();
    assert_eq!(play.hears(WatchEvent::Error(expired())).as_deref(), Some("sleep"));
    assert_eq!(play.wakes(), "stream from 10");
    let mut play = Play::watching();
    play.later(2);
    play.closes();
    assert_eq!(play.fails(expired()), "sleep");
    assert_eq!(play.wakes(), "stream from 10");
}

#[test]
fn too_many_requests_are_waited_out_without_asking_for_the_state() {
    let mut play = Play::watching();
    assert_eq!(play.hears(WatchEvent::Error(busy())).as_deref(), Some("sleep"));
    assert_eq!(play.wakes(), "watch from 10");
    assert_eq!(play.fails(busy()), "sleep");
    assert_eq!(play.wakes(), "watch from 10");
    let hour = Duration::from_secs(3600);
    let asked = play.machine.opened(Err(WatchFailure::TooManyRequests { retry_after: Some(hour) }), play.now);
    assert_eq!(asked, Some(Command::Sleep(hour)), "the server's own word counts if it is longer");
}

#[test]
fn a_refused_connection_is_waited_out_without_asking_for_the_state() {
    let mut play = Play::watching();
    play.later(2);
    play.closes();
    assert_eq!(play.fails(WatchFailure::Refused), "sleep");
    assert_eq!(play.wakes(), "watch from 10");
}

#[test]
fn a_version_from_the_future_asks_for_the_newest_state() {
    let mut play = Play::watching();
    assert_eq!(play.hears(WatchEvent::Error(too_large())).as_deref(), Some("sleep"));
    assert_eq!(play.wakes(), "stream from newest");
}

#[test]
fn any_other_failure_asks_for_the_state_after_a_wait() {
    let odd = WatchFailure::Status { code: 418, reason: String::new(), message: String::new() };
    for failure in [WatchFailure::Internal(String::new()), odd] {
        let mut play = Play::watching();
        assert_eq!(play.hears(WatchEvent::Error(failure)).as_deref(), Some("sleep"));
        assert_eq!(play.wakes(), "stream from 10");
    }
}

#[test]
fn events_out_of_order_never_move_the_version_back_and_end_in_a_new_state() {
    let mut play = Play::watching();
    play.hears(added("a", 14));
    play.hears(added("b", 13));
    assert_eq!(play.machine.last_version().as_deref(), Some("14"));
    play.later(60);
    assert_eq!(play.closes(), "sleep");
    assert_eq!(play.wakes(), "stream from 14");
}

#[test]
fn a_bookmark_from_the_past_means_that_the_server_was_set_back() {
    let mut play = Play::watching();
    assert_eq!(play.hears(bookmark("4")).as_deref(), Some("sleep"));
    assert_eq!(play.wakes(), "stream from newest");
}

#[test]
fn a_watch_that_hears_nothing_at_all_from_a_server_that_sends_bookmarks_asks_for_the_state() {
    let mut play = Play::watching();
    play.later(400);
    assert_eq!(play.closes(), "watch from 10", "this server may send none");
    play.opens();
    play.hears(bookmark("11"));
    play.later(400);
    assert_eq!(play.closes(), "watch from 11");
    play.opens();
    play.later(400);
    assert_eq!(play.closes(), "stream from 11");
    assert_eq!(play.fails(too_large()), "stream from newest");
}

#[test]
fn what_cannot_be_read_is_passed_over() {
    let mut play = Play::watching();
    assert_eq!(play.hears(WatchEvent::Unreadable), None);
    assert_eq!(play.hears(added("a", 11)), None);
    assert_eq!(play.closes(), "watch from 11");
}

#[test]
fn versions_that_are_no_numbers_are_handed_back_as_they_came() {
    let mut play = Play::watching();
    play.hears(bookmark("opaque-7"));
    assert_eq!(play.closes(), "watch from opaque-7");
}
