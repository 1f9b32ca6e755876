//! However many events wait, a handler that trusts them ends with the truth.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::mailbox::Mailbox;
use crate::informer::cache::Event;
use crate::informer::cache::Object;

fn object(name: u8, uid: u32, revision: u64) -> Object {
    let json = format!(r#"{{"metadata":{{"name":"n{name}","uid":"{uid}","resourceVersion":"{revision}"}}}}"#);
    Object::from_json(json.as_bytes()).unwrap()
}

/// The world that events come from: which object lives under each name.
#[derive(Default)]
pub(super) struct Truth {
    pub objects: BTreeMap<String, Object>,
    uids: u32,
    revision: u64,
}

impl Truth {
    /// Creates, changes or deletes what has this name, whichever is possible.
    pub fn step(&mut self, name: u8, delete: bool, initial: bool) -> Event {
        self.revision += 1;
        let key = format!("n{name}");
        match (self.objects.get(&key).cloned(), delete) {
            (Some(old), true) => {
                self.objects.remove(&key);
                Event::Delete { object: old, final_state_unknown: false }
            }
            (Some(old), false) => {
                let uid: u32 = old.uid().to_string().parse().unwrap();
                let new = object(name, uid, self.revision);
                self.objects.insert(key, new.clone());
                Event::Update { old, new }
            }
            (None, _) => {
                self.uids += 1;
                let new = object(name, self.uids, self.revision);
                self.objects.insert(key, new.clone());
                Event::Add { object: new, is_initial: initial }
            }
        }
    }
}

/// A handler that checks each event against what it was told before.
#[derive(Default)]
pub(super) struct Handler {
    pub objects: BTreeMap<String, Object>,
}

impl Handler {
    pub fn handle(&mut self, event: Event) {
        let key = event.key().to_string();
        match event {
            Event::Add { object, .. } => assert!(self.objects.insert(key, object).is_none()),
            Event::Update { old, new } => {
                let known = self.objects.insert(key, new.clone()).expect("updated objects are known");
                assert!(known.same_state(&old), "old is what the handler was told last");
                assert_eq!(old.uid(), new.uid());
                assert!(old.same_state(&new) || old.revision() < new.revision());
            }
            Event::Delete { object, .. } => {
                assert_eq!(
                    self.objects.remove(&key).map(|known| known.uid().clone()),
                    Some(object.uid().clone())
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn the_last_state_is_never_lost(
        capacity in 1usize..12,
        steps in prop::collection::vec((0u8..6, prop::bool::weighted(0.4), any::<bool>(), 0u8..3), 1..300),
    ) {
        let (mut mailbox, mut truth, mut handler) = (Mailbox::new(capacity), Truth::default(), Handler::default());
        let mut names = 0;
        for (name, delete, initial, pops) in steps {
            names = names.max(usize::from(name) + 1);
            mailbox.push(truth.step(name, delete, initial));
            prop_assert!(mailbox.len() <= capacity + 2 * names, "{} events wait", mailbox.len());
            prop_assert!(mailbox.slots() <= 3 * (capacity + 2 * names) + capacity, "gaps pile up");
            for _ in 0..pops.saturating_sub(1) {
                mailbox.pop().into_iter().for_each(|event| handler.handle(event));
            }
        }
        while let Some(event) = mailbox.pop() {
            handler.handle(event);
        }
        prop_assert_eq!(mailbox.initial, 0);
        prop_assert_eq!(handler.objects.len(), truth.objects.len());
        for (key, object) in &truth.objects {
            prop_assert!(handler.objects[key].same_state(object));
        }
    }

    #[test]
    fn below_its_capacity_every_event_is_told(steps in prop::collection::vec((0u8..6, any::<bool>()), 1..100)) {
        let (mut mailbox, mut truth) = (Mailbox::new(100), Truth::default());
        for (name, delete) in &steps {
            mailbox.push(truth.step(*name, *delete, false));
        }
        prop_assert_eq!(std::iter::from_fn(|| mailbox.pop()).count(), steps.len());
        prop_assert_eq!(mailbox.merged, 0);
    }
}

#[test]
fn a_stalled_handler_costs_nothing_for_objects_that_come_and_go() {
    let (mut mailbox, mut truth) = (Mailbox::new(4), Truth::default());
    for _ in 0..4 {
        mailbox.push(truth.step(0, false, false));
    }
    for _ in 0..10_000 {
        mailbox.push(truth.step(1, false, false));
        mailbox.push(truth.step(1, true, false));
    }
    assert_eq!(mailbox.len(), 4);
    assert!(mailbox.slots() < 32, "{}", mailbox.slots());
}
