//! The store as a function of the deltas it was given.

use super::object::Object;
use super::snapshot::Scope;
use super::store::{Store, Waited};
use crate::informer::cache::Delta;
use crate::informer::cache::Event;

fn object(key: &str, uid: &str, revision: u64) -> Object {
    let (namespace, name) = key.split_once('/').unwrap();
    let json = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{revision}"}}}}"#
    );
    Object::from_json(json.as_bytes()).unwrap()
}

/// `+key@revision` added, `~` updated, `-` deleted, `?` deletion inferred; the revision is the object's.
fn words(events: &[Event]) -> Vec<String> {
    let word = |event: &Event| {
        let sign = match event {
            Event::Add { is_initial: true, .. } => '=',
            Event::Add { .. } => '+',
            Event::Update { .. } => '~',
            Event::Delete { final_state_unknown: true, .. } => '?',
            Event::Delete { .. } => '-',
        };
        format!("{sign}{}@{}", event.key(), event.object().revision())
    };
    events.iter().map(word).collect()
}

fn apply(store: &Store, delta: Delta) -> Vec<String> {
    words(&store.apply(&Scope::All, delta))
}

#[test]
fn an_event_older_than_what_is_cached_changes_nothing() {
    let store = Store::default();
    apply(&store, Delta::Replaced { revision: 5, objects: vec![object("a/x", "u", 4)] });
    assert_eq!(apply(&store, Delta::Updated(object("a/x", "u", 8))), ["~a/x@8"]);
    assert!(apply(&store, Delta::Updated(object("a/x", "u", 7))).is_empty(), "out of order");
    assert!(apply(&store, Delta::Updated(object("a/x", "u", 8))).is_empty(), "twice");
    assert!(apply(&store, Delta::Deleted(object("a/x", "u", 6))).is_empty(), "a deletion of an earlier life");
    assert_eq!(store.stale_events(), 3);
    assert_eq!(store.revision(), 8);
}

#[test]
fn a_late_event_does_not_bring_a_deleted_object_back() {
    let store = Store::default();
    apply(&store, Delta::Replaced { revision: 5, objects: vec![object("a/x", "u", 4)] });
    assert_eq!(apply(&store, Delta::Deleted(object("a/x", "u", 9))), ["-a/x@9"]);
    assert!(apply(&store, Delta::Updated(object("a/x", "u", 8))).is_empty());
    assert!(apply(&store, Delta::Deleted(object("a/x", "u", 9))).is_empty());
    assert_eq!(apply(&store, Delta::Added(object("a/x", "v", 10))), ["+a/x@10"]);
}

#[test]
fn versions_that_are_no_numbers_are_taken_in_order_of_arrival() {
    let store = Store::default();
    let odd = |version: &str| {
        let json = format!(r#"{{"metadata":{{"name":"x","namespace":"a","resourceVersion":"{version}"}}}}"#);
        Object::from_json(json.as_bytes()).unwrap()
    };
    apply(&store, Delta::Replaced { revision: 0, objects: vec![odd("one")] });
    assert_eq!(apply(&store, Delta::Updated(odd("two"))), ["~a/x@0"]);
    assert_eq!(store.get("a/x").unwrap().resource_version(), "two");
    assert_eq!(apply(&store, Delta::Deleted(odd("three"))), ["-a/x@0"]);
}

#[test]
fn a_replacement_infers_deletions_and_leaves_the_unchanged_alone() {
    let store = Store::default();
    let first = vec![object("a/x", "u", 1), object("a/y", "v", 2), object("a/z", "w", 3)];
    assert_eq!(
        apply(&store, Delta::Replaced { revision: 5, objects: first }),
        ["=a/x@1", "=a/y@2", "=a/z@3"]
    );
    let second = vec![object("a/n", "n", 8), object("a/y", "v", 2), object("a/z", "other", 7)];
    let told = apply(&store, Delta::Replaced { revision: 9, objects: second });
    assert_eq!(told, ["?a/x@1", "+a/n@8", "?a/z@3", "+a/z@7"]);
}

#[test]
fn a_server_that_went_back_gives_old_revisions_to_other_states() {
    let store = Store::default();
    let valued = |name: &str, value: u32| {
        let metadata = format!(r#"{{"name":"{name}","namespace":"a","uid":"u","resourceVersion":"4"}}"#);
        Object::from_json(format!(r#"{{"metadata":{metadata},"value":{value}}}"#).as_bytes()).unwrap()
    };
    apply(&store, Delta::Replaced { revision: 9, objects: vec![valued("x", 1), valued("y", 1)] });
    let objects = || vec![valued("x", 1), valued("y", 2)];
    assert!(apply(&store, Delta::Replaced { revision: 9, objects: objects() }).is_empty(), "not looked at");
    let told = store.apply(&Scope::All, Delta::Replaced { revision: 5, objects: objects() });
    assert_eq!(words(&told), ["~a/y@4"]);
    assert!(!told[0].is_resync(), "another state under an old revision");
    assert_eq!(store.get("a/y").unwrap().path("value").as_deref(), Some("2"));
}

#[test]
fn scopes_are_replaced_and_removed_on_their_own() {
    let store = Store::default();
    let (a, b) = (Scope::namespace("a"), Scope::namespace("b"));
    store.add_scope(&a);
    store.apply(&b, Delta::Replaced { revision: 7, objects: vec![object("b/x", "u", 1)] });
    assert!(!store.all_scopes_synced());
    assert_eq!(store.revision(), 0, "nothing is certain while one scope has not synced");
    store.apply(
        &a,
        Delta::Replaced { revision: 5, objects: vec![object("a/x", "u", 1), object("b/y", "u", 1)] },
    );
    assert_eq!((store.len(), store.revision()), (2, 5));
    assert_eq!(words(&store.apply(&a, Delta::Replaced { revision: 6, objects: vec![] })), ["?a/x@1"]);
    assert_eq!(words(&store.remove_scope(&b)), ["?b/x@1"]);
    assert!(store.progress(Some("b")).is_none());
}

#[test]
fn a_sync_tells_each_object_of_its_scope_again_and_changes_nothing() {
    let store = Store::default();
    let (a, b) = (Scope::namespace("a"), Scope::namespace("b"));
    store.apply(
        &a,
        Delta::Replaced { revision: 5, objects: vec![object("a/x", "u", 1), object("a/y", "v", 2)] },
    );
    store.apply(&b, Delta::Replaced { revision: 7, objects: vec![object("b/x", "w", 3)] });
    let told = store.apply(&a, Delta::Sync);
    assert_eq!(words(&told), ["~a/x@1", "~a/y@2"]);
    assert!(told.iter().all(Event::is_resync));
    assert_eq!(apply(&store, Delta::Sync), ["~a/x@1", "~a/y@2", "~b/x@3"]);
    assert_eq!((store.revision(), store.stale_events(), store.progress(None)), (5, 0, None));
}

#[tokio::test]
async fn waits_end_when_the_state_has_come() {
    let store = Store::default();
    assert_eq!(store.wait_until(None, 5).await, Waited::NotCovered);
    let pod = object("a/x", "00000000-0000-4000-8000-000000000001", 4);
    apply(&store, Delta::Replaced { revision: 5, objects: vec![pod.clone()] });
    assert_eq!(store.wait_until(Some("a"), 5).await, Waited::Seen);
    let bookmarks = async { apply(&store, Delta::Bookmark { revision: 9 }) };
    let (waited, _) = tokio::join!(store.wait_until(None, 9), bookmarks);
    assert_eq!(waited, Waited::Seen);
    let deletes = async { apply(&store, Delta::Deleted(object("a/x", &pod.uid().to_string(), 12))) };
    let (waited, _) = tokio::join!(store.wait_gone(pod.key(), pod.uid()), deletes);
    assert_eq!(waited, Waited::Seen);
}

#[test]
fn bytes_are_those_of_the_cached_objects() {
    let store = Store::default();
    let objects: Vec<_> = (0..10).map(|number| object(&format!("a/{number}"), "u", 1)).collect();
    let bytes: usize = objects.iter().map(Object::heap_bytes).sum();
    apply(&store, Delta::Replaced { revision: 5, objects });
    assert_eq!(store.bytes(), bytes as u64);
    apply(&store, Delta::Replaced { revision: 6, objects: vec![] });
    assert_eq!(store.bytes(), 0);
}
