//! The fate of an event: sent as new, counted on an earlier one, or dropped. Pure, with time as an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{EventType, Recorded};
use crate::leader_clock::LeaderClock;
use crate::queue::TokenBucket;

/// Distinct messages of one reason about one object before they are combined.
pub const AGGREGATE_AFTER: usize = 10;
/// How long messages count toward that, and how long an event is counted on before a new one is made.
pub const AGGREGATE_WINDOW: Duration = Duration::from_secs(600);
/// Events about one object that may come at once.
pub const SPAM_BURST: u32 = 25;
/// After a burst, one more event about the object in this time.
pub const SPAM_REFILL: Duration = Duration::from_secs(300);
/// How often the count of a series that goes on is sent.
pub const SERIES_REFRESH: Duration = Duration::from_secs(30 * 60);
/// A series ends when nothing was added for so long; its last count is sent then.
pub const SERIES_END: Duration = Duration::from_secs(6 * 60);
/// Entries of each table; the oldest is forgotten first.
pub const MAX_TRACKED: usize = 4096;

/// The bounds of correlation; the default is client-go's.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CorrelatorOptions {
    /// See [`AGGREGATE_AFTER`].
    pub aggregate_after: usize,
    /// See [`AGGREGATE_WINDOW`].
    pub window: Duration,
    /// See [`SPAM_BURST`].
    pub spam_burst: u32,
    /// See [`SPAM_REFILL`].
    pub spam_refill: Duration,
}

impl CorrelatorOptions {
    /// Returns the defaults after `change`. A struct literal does not compile, because fields may be added.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }
}

impl Default for CorrelatorOptions {
    fn default() -> Self {
        CorrelatorOptions {
            aggregate_after: AGGREGATE_AFTER,
            window: AGGREGATE_WINDOW,
            spam_burst: SPAM_BURST,
            spam_refill: SPAM_REFILL,
        }
    }
}

/// A bounded table that forgets what was inserted first.
struct Bounded<K, V> {
    entries: BTreeMap<K, V>,
    order: VecDeque<K>,
}

impl<K: Ord + Clone, V> Bounded<K, V> {
    fn new() -> Self {
        Bounded { entries: BTreeMap::new(), order: VecDeque::new() }
    }

    fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if !self.entries.contains_key(&key) {
            self.order.push_back(key.clone());
            if self.order.len() > MAX_TRACKED
                && let Some(oldest) = self.order.pop_front()
            {
                self.entries.remove(&oldest);
            }
        }
        self.entries.entry(key).or_insert_with(make)
    }
}

/// The controller and the object of an event.
type Source = [String; 6];
/// The events that are limited together: a flood of normal events must not silence warnings.
type Flow = (Source, EventType);
type Group = (Flow, String);

struct Combined {
    messages: Vec<String>,
    last: Duration,
}

struct Sent {
    /// The name under which the server has it, once it is known.
    name: Option<String>,
    count: u32,
    first: jiff::Timestamp,
    last: Duration,
    series: Option<Series>,
}

/// A series that the server knows: further events are counted here and told now and then.
struct Series {
    namespace: String,
    observed: jiff::Timestamp,
    told: u32,
    told_at: Duration,
    leader: Option<LeaderClock>,
}

/// The present count of a series, to be told to the server.
#[derive(Clone, Debug)]
pub(super) struct Refresh {
    pub(super) slot: Slot,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) count: u32,
    pub(super) observed: jiff::Timestamp,
    pub(super) leader: Option<LeaderClock>,
}

/// The next step for an event: what is sent, if anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A new event, with this message.
    Create { message: String, count: u32, first: jiff::Timestamp },
    /// One more of an event that was sent.
    Count { name: String, count: u32, message: String, first: jiff::Timestamp },
    /// Nothing now: it was counted, and its series is told later.
    Later,
    /// Nothing: the object floods.
    Drop,
}

/// The place of the name of a created event: its group, the part of the object, the related object, the message.
pub(super) type Slot = (Group, String, String, String);

/// Remembers events and says what becomes of new ones.
pub(super) struct Correlator {
    options: CorrelatorOptions,
    /// Whether repetitions become series (events.k8s.io) or counts that are told each time (core).
    series: bool,
    spam: Bounded<Flow, TokenBucket>,
    groups: Bounded<Group, Combined>,
    sent: Bounded<Slot, Sent>,
}

impl Correlator {
    pub(super) fn new(options: CorrelatorOptions, series: bool) -> Self {
        Correlator { options, series, spam: Bounded::new(), groups: Bounded::new(), sent: Bounded::new() }
    }

    /// Decides on one event at `now`, the time since any fixed start.
    pub(super) fn next_step(&mut self, event: &Recorded, now: Duration) -> (Step, Slot) {
        let flow: Flow = (source(event), event.kind);
        let group: Group = (flow.clone(), format!("{}/{}", event.reason, event.action));
        let window = self.options.window;
        let combined = self.groups.entry(group.clone(), || Combined { messages: Vec::new(), last: now });
        if now.saturating_sub(combined.last) > window {
            combined.messages.clear();
        }
        combined.last = now;
        // One that was told before it became too many goes on under its own name.
        let is_new = !combined.messages.contains(&event.message);
        let many = is_new && combined.messages.len() + 1 >= self.options.aggregate_after;
        if is_new && !many {
            combined.messages.push(event.message.clone());
        }
        let (message, distinct) = match many {
            true => (format!("(combined from similar events): {}", event.message), String::new()),
            false => (event.message.clone(), event.message.clone()),
        };
        let part = event.regarding.field_path.clone().unwrap_or_default();
        let slot: Slot = (group, part, related(event), distinct);
        if self.counted_in_series(&slot, event, now) {
            return (Step::Later, slot);
        }
        let fresh = || Sent { name: None, count: 0, first: event.time, last: now, series: None };
        let sent = self.sent.entry(slot.clone(), fresh);
        // A count goes on however long nothing came; a series does not.
        if self.series && now.saturating_sub(sent.last) > SERIES_END {
            *sent = fresh();
        }
        sent.count += 1;
        sent.last = now;
        // After the count: what floods is not told, and counted all the same.
        let per_second = 1.0 / self.options.spam_refill.as_secs_f64().max(1e-3);
        let burst = self.options.spam_burst;
        if !self.spam.entry(flow, || TokenBucket::new(per_second, burst)).try_take(now) {
            return (Step::Drop, slot);
        }
        let Some(name) = &sent.name else {
            return (Step::Create { message, count: sent.count, first: sent.first }, slot);
        };
        if self.series {
            sent.series = Some(Series {
                namespace: namespace(event).to_owned(),
                observed: event.time,
                told: sent.count,
                told_at: now,
                leader: event.leader.clone(),
            });
        }
        (Step::Count { name: name.clone(), count: sent.count, message, first: sent.first }, slot)
    }

    /// One more of a series that goes on.
    fn counted_in_series(&mut self, slot: &Slot, event: &Recorded, now: Duration) -> bool {
        let Some(sent) = self.sent.entries.get_mut(slot) else { return false };
        let Some(series) = sent.series.as_mut().filter(|_| now.saturating_sub(sent.last) <= SERIES_END)
        else {
            return false;
        };
        sent.count += 1;
        sent.last = now;
        series.observed = event.time;
        true
    }

    /// Whether a series goes on, so that [`Correlator::refresh`] must be called now and then.
    pub(super) fn has_series(&self) -> bool {
        self.sent.entries.values().any(|sent| sent.series.is_some())
    }

    /// The series whose count is to be told now: because they ended, or because it is time again.
    pub(super) fn refresh(&mut self, now: Duration) -> Vec<Refresh> {
        let mut due = Vec::new();
        for (slot, sent) in &mut self.sent.entries {
            let (Some(name), Some(series)) = (&sent.name, &mut sent.series) else { continue };
            let ended = now.saturating_sub(sent.last) >= SERIES_END;
            if !ended && now.saturating_sub(series.told_at) < SERIES_REFRESH {
                continue;
            }
            if sent.count > series.told {
                due.push(Refresh {
                    slot: slot.clone(),
                    namespace: series.namespace.clone(),
                    name: name.clone(),
                    count: sent.count,
                    observed: series.observed,
                    leader: series.leader.clone(),
                });
            }
            (series.told, series.told_at) = (sent.count, now);
            if ended {
                (sent.name, sent.series, sent.count) = (None, None, 0);
            }
        }
        due
    }

    /// Notes the name under which an event was created.
    pub(super) fn created(&mut self, slot: &Slot, name: &str) {
        if let Some(sent) = self.sent.entries.get_mut(slot) {
            sent.name = Some(name.to_owned());
        }
    }

    /// The event is gone from the server: the next one is created anew.
    pub(super) fn gone(&mut self, slot: &Slot) {
        if let Some(sent) = self.sent.entries.get_mut(slot) {
            (sent.name, sent.series) = (None, None);
        }
    }
}

fn source(event: &Recorded) -> Source {
    let object = &event.regarding;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    [
        event.controller.to_string(),
        event.host.to_string(),
        text(&object.api_version),
        text(&object.kind),
        format!("{}/{}", text(&object.namespace), text(&object.name)),
        text(&object.uid),
    ]
}

fn related(event: &Recorded) -> String {
    let Some(related) = &event.related else { return String::new() };
    let parts = [&related.kind, &related.namespace, &related.name, &related.uid];
    parts.map(|part| part.as_deref().unwrap_or_default()).join("/")
}

/// Events about objects without a namespace live in `default`.
pub(super) fn namespace(event: &Recorded) -> &str {
    event.regarding.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::EventApi;
    use k8s_openapi::api::core::v1::ObjectReference;

    fn event(name: &str, message: &str) -> Recorded {
        let regarding = ObjectReference { name: Some(name.into()), ..ObjectReference::default() };
        Recorded {
            controller: "test".into(),
            host: "".into(),
            api: EventApi::CoreV1,
            kind: EventType::Normal,
            reason: "Synced".into(),
            action: "Sync".into(),
            message: message.into(),
            regarding,
            related: None,
            time: jiff::Timestamp::UNIX_EPOCH,
            leader: None,
        }
    }

    fn created(message: impl Into<String>, count: u32) -> Step {
        Step::Create { message: message.into(), count, first: jiff::Timestamp::UNIX_EPOCH }
    }

    fn correlator() -> Correlator {
        Correlator::new(CorrelatorOptions::default(), false)
    }

    #[test]
    fn a_series_is_told_when_it_begins_now_and_then_and_when_it_ends() {
        let mut correlator = Correlator::new(CorrelatorOptions::default(), true);
        let (_, slot) = correlator.next_step(&event("a", "x"), Duration::ZERO);
        correlator.created(&slot, "a.1");
        let mut now = Duration::from_secs(1);
        assert!(matches!(correlator.next_step(&event("a", "x"), now).0, Step::Count { count: 2, .. }));
        // A thousand more, one every five seconds: beyond any spam filter, and without a request each.
        let mut told = Vec::new();
        for _ in 0..1000 {
            now += Duration::from_secs(5);
            assert_eq!(correlator.next_step(&event("a", "x"), now).0, Step::Later);
            told.extend(correlator.refresh(now).into_iter().map(|refresh| refresh.count));
        }
        assert_eq!(told, [362, 722], "once in half an hour");
        assert!(correlator.refresh(now + SERIES_END - Duration::from_secs(1)).is_empty());
        let last = correlator.refresh(now + SERIES_END);
        assert_eq!(
            (last[0].count, last[0].name.as_str(), last[0].namespace.as_str()),
            (1002, "a.1", "default")
        );
        assert!(!correlator.has_series());
        let later = now + SERIES_END + Duration::from_secs(1);
        assert!(
            matches!(correlator.next_step(&event("a", "x"), later).0, Step::Create { .. }),
            "a new one begins"
        );
    }

    #[test]
    fn equal_events_are_counted_on_the_first() {
        let mut correlator = correlator();
        let (step, slot) = correlator.next_step(&event("a", "x"), Duration::ZERO);
        assert_eq!(step, created("x", 1));
        correlator.created(&slot, "a.1");
        let (step, _) = correlator.next_step(&event("a", "x"), Duration::from_secs(1));
        assert!(matches!(step, Step::Count { name, count: 2, .. } if name == "a.1"));
        assert!(matches!(correlator.next_step(&event("b", "x"), Duration::ZERO).0, Step::Create { .. }));
        correlator.gone(&slot);
        let (step, _) = correlator.next_step(&event("a", "x"), Duration::from_secs(2));
        assert!(matches!(step, Step::Create { .. }));
    }

    #[test]
    fn the_tenth_distinct_message_is_combined() {
        let mut correlator = correlator();
        for number in 0..9 {
            let (step, _) = correlator.next_step(&event("a", &number.to_string()), Duration::ZERO);
            assert_eq!(step, created(number.to_string(), 1));
        }
        let (step, slot) = correlator.next_step(&event("a", "9"), Duration::ZERO);
        assert_eq!(step, created("(combined from similar events): 9", 1));
        correlator.created(&slot, "a.c");
        let (step, _) = correlator.next_step(&event("a", "10"), Duration::ZERO);
        assert!(matches!(step, Step::Count { count: 2, .. }));
        let later = AGGREGATE_WINDOW + Duration::from_secs(1);
        let (step, _) = correlator.next_step(&event("a", "11"), later);
        assert_eq!(step, created("11", 1));
    }

    #[test]
    fn what_was_told_before_there_were_too_many_is_counted_on() {
        let mut correlator = correlator();
        for number in 0..12 {
            let (_, slot) = correlator.next_step(&event("a", &number.to_string()), Duration::ZERO);
            correlator.created(&slot, &format!("a.{}", number.min(9)));
        }
        let (step, _) = correlator.next_step(&event("a", "3"), Duration::from_secs(1));
        assert!(matches!(step, Step::Count { name, count: 2, .. } if name == "a.3"));
        // Rest, not age, ends the combining.
        for minute in 1..12 {
            correlator.next_step(&event("a", "3"), Duration::from_secs(60 * minute));
        }
        let (step, _) = correlator.next_step(&event("a", "12"), Duration::from_secs(670));
        assert!(matches!(step, Step::Count { name, .. } if name == "a.9"));
    }

    #[test]
    fn a_flood_is_counted_though_it_is_not_told_and_the_count_does_not_grow_old() {
        let mut correlator = correlator();
        let (_, slot) = correlator.next_step(&event("a", "x"), Duration::ZERO);
        correlator.created(&slot, "a.1");
        for _ in 0..99 {
            correlator.next_step(&event("a", "x"), Duration::from_secs(1));
        }
        let (step, _) = correlator.next_step(&event("a", "x"), Duration::from_secs(3000));
        assert!(matches!(step, Step::Count { name, count: 101, .. } if name == "a.1"));
    }

    #[test]
    fn a_flood_is_cut_off_and_let_in_again_slowly() {
        let mut correlator = correlator();
        let sent = (0..100)
            .filter(|_| correlator.next_step(&event("a", "x"), Duration::ZERO).0 != Step::Drop)
            .count();
        assert_eq!(sent, SPAM_BURST as usize);
        assert_ne!(correlator.next_step(&event("a", "x"), SPAM_REFILL).0, Step::Drop);
        assert_eq!(correlator.next_step(&event("a", "x"), SPAM_REFILL).0, Step::Drop);
        assert_ne!(correlator.next_step(&event("b", "x"), SPAM_REFILL).0, Step::Drop);
    }

    #[test]
    fn a_flood_of_one_type_does_not_silence_the_other() {
        let mut correlator = correlator();
        for _ in 0..=SPAM_BURST {
            correlator.next_step(&event("a", "well"), Duration::ZERO);
        }
        assert_eq!(correlator.next_step(&event("a", "well"), Duration::ZERO).0, Step::Drop);
        let warning = Recorded { kind: EventType::Warning, ..event("a", "not well") };
        assert_eq!(correlator.next_step(&warning, Duration::ZERO).0, created("not well", 1));
    }

    #[test]
    fn events_about_another_part_or_with_another_relation_are_others() {
        let mut correlator = correlator();
        let (_, slot) = correlator.next_step(&event("a", "x"), Duration::ZERO);
        correlator.created(&slot, "a.1");
        let reference =
            |name: &str| ObjectReference { name: Some(name.into()), ..ObjectReference::default() };
        let part = ObjectReference { field_path: Some("spec.containers{c}".into()), ..reference("a") };
        let version = ObjectReference { api_version: Some("v2".into()), ..reference("a") };
        for other in [
            Recorded { regarding: part, ..event("a", "x") },
            Recorded { regarding: version, ..event("a", "x") },
            Recorded { related: Some(reference("b")), ..event("a", "x") },
        ] {
            assert_eq!(correlator.next_step(&other, Duration::ZERO).0, created("x", 1));
        }
        // And yet all of them are about one object, which may not flood.
        let flood = (0..100).filter(|number: &u32| {
            let related = Some(reference(&number.to_string()));
            correlator.next_step(&Recorded { related, ..event("a", "x") }, Duration::ZERO).0 != Step::Drop
        });
        assert!(flood.count() <= SPAM_BURST as usize);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut correlator = correlator();
        for number in 0..MAX_TRACKED + 10 {
            correlator.next_step(&event(&number.to_string(), "x"), Duration::ZERO);
        }
        assert_eq!(correlator.sent.entries.len(), MAX_TRACKED);
        assert_eq!(correlator.spam.entries.len(), MAX_TRACKED);
    }
}
