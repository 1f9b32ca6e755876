//! Events on the server, in both APIs.

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::ListParams;
use setpoint::ManagerOptions;
use setpoint::recorder::EventApi;

use super::{Place, beside, until};

#[tokio::test]
async fn events_are_what_kubectl_describe_shows() {
    let place = Place::new().await;
    let object: ConfigMap = place.put("a", "1").await;
    for api in [EventApi::EventsV1, EventApi::CoreV1] {
        let manager = place.manager_with(ManagerOptions::with(|options| options.event_api = api));
        let recorder = manager.recorder("tester");
        let reason = format!("{api:?}");
        beside(&manager, async {
            recorder.normal(&object, &reason, "all is well");
            recorder.normal(&object, &reason, "all is well");
            let selector = format!("involvedObject.name=a,reason={reason}");
            let found = until("the event with its count", async || {
                let list = place.api::<Event>().list(&ListParams::default().fields(&selector)).await.unwrap();
                let twice = |event: &Event| {
                    event.count == Some(2)
                        || event.series.as_ref().is_some_and(|series| series.count == Some(2))
                };
                list.items.into_iter().find(twice)
            })
            .await;
            assert_eq!(found.message.as_deref(), Some("all is well"));
            assert_eq!(found.type_.as_deref(), Some("Normal"));
            assert_eq!(found.involved_object.uid, object.metadata.uid);
            assert_eq!(found.reporting_component.as_deref(), Some("tester"));
        })
        .await;
    }
}

/// kube-apiserver allows no change of a series event except its count.
#[tokio::test]
async fn many_messages_of_one_reason_become_one_event_that_counts() {
    let place = Place::new().await;
    let object: ConfigMap = place.put("a", "1").await;
    for api in [EventApi::EventsV1, EventApi::CoreV1] {
        let manager = place.manager_with(ManagerOptions::with(|options| options.event_api = api));
        let recorder = manager.recorder("tester");
        let reason = format!("Many{api:?}");
        beside(&manager, async {
            for number in 0..12 {
                recorder.normal(&object, &reason, format!("step {number}"));
            }
            let selector = format!("involvedObject.name=a,reason={reason}");
            let combined = until("the combined event", async || {
                let list = place.api::<Event>().list(&ListParams::default().fields(&selector)).await.unwrap();
                let counted = |event: &Event| {
                    event.count.or(event.series.as_ref().and_then(|series| series.count)) >= Some(2)
                };
                list.items.into_iter().find(counted)
            })
            .await;
            let message = combined.message.unwrap_or_default();
            assert!(message.starts_with("(combined from similar events): step "), "{message}");
        })
        .await;
    }
}
