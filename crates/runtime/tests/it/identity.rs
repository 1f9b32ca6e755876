//! The names under which an operator sends.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint::leader_election::LeaderElection;
use setpoint::recorder::EventApi;
use setpoint::{Action, Context, Controller, Key, Manager, ManagerOptions};

use crate::controllers::{CONFIG_MAPS, beside, config_map};
use crate::fake::Fake;

#[tokio::test(start_paused = true)]
async fn every_request_names_the_operator_and_leases_and_events_have_its_field_manager() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let options = ManagerOptions::with(|options| {
        options.name = "cafe".into();
        options.version = "1.2.0".into();
        options.leader_election = Some(LeaderElection::new("default", "lease"));
    });
    let manager = Manager::new(fake.client(), options);
    for (name, api) in [("new", EventApi::EventsV1), ("old", EventApi::CoreV1)] {
        Controller::for_kind::<ConfigMap>(&manager)
            .named(name)
            .events(name, api)
            .register(|ctx: Context, key: Key| async move {
                let object = ctx.client().live().get::<ConfigMap>(&key).await?.unwrap();
                ctx.recorder().normal(&object, "Seen", "a ConfigMap");
                Ok(Action::requeue_after(Duration::from_secs(3)))
            })
            .unwrap();
    }
    beside(&manager, tokio::time::sleep(Duration::from_secs(100))).await;
    let requests = fake.agents();
    for (request, agent) in &requests {
        let agent = agent.as_deref().unwrap_or_default();
        assert!(agent.starts_with("cafe/1.2.0 (") && agent.contains(") setpoint/"), "{request}: {agent}");
    }
    let of = |method: &str, part: &str| {
        let found =
            requests.iter().filter(|(request, _)| request.starts_with(method) && request.contains(part));
        let found: Vec<&str> = found.map(|(request, _)| request.as_str()).collect();
        assert!(!found.is_empty(), "no {method} of {part}");
        found
    };
    for (method, part) in [
        ("POST", "/leases"),
        ("PUT", "/leases/lease"),
        ("POST", "/apis/events.k8s.io/v1/namespaces/default/events"),
        ("PATCH", "/apis/events.k8s.io/v1/namespaces/default/events/"),
        ("POST", "/api/v1/namespaces/default/events"),
        ("PATCH", "/api/v1/namespaces/default/events/"),
    ] {
        for request in of(method, part) {
            assert!(request.ends_with("?fieldManager=cafe"), "{request}");
        }
    }
}
