//! From events to the queue: predicates, maps and channels.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use setpoint::{Action, Context, Controller, Key, Manager, ManagerOptions, Object, Target, Watch, predicate};
use tokio::sync::mpsc;

use crate::controllers::{CONFIG_MAPS, SECRETS, beside, config_map, until};
use crate::fake::Fake;

#[tokio::test(start_paused = true)]
async fn predicates_maps_and_channels_decide_what_is_queued() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let runs: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let seen = Arc::clone(&runs);
    let (sender, receiver) = mpsc::channel(4);
    Controller::for_kind::<ConfigMap>(&manager)
        .with_predicate(predicate::labels_changed())
        .watches(
            Watch::of::<Secret>()
                .map(|secret| vec![Key::namespaced("default", &format!("of-{}", secret.name()))]),
        )
        .channel("ticks", receiver)
        .register(move |_: Context, key: Key| {
            *seen.lock().unwrap().entry(key.to_string()).or_default() += 1;
            async { Ok(Action::done()) }
        })
        .unwrap();
    let count = |name: &str| runs.lock().unwrap().get(name).copied().unwrap_or(0);
    beside(&manager, async {
        fake.put(CONFIG_MAPS, config_map("a", "1"));
        until("the creation passes", || count("default/a") == 1).await;
        fake.put(CONFIG_MAPS, config_map("a", "2"));
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "s", "namespace": "default"}});
        fake.put(SECRETS, secret);
        until("the secret is mapped", || count("default/of-s") == 1).await;
        sender.send(Key::namespaced("default", "ticked")).await.unwrap();
        until("the channel", || count("default/ticked") == 1).await;
        assert_eq!(count("default/a"), 1, "a change of data is filtered");
        let mut labelled = config_map("a", "2");
        labelled["metadata"]["labels"] = json!({"x": "y"});
        fake.put(CONFIG_MAPS, labelled);
        until("the change of labels passes", || count("default/a") == 2).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_map_sees_the_object_before_and_after() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let runs: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&runs);
    let app = |object: &setpoint::Object| Key::cluster(object.labels().get("app").unwrap_or("none"));
    Controller::new(&manager, "apps")
        .watches(Watch::of::<Secret>().map(move |secret| vec![app(secret)]))
        .watches(Watch::of_target(Target::of::<ConfigMap>()).map_changes(|change| {
            let (Some(old), Some(new)) = (change.old, change.new) else { return Vec::new() };
            vec![Key::cluster(&format!("from-{}-to-{}", old.revision(), new.revision()))]
        }))
        .register(move |_: Context, key: Key| {
            seen.lock().unwrap().push(key.to_string());
            async { Ok(Action::done()) }
        })
        .unwrap();
    let secret = |app: &str| {
        json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "s", "namespace": "default", "labels": {"app": app}}})
    };
    beside(&manager, async {
        fake.put(SECRETS, secret("web"));
        until("the first", || *runs.lock().unwrap() == ["web"]).await;
        fake.put(SECRETS, secret("db"));
        until("where it was and where it is", || runs.lock().unwrap().len() == 3).await;
        runs.lock().unwrap()[1..].sort_unstable();
        assert_eq!(runs.lock().unwrap()[1..], ["db", "web"]);
        fake.put(CONFIG_MAPS, config_map("a", "1"));
        fake.put(CONFIG_MAPS, config_map("a", "2"));
        until("the change", || runs.lock().unwrap().contains(&"from-103-to-104".to_owned())).await;
        assert_eq!(runs.lock().unwrap().len(), 4, "the creation is mapped to nothing");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_predicate_for_all_filters_every_source_but_channels() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let runs: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&runs);
    let (sender, receiver) = mpsc::channel(4);
    let wanted = |object: &setpoint::Object| object.labels().get("watched").is_some();
    Controller::for_kind::<ConfigMap>(&manager)
        .with_predicate_for_all(predicate::Predicate::new(move |change| change.objects().any(wanted)))
        // Declared after it, and filtered all the same.
        .watches(
            Watch::of::<Secret>()
                .map(|secret| vec![Key::namespaced("default", &format!("of-{}", secret.name()))]),
        )
        .channel("ticks", receiver)
        .register(move |_: Context, key: Key| {
            seen.lock().unwrap().push(key.name().to_owned());
            async { Ok(Action::done()) }
        })
        .unwrap();
    let object = |kind: &str, name: &str, labels: serde_json::Value| {
        json!({"apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "namespace": "default", "labels": labels}})
    };
    beside(&manager, async {
        fake.put(CONFIG_MAPS, object("ConfigMap", "no", json!({})));
        fake.put(SECRETS, object("Secret", "no", json!({})));
        fake.put(CONFIG_MAPS, object("ConfigMap", "yes", json!({"watched": ""})));
        fake.put(SECRETS, object("Secret", "yes", json!({"watched": ""})));
        until("both that pass", || runs.lock().unwrap().len() == 2).await;
        sender.send(Key::namespaced("default", "ticked")).await.unwrap();
        until("the channel", || runs.lock().unwrap().len() == 3).await;
    })
    .await;
    let mut runs = runs.lock().unwrap().clone();
    runs.sort_unstable();
    assert_eq!(runs, ["of-yes", "ticked", "yes"]);
}

/// An event that an author's function panics on is not lost without a word, and no other is lost with it.
#[tokio::test(start_paused = true)]
async fn what_panics_on_an_event_is_counted_and_a_predicate_lets_it_pass() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let runs = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&runs);
    let fails_on = |wanted: &'static str| {
        move |object: &Object| {
            assert!(object.name() != wanted, "a mistake of the author");
            true
        }
    };
    let (predicate, map) = (fails_on("odd"), fails_on("unmapped"));
    Controller::for_kind::<ConfigMap>(&manager)
        .with_predicate(predicate::Predicate::new(move |change| change.objects().any(&predicate)))
        .watches(Watch::of::<Secret>().map(move |secret| {
            map(secret);
            vec![Key::namespaced("default", secret.name())]
        }))
        .register(move |_: Context, key: Key| {
            seen.lock().unwrap().push(key.name().to_owned());
            async { Ok(Action::done()) }
        })
        .unwrap();
    beside(&manager, async {
        for name in ["odd", "even"] {
            fake.put(CONFIG_MAPS, config_map(name, "1"));
        }
        for name in ["unmapped", "mapped"] {
            fake.put(SECRETS, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}}));
        }
        until("all but one", || runs.lock().unwrap().len() == 3).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let metrics = manager.metrics().encode();
        let panics = "setpoint_informer_handler_panics_total{";
        let counted: Vec<&str> = metrics.lines().filter(|line| line.starts_with(panics)).collect();
        assert!(counted.len() == 2 && counted.iter().all(|line| line.ends_with(" 1")), "{counted:?}");
    })
    .await;
    let mut names = runs.lock().unwrap().clone();
    names.sort();
    assert_eq!(names, ["even", "mapped", "odd"]);
}
