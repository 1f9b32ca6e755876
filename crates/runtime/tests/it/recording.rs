//! Events: counted, combined, never in the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint::recorder::EventApi;
use setpoint::{Manager, ManagerOptions};
use tower::BoxError;

use crate::controllers::{CONFIG_MAPS, beside, config_map, until};
use crate::fake::Fake;

#[tokio::test(start_paused = true)]
async fn equal_events_become_one_with_a_count() {
    for (api, collection) in
        [(EventApi::EventsV1, "apis/events.k8s.io/v1/events"), (EventApi::CoreV1, "api/v1/events")]
    {
        let fake = Fake::new();
        let stored = fake.put(CONFIG_MAPS, config_map("a", "1"));
        let object: ConfigMap = serde_json::from_value(stored).unwrap();
        let manager = Manager::new(fake.client(), ManagerOptions::with(|options| options.event_api = api));
        let recorder = manager.recorder("tester");
        beside(&manager, async {
            for _ in 0..3 {
                recorder.normal(&object, "Synced", "synced successfully");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            if api == EventApi::EventsV1 {
                until("the series has begun", || fake.writes().len() == 2).await;
                // Further ones are counted here and told when the series ends.
                tokio::time::sleep(setpoint::recorder::SERIES_END + Duration::from_secs(61)).await;
            }
            until("three writes", || fake.writes().len() == 3).await;
        })
        .await;
        let created = &fake.bodies()[0];
        let name = created["metadata"]["name"].as_str().unwrap();
        let event = fake.get(collection, "default", name).unwrap();
        match api {
            EventApi::EventsV1 => {
                assert_eq!(event["series"]["count"], 3);
                assert_eq!(event["regarding"]["name"], "a");
                assert_eq!(
                    (&event["note"], &event["reason"]),
                    (&"synced successfully".into(), &"Synced".into())
                );
            }
            EventApi::CoreV1 => {
                assert_eq!(event["count"], 3);
                assert_eq!(event["involvedObject"]["kind"], "ConfigMap");
                assert_eq!(event["source"]["component"], "tester");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn recording_never_waits_and_what_does_not_fit_is_counted() {
    let fake = Fake::new();
    let object: ConfigMap = serde_json::from_value(config_map("a", "1")).unwrap();
    let options = ManagerOptions::with(|options| options.event_api = EventApi::CoreV1);
    let manager = Manager::new(fake.client(), options);
    let recorder = manager.recorder("tester");
    // Nobody sends before the manager runs.
    for _ in 0..setpoint::recorder::QUEUE + 7 {
        recorder.warning(&object, "Flood", "again");
    }
    beside(&manager, until("the burst", || fake.writes().len() == 25)).await;
    let metrics = manager.metrics().encode();
    assert!(metrics.contains(r#"setpoint_events_dropped_total{reason="queue-full"} 7"#), "{metrics}");
    assert!(metrics.contains(r#"setpoint_events_dropped_total{reason="spam"} 975"#), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_equal_events_is_one_series_and_two_requests() {
    let fake = Fake::new();
    let object: ConfigMap = serde_json::from_value(config_map("a", "1")).unwrap();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let recorder = manager.recorder("tester");
    for _ in 0..500 {
        recorder.warning(&object, "Flood", "again");
    }
    beside(&manager, async {
        until("it has begun", || fake.writes().len() == 2).await;
        tokio::time::sleep(setpoint::recorder::SERIES_END + Duration::from_secs(61)).await;
    })
    .await;
    assert_eq!(fake.writes().len(), 3);
    assert_eq!(fake.bodies()[2]["series"]["count"], 500);
    assert!(!manager.metrics().encode().contains("setpoint_events_dropped_total{"));
}

#[tokio::test(start_paused = true)]
async fn a_series_that_the_server_forgot_is_begun_anew() {
    let fake = Fake::new();
    let object: ConfigMap = serde_json::from_value(config_map("a", "1")).unwrap();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let recorder = manager.recorder("tester");
    let created = || fake.writes().iter().filter(|call| call.starts_with("POST")).count();
    beside(&manager, async {
        for _ in 0..2 {
            recorder.warning(&object, "Failing", "still");
        }
        until("it has begun", || fake.writes().len() == 2).await;
        let name = fake.bodies()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        fake.remove("apis/events.k8s.io/v1/events", "default", &name);
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_secs(60)).await;
            recorder.warning(&object, "Failing", "still");
        }
        until("a second one", || created() == 2).await;
    })
    .await;
}

/// The server took the event, and its answer was lost: it is sent again, and refused as known.
#[tokio::test(start_paused = true)]
async fn an_event_whose_answer_was_lost_is_counted_on() {
    let fake = Fake::new();
    let object: ConfigMap = serde_json::from_value(config_map("a", "1")).unwrap();
    let (through, lost) = (fake.client(), Arc::new(AtomicBool::new(false)));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (through, lost) = (through.clone(), Arc::clone(&lost));
        async move {
            let answer = through.send(request).await?;
            match lost.swap(true, Ordering::SeqCst) {
                false => Err(BoxError::from("the connection broke")),
                true => Ok::<_, BoxError>(answer),
            }
        }
    });
    let manager = Manager::new(kube::Client::new(service, "default"), ManagerOptions::default());
    let recorder = manager.recorder("tester");
    for _ in 0..2 {
        recorder.warning(&object, "Failing", "still");
    }
    beside(&manager, until("both are told", || fake.writes().len() == 3)).await;
    let methods: Vec<String> =
        fake.writes().iter().filter_map(|call| call.split(' ').next().map(str::to_owned)).collect();
    assert_eq!(methods, ["POST", "POST", "PATCH"]);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_hold_the_lease_sends_no_events() {
    let fake = Fake::new();
    let object: ConfigMap = serde_json::from_value(config_map("a", "1")).unwrap();
    let lease = serde_json::json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l", "namespace": "default"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15}});
    fake.put("apis/coordination.k8s.io/v1/leases", lease);
    let election = setpoint::leader_election::LeaderElection::new("default", "l").identity("me");
    let options = ManagerOptions::with(|options| options.leader_election = Some(election));
    let manager = Manager::new(fake.client(), options);
    let recorder = manager.recorder("tester");
    beside(&manager, async {
        recorder.warning(&object, "Early", "somebody else leads");
        let dropped = r#"setpoint_events_dropped_total{reason="not-leader"} 1"#;
        until("it is dropped", || manager.metrics().encode().contains(dropped)).await;
        assert!(fake.writes().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_recorder_may_write_another_api_and_name_its_host() {
    let fake = Fake::new();
    let object: ConfigMap = serde_json::from_value(config_map("a", "1")).unwrap();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let series = manager.recorder("tester");
    let counts = series.with_api(EventApi::CoreV1).with_host("here");
    beside(&manager, async {
        series.normal(&object, "Synced", "told");
        counts.normal(&object, "Synced", "told");
        until("both are told", || fake.writes().len() == 2).await;
    })
    .await;
    let bodies = fake.bodies();
    assert_eq!(bodies[0]["apiVersion"], "events.k8s.io/v1");
    assert_eq!((&bodies[1]["apiVersion"], &bodies[1]["count"]), (&"v1".into(), &1.into()));
    assert_eq!(bodies[1]["source"], serde_json::json!({"component": "tester", "host": "here"}));
    assert_eq!(bodies[1]["reportingInstance"], "here");
}

#[tokio::test(start_paused = true)]
async fn a_series_is_told_while_other_events_keep_coming() {
    let fake = Fake::new();
    let [ending, going_on]: [ConfigMap; 2] =
        ["a", "b"].map(|name| serde_json::from_value(config_map(name, "1")).unwrap());
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let recorder = manager.recorder("tester");
    beside(&manager, async {
        for _ in 0..3 {
            recorder.warning(&ending, "Failed", "a few times");
        }
        until("the first series has begun", || fake.writes().len() == 2).await;
        // Twice as often as the series are looked through, for longer than both of their times.
        for _ in 0..80 {
            recorder.warning(&going_on, "Failed", "again and again");
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
    })
    .await;
    let counts = |name: &str| -> Vec<u64> {
        let named = |call: &str| call.starts_with("PATCH") && call.contains(&format!("/{name}."));
        let told = fake.writes().into_iter().zip(fake.bodies()).filter(|(call, _)| named(call));
        told.map(|(_, body)| body["series"]["count"].as_u64().unwrap()).collect()
    };
    assert_eq!(counts("a"), [2, 3], "when it began and when it ended");
    assert_eq!(counts("b"), [2, 62], "when it began and half an hour later");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_long_for_the_server_is_cut_between_characters() {
    let fake = Fake::new();
    let object: ConfigMap = serde_json::from_value(config_map("a", "1")).unwrap();
    let name = format!("x{}", "ä".repeat(100));
    let manager = Manager::new(fake.client(), ManagerOptions::with(|options| options.name = name));
    // Two bytes each, after an odd one: both bounds, which are even, fall within a character.
    let recorder = manager.recorder("tester-");
    beside(&manager, async {
        recorder.normal(&object, "Told", format!("x{}", "ü".repeat(1000)));
        until("it is told", || fake.writes().len() == 1).await;
    })
    .await;
    let event = &fake.bodies()[0];
    assert_eq!(event["note"], format!("x{}", "ü".repeat(511)));
    assert_eq!(event["reportingInstance"], format!("tester--x{}", "ä".repeat(59)));
}
