//! What becomes of an event: sent as new, counted on an earlier one, or dropped. Pure, with time as an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{EventType, Recorded};
use crate::queue::TokenBucket;

/// Distinct messages of one reason about one object before they are combined.
pub const AGGREGATE_AFTER: usize = 10;
/// How long messages count toward that, and how long an event is counted on before a new one is made.
pub const AGGREGATE_WINDOW: Duration = Duration::from_secs(600);
/// Events about one object that may come at once.
pub const SPAM_BURST: u32 = 25;
/// After a burst, one more event about the object in this time.
pub const SPAM_REFILL: Duration = Duration::from_secs(300);
/// Entries of each table; the oldest is forgotten first.
pub const MAX_TRACKED: usize = 4096;

/// The bounds of correlation; the default is client-go's.
#[derive(Clone, Debug)]
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

/// Who speaks about what.
type Source = (String, String, String, String, EventType);
type Group = (Source, String);

struct Combined {
    messages: Vec<String>,
    since: Duration,
}

struct Sent {
    /// The name under which the server has it, once it is known.
    name: Option<String>,
    count: u32,
    first: jiff::Timestamp,
    last: Duration,
}

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A new event, with this message.
    Create { message: String },
    /// One more of an event that was sent.
    Count { name: String, count: u32, message: String, first: jiff::Timestamp },
    /// Nothing: the object floods.
    Drop,
}

/// Where the name of a created event is kept.
pub(super) type Slot = (Group, String);

/// Remembers events and says what becomes of new ones.
pub(super) struct Correlator {
    options: CorrelatorOptions,
    spam: Bounded<Source, TokenBucket>,
    groups: Bounded<Group, Combined>,
    sent: Bounded<Slot, Sent>,
}

impl Correlator {
    pub(super) fn new(options: CorrelatorOptions) -> Self {
        Correlator { options, spam: Bounded::new(), groups: Bounded::new(), sent: Bounded::new() }
    }

    /// Judges one event at `now`, the time since any fixed start.
    pub(super) fn judge(&mut self, event: &Recorded, now: Duration) -> (Step, Slot) {
        let source = source(event);
        let group: Group = (source.clone(), format!("{}/{}", event.reason, event.action));
        let window = self.options.window;
        let combined = self.groups.entry(group.clone(), || Combined { messages: Vec::new(), since: now });
        if now.saturating_sub(combined.since) > window {
            *combined = Combined { messages: Vec::new(), since: now };
        }
        if !combined.messages.contains(&event.message)
            && combined.messages.len() < self.options.aggregate_after
        {
            combined.messages.push(event.message.clone());
        }
        let many = combined.messages.len() >= self.options.aggregate_after;
        let (message, distinct) = match many {
            true => (format!("(combined from similar events): {}", event.message), String::new()),
            false => (event.message.clone(), event.message.clone()),
        };
        let slot: Slot = (group, distinct);
        let per_second = 1.0 / self.options.spam_refill.as_secs_f64().max(1e-3);
        let burst = self.options.spam_burst;
        if !self.spam.entry(source, || TokenBucket::new(per_second, burst)).try_take(now) {
            return (Step::Drop, slot);
        }
        let fresh = || Sent { name: None, count: 0, first: event.time, last: now };
        let sent = self.sent.entry(slot.clone(), fresh);
        if now.saturating_sub(sent.last) > window {
            *sent = fresh();
        }
        sent.count += 1;
        sent.last = now;
        let step = match &sent.name {
            Some(name) => Step::Count { name: name.clone(), count: sent.count, message, first: sent.first },
            None => Step::Create { message },
        };
        (step, slot)
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
            sent.name = None;
        }
    }
}

fn source(event: &Recorded) -> Source {
    let object = &event.regarding;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    (
        event.controller.to_string(),
        text(&object.kind),
        format!("{}/{}", text(&object.namespace), text(&object.name)),
        text(&object.uid),
        event.kind,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ObjectReference;

    fn event(name: &str, message: &str) -> Recorded {
        let regarding = ObjectReference { name: Some(name.into()), ..ObjectReference::default() };
        Recorded {
            controller: "test".into(),
            kind: EventType::Normal,
            reason: "Synced".into(),
            action: "Sync".into(),
            message: message.into(),
            regarding,
            related: None,
            time: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn equal_events_are_counted_on_the_first() {
        let mut correlator = Correlator::new(CorrelatorOptions::default());
        let (step, slot) = correlator.judge(&event("a", "x"), Duration::ZERO);
        assert_eq!(step, Step::Create { message: "x".into() });
        correlator.created(&slot, "a.1");
        let (step, _) = correlator.judge(&event("a", "x"), Duration::from_secs(1));
        assert!(matches!(step, Step::Count { name, count: 2, .. } if name == "a.1"));
        assert!(matches!(correlator.judge(&event("b", "x"), Duration::ZERO).0, Step::Create { .. }));
        correlator.gone(&slot);
        let (step, _) = correlator.judge(&event("a", "x"), Duration::from_secs(2));
        assert!(matches!(step, Step::Create { .. }));
    }

    #[test]
    fn the_tenth_distinct_message_is_combined() {
        let mut correlator = Correlator::new(CorrelatorOptions::default());
        for number in 0..9 {
            let (step, _) = correlator.judge(&event("a", &number.to_string()), Duration::ZERO);
            assert_eq!(step, Step::Create { message: number.to_string() });
        }
        let (step, slot) = correlator.judge(&event("a", "9"), Duration::ZERO);
        assert_eq!(step, Step::Create { message: "(combined from similar events): 9".into() });
        correlator.created(&slot, "a.c");
        let (step, _) = correlator.judge(&event("a", "10"), Duration::ZERO);
        assert!(matches!(step, Step::Count { count: 2, .. }));
        let later = AGGREGATE_WINDOW + Duration::from_secs(1);
        let (step, _) = correlator.judge(&event("a", "11"), later);
        assert_eq!(step, Step::Create { message: "11".into() });
    }

    #[test]
    fn a_flood_is_cut_off_and_let_in_again_slowly() {
        let mut correlator = Correlator::new(CorrelatorOptions::default());
        let sent =
            (0..100).filter(|_| correlator.judge(&event("a", "x"), Duration::ZERO).0 != Step::Drop).count();
        assert_eq!(sent, SPAM_BURST as usize);
        assert_ne!(correlator.judge(&event("a", "x"), SPAM_REFILL).0, Step::Drop);
        assert_eq!(correlator.judge(&event("a", "x"), SPAM_REFILL).0, Step::Drop);
        assert_ne!(correlator.judge(&event("b", "x"), SPAM_REFILL).0, Step::Drop);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut correlator = Correlator::new(CorrelatorOptions::default());
        for number in 0..MAX_TRACKED + 10 {
            correlator.judge(&event(&number.to_string(), "x"), Duration::ZERO);
        }
        assert_eq!(correlator.sent.entries.len(), MAX_TRACKED);
        assert_eq!(correlator.spam.entries.len(), MAX_TRACKED);
    }
}
