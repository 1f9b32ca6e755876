//! Transcripts of the reflector's decisions at the end of a watch, row by row.

use std::sync::Arc;
use std::time::Duration;

use super::machine::{Command, WatchEvent};
use super::machine_tests::{Play, SLEEP, SLEEP_LONGER, added, bookmark, busy, end, expired, too_large};
use crate::informer::cache::Delta;
use crate::informer::cache::{Ingest, IngestOptions};
use crate::informer::failure::WatchFailure;

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
    assert_eq!(play.closes(), SLEEP);
    assert_eq!(play.wakes(), "stream from 10");
}

#[test]
fn a_very_short_watch_that_tells_nothing_new_is_waited_out_without_asking_for_the_state() {
    let mut play = Play::watching();
    play.hears(bookmark("10"));
    assert_eq!(play.closes(), SLEEP);
    assert_eq!(play.wakes(), "watch from 10");
}

#[test]
fn an_object_that_does_not_say_its_version_moves_none() {
    let mut play = Play::watching();
    let emptied =
        IngestOptions { transform: Some(Arc::new(|_| Some(Vec::new()))), ..IngestOptions::default() };
    let read = |options, version| {
        let json = format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}}}}"#);
        WatchEvent::Modified(Ingest::new(options).object(json.as_bytes()).unwrap())
    };
    play.hears(read(IngestOptions::default(), "opaque-1"));
    play.hears(read(emptied, "opaque-2"));
    assert_eq!(play.closes(), "watch from opaque-1");
    assert_eq!(play.deltas.iter().filter(|delta| matches!(delta, Delta::Updated(_))).count(), 2);
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
    assert_eq!(play.hears(WatchEvent::Error(expired())).as_deref(), Some(SLEEP));
    assert_eq!(play.wakes(), "stream from 10");
    let mut play = Play::watching();
    play.later(2);
    play.closes();
    assert_eq!(play.fails(expired()), SLEEP);
    assert_eq!(play.wakes(), "stream from 10");
}

#[test]
fn too_many_requests_are_waited_out_without_asking_for_the_state() {
    let mut play = Play::watching();
    assert_eq!(play.hears(WatchEvent::Error(busy())).as_deref(), Some(SLEEP));
    assert_eq!(play.wakes(), "watch from 10");
    assert_eq!(play.fails(busy()), SLEEP_LONGER);
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
    assert_eq!(play.fails(WatchFailure::Refused), SLEEP);
    assert_eq!(play.wakes(), "watch from 10");
}

#[test]
fn a_version_from_the_future_asks_for_the_newest_state() {
    let mut play = Play::watching();
    assert_eq!(play.hears(WatchEvent::Error(too_large())).as_deref(), Some(SLEEP));
    assert_eq!(play.wakes(), "stream from newest");
}

#[test]
fn any_other_failure_asks_for_the_state_after_a_wait() {
    let odd = WatchFailure::Status { code: 418, reason: String::new(), message: String::new() };
    for failure in [WatchFailure::Internal(String::new()), odd] {
        let mut play = Play::watching();
        assert_eq!(play.hears(WatchEvent::Error(failure)).as_deref(), Some(SLEEP));
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
    assert_eq!(play.closes(), SLEEP);
    assert_eq!(play.wakes(), "stream from 14");
}

#[test]
fn events_out_of_order_are_not_forgotten_when_the_server_asks_to_wait() {
    let mut play = Play::watching();
    play.hears(added("a", 14));
    play.hears(added("b", 13));
    assert_eq!(play.hears(WatchEvent::Error(busy())).as_deref(), Some(SLEEP));
    assert_eq!(play.wakes(), "stream from 14");
}

#[test]
fn a_bookmark_from_the_past_means_that_the_server_was_set_back() {
    let mut play = Play::watching();
    assert_eq!(play.hears(bookmark("4")).as_deref(), Some(SLEEP));
    assert_eq!(play.wakes(), "stream from newest");
}

#[test]
fn watches_of_a_kind_at_rest_follow_each_other_without_asking_for_the_state() {
    let mut play = Play::watching();
    play.hears(bookmark("11"));
    for _ in 0..3 {
        play.later(400);
        assert_eq!(play.closes(), "watch from 11");
        play.opens();
    }
    play.later(610);
    assert_eq!(play.breaks(WatchFailure::Deadline(Duration::from_secs(610))), "watch from 11");
}

/// Restored from a backup it knows nothing of our version, and a watch from there says nothing before it does.
#[test]
fn a_server_that_was_away_and_says_nothing_afterwards_is_asked_for_the_state_once() {
    let away = || {
        let mut play = Play::watching();
        play.later(2);
        play.closes();
        assert_eq!(play.fails(WatchFailure::Refused), SLEEP);
        assert_eq!(play.wakes(), "watch from 10");
        play.opens();
        play
    };
    let mut play = away();
    play.later(400);
    assert_eq!(play.closes(), "stream from 10");
    assert_eq!(play.fails(too_large()), "stream from newest");

    let mut play = away();
    play.later(400);
    assert_eq!(play.closes(), "stream from 10");
    play.opens();
    play.hears(end("10"));
    play.later(400);
    assert_eq!(play.closes(), "watch from 10");
    play.opens();
    play.later(400);
    assert_eq!(play.closes(), "watch from 10", "it is the same one");

    let mut play = away();
    play.hears(bookmark("12"));
    play.later(400);
    assert_eq!(play.closes(), "watch from 12");
    play.opens();
    play.later(400);
    assert_eq!(play.closes(), "watch from 12", "a newer version shows that it goes on");
}

#[test]
fn a_watch_that_falls_silent_on_a_server_that_sends_bookmarks_is_watched_on_without_asking_for_the_state() {
    let mut play = Play::watching();
    assert!(
        play.machine.deadline().unwrap() >= play.now + Duration::from_secs(300),
        "this server may send none"
    );
    play.later(100);
    play.hears(bookmark("11"));
    let deaf = play.now + Duration::from_secs(150);
    assert_eq!(play.machine.deadline(), Some(deaf));
    play.later(100);
    play.machine.heard(play.now);
    let deaf = play.now + Duration::from_secs(150);
    assert_eq!(play.machine.deadline(), Some(deaf), "half an event is a word too");
    play.later(150);
    assert_eq!(play.breaks(WatchFailure::Deadline(Duration::from_secs(150))), "watch from 11");
    play.opens();
    assert!(
        play.machine.deadline().unwrap() >= play.now + Duration::from_secs(300),
        "where nothing happens this one may have none"
    );
    play.hears(bookmark("12"));
    assert_eq!(play.machine.deadline(), Some(play.now + Duration::from_secs(150)));
    let longest = play.now + Duration::from_secs(610);
    for _ in 0..6 {
        play.later(100);
        play.machine.heard(play.now);
    }
    assert!(play.machine.deadline().unwrap() < longest, "it ends in any case");
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

#[test]
fn a_server_that_is_away_for_long_is_asked_ever_more_rarely_and_anew_after_two_calm_minutes() {
    let mut play = Play::watching();
    play.later(2);
    play.closes();
    for delay in ["0.8", "1.6", "3.2", "6.4", "12.8"] {
        assert_eq!(play.fails(WatchFailure::Refused), format!("sleep {delay} s and up to twice that"));
        play.later(60);
        assert_eq!(play.wakes(), "watch from 10");
    }
    play.opens();
    play.later(200);
    play.hears(added("a", 11));
    assert_eq!(play.hears(WatchEvent::Error(busy())).as_deref(), Some(SLEEP));
}
