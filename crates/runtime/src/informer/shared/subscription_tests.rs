//! Resyncs beside events that wait.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;

use super::core::Core;
use super::mailbox::SubscribeOptions;
use super::mailbox_tests::{Handler, Truth};
use super::subscription::Subscription;
use crate::informer::cache::Delta;
use crate::informer::cache::Event;
use crate::informer::cache::{Scope, Store};
use crate::informer::watch::Target;

const PERIOD: Duration = Duration::from_secs(60);

/// An informer that has synced, empty, and one handler of it that resyncs.
fn informer(capacity: usize) -> (Arc<Core>, Subscription) {
    let core = Arc::new(Core::new(Target::of::<ConfigMap>(), Store::default()));
    core.store.add_scope(&Scope::All);
    core.process(&Scope::All, [Delta::Replaced { revision: 0, objects: vec![] }]);
    core.mark_synced_if_complete();
    let options = SubscribeOptions { resync: Some(PERIOD), capacity };
    let mut subscription = Subscription::begin(&core, &options, None);
    assert!(subscription.try_recv().is_none() && subscription.has_synced());
    (core, subscription)
}

/// Tells the informer what happened.
fn tell(core: &Core, event: Event) {
    let delta = match event {
        Event::Add { object, .. } => Delta::Added(object),
        Event::Update { new, .. } => Delta::Updated(new),
        Event::Delete { object, .. } => Delta::Deleted(object),
    };
    core.process(&Scope::All, [delta]);
}

fn in_paused_time(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(test);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each update begins where the handler was left, resyncs included, and it ends with the truth.
    #[test]
    fn a_resync_never_tells_of_a_state_out_of_turn(
        capacity in 1usize..12,
        steps in prop::collection::vec((0u8..6, prop::bool::weighted(0.2), 0u8..4, 0u64..40), 1..200),
    ) {
        in_paused_time(async {
            let (core, mut subscription) = informer(capacity);
            let (mut truth, mut handler) = (Truth::default(), Handler::default());
            for (name, delete, receives, seconds) in steps {
                tell(&core, truth.step(name, delete, false));
                for _ in 0..receives {
                    subscription.try_recv().into_iter().for_each(|event| handler.handle(event));
                }
                tokio::time::advance(Duration::from_secs(seconds)).await;
            }
            while let Some(event) = subscription.try_recv() {
                handler.handle(event);
            }
            assert_eq!(handler.objects.len(), truth.objects.len());
            for (key, object) in &truth.objects {
                assert!(handler.objects[key].same_state(object));
            }
        });
    }
}

#[test]
fn a_handler_that_is_always_behind_resyncs_too() {
    in_paused_time(async {
        let (core, mut subscription) = informer(100);
        let (mut truth, mut handler) = (Truth::default(), Handler::default());
        for name in 0..10 {
            tell(&core, truth.step(name, false, false));
        }
        tokio::time::advance(PERIOD).await;
        let mut resynced = 0;
        // The events that wait when the resync begins come first; then every fourth event is one of nine.
        for _ in 0..10 + 9 * 4 {
            tell(&core, truth.step(0, false, false));
            let event = subscription.try_recv().expect("events always wait");
            resynced += usize::from(event.is_resync());
            handler.handle(event);
        }
        assert!(subscription.lag().waiting > 0);
        assert_eq!(resynced, 9, "all but the one that changes all the time");
    });
}

/// A handler that is called where events come in is somebody else's code: it may call the informer, and the others have
/// theirs by then.
#[test]
fn who_handles_at_once_may_subscribe_and_is_the_last() {
    let core = Arc::new(Core::new(Target::of::<ConfigMap>(), Store::default()));
    let other = Arc::new(Mutex::new(None::<Subscription>));
    let told = Arc::new(Mutex::new(Vec::new()));
    let (own, others, telling) = (Arc::downgrade(&core), Arc::clone(&other), Arc::clone(&told));
    let direct = Box::new(move |_: &Event| {
        let core = own.upgrade().unwrap();
        assert!(core.is_free(), "to subscribe would wait for ever");
        let mut late = Subscription::begin(&core, &SubscribeOptions::default(), None);
        let mut others = others.lock().unwrap();
        for subscription in [&mut late, others.as_mut().unwrap()] {
            telling.lock().unwrap().extend(subscription.try_recv().map(|event| event.key().to_string()));
        }
    });
    let options = SubscribeOptions::default();
    let mut quick = Subscription::begin(&core, &options, Some(direct));
    *other.lock().unwrap() = Some(Subscription::begin(&core, &options, None));
    core.store.add_scope(&Scope::All);
    tell(&core, Truth::default().step(1, false, false));
    assert_eq!(*told.lock().unwrap(), ["n1", "n1"]);
    assert!(quick.try_recv().is_none(), "it was handled already");
}

/// The watches of two namespaces may end their first states at the same time.
#[test]
fn a_handler_has_synced_only_after_what_it_handles_at_once() {
    let core = Arc::new(Core::new(Target::of::<ConfigMap>(), Store::default()));
    let mut quick = Subscription::begin(&core, &SubscribeOptions::default(), Some(Box::new(|_| {})));
    let mailbox = quick.mailbox().upgrade().unwrap();
    let events = [Truth::default().step(1, false, true)];
    assert!(!mailbox.hand_over(&events));
    core.mark_synced_if_complete();
    assert!(quick.try_recv().is_none() && !quick.has_synced());
    mailbox.handle(&events);
    assert!(quick.try_recv().is_none() && quick.has_synced());
}
